package sqliteengine

import (
	"bytes"
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// jobFault is what is wrong with one job.
type jobFault struct{ kind, detail string }

// jobs walks the jobs of a queue and counts them.
func (c *check) jobs(ctx context.Context, q *queue) error {
	var counted duly.Sizes
	var last duly.Number
	for n := checkPage; n == checkPage; {
		page, err := c.jobPage(q, last)
		if err != nil {
			return err
		}
		for i := range page {
			if err := c.job(q, &page[i], &counted); err != nil {
				return err
			}
			last = page[i].number
		}
		n = len(page)
		if q.kind == kindGroup {
			c.report.Messages += int64(n)
		} else {
			c.report.Jobs += int64(n)
		}
		if err := c.progress(ctx); err != nil {
			return err
		}
	}

	c.counters(q, counted)
	return nil
}

// checked is one job as Check reads it.
type checked struct {
	job
	bad      error // it can't be read
	place    []byte
	at       int64 // its place, where that is a number
	bodyRow  bool  // there is a row in bodies
	rawState duly.State
}

func (c *check) jobPage(q *queue, last duly.Number) (page []checked, err error) {
	from := last[:]
	if last == (duly.Number{}) {
		from = nil
	}
	s := c.t.stmt("check_jobs").Int(1, q.id).Blob(2, from).Int(3, checkPage)
	for {
		row, err := s.Step()
		if err != nil || !row {
			return page, err
		}
		page = append(page, scanChecked(s, q))
	}
}

func scanChecked(s *sq.Stmt, q *queue) (k checked) {
	k.bad = k.scanJob(s, q)
	if k.rawState = duly.State(s.ColInt(1)); k.rawState == duly.StateBlocked {
		k.place = s.ColBytes(2)
	} else {
		k.at = s.ColInt(2)
	}
	k.bodyRow = s.ColInt(12) != 0
	return k
}

func (c *check) job(q *queue, k *checked, counted *duly.Sizes) error {
	*counted.Of(k.rawState)++
	faults, err := c.t.judge(k)
	for _, f := range faults {
		number, kind := k.number, f.kind
		c.found(kind, q, k.ID, f.detail, func(t *tx) (bool, error) { return t.mendJob(q.ref, number, kind) })
	}
	return err
}

// judge finds everything that is wrong with one job.
func (t *tx) judge(k *checked) (faults []jobFault, err error) {
	found := func(kind, format string, args ...any) {
		faults = append(faults, jobFault{kind, fmt.Sprintf(format, args...)})
	}
	if k.bad != nil {
		found(faultUnreadable, "%v", k.bad)
		return faults, nil
	}
	if c := k.cursor(); c.at != k.at || !bytes.Equal(c.key, k.place) {
		found(faultPlace, "%s", k.state)
	}

	switch {
	case k.external && !k.bodyRow:
		found(faultBodyMissing, "")
	case !k.external && k.bodyRow:
		found(faultBodyTwice, "")
	}

	if err := t.judgeEntries(k, found); err != nil {
		return nil, err
	}
	if err := t.judgeMessage(k, found); err != nil {
		return nil, err
	}

	return faults, t.judgeKey(k, found)
}

// judgeEntries compares a job with its alias, its expiry and its merge key.
func (t *tx) judgeEntries(k *checked, found func(kind, format string, args ...any)) error {
	q := k.q
	if alias := k.alias(); alias != "" {
		n, ok, err := t.number(t.stmt("alias_find").Int(1, q.id).Text(2, alias))
		if err != nil {
			return err
		}
		if !ok || n != k.number {
			found(faultAliasMissing, "")
		}
	}

	e := k.entries()
	if e.expiry != 0 {
		_, ok, err := t.integer(t.stmt("expiry_has").Int(1, q.id).Int(2, e.expiry).Blob(3, k.number[:]))
		if err != nil {
			return err
		}
		if !ok {
			found(faultExpiryMissing, "at %d", e.expiry)
		}
	}

	if e.mergeKey != "" {
		n, ok, err := t.number(t.stmt("merge_find").Int(1, q.id).Text(2, k.OrderKey).Text(3, e.mergeKey))
		if err != nil {
			return err
		}
		if !ok || n != k.number {
			found(faultMergeMissing, "")
		}
	}

	return nil
}

// judgeKey compares a job with the holder of its order key.
func (t *tx) judgeKey(k *checked, found func(kind, format string, args ...any)) error {
	if k.lockKey() == "" {
		return nil
	}
	n, busy, err := t.head(k.q, k.OrderKey)
	if err != nil {
		return err
	}
	switch {
	case k.state == duly.StateBlocked && !busy:
		found(faultBlockedByNone, "")
	case k.state == duly.StateBlocked && n == k.number:
		found(faultBlockedByNone, "it holds the key itself")
	case (k.state == duly.StateReady || k.state == duly.StateLeased) && (!busy || n != k.number):
		found(faultKeyNotHeld, "%s", k.state)
	}
	return nil
}

// mendJob judges a job again and mends one kind of fault, if it is still there.
func (t *tx) mendJob(ref duly.QueueRef, number duly.Number, kind string) (bool, error) {
	q := t.queue(ref)
	if q == nil {
		return false, nil
	}

	s := t.stmt("check_job").Int(1, q.id).Blob(2, number[:])
	row, err := s.Step()
	if err != nil || !row {
		return false, err
	}

	k := scanChecked(s, q)
	s.Reset()
	faults, err := t.judge(&k)
	if err != nil {
		return false, err
	}

	for _, f := range faults {
		if f.kind == kind {
			k.hasBody = false // it was not read
			return true, t.mend(&k, kind)
		}
	}

	return false, nil
}

func (t *tx) mend(k *checked, kind string) error {
	j := &k.job
	switch kind {
	case faultUnreadable:
		return t.quarantine(j.q, unreadableRow{j.number, k.rawState, k.bad})
	case faultMessageGone, faultBeyondCursor, faultCopyMissing, faultCopyNumber:
		return t.mendMessage(j, kind)
	case faultPlace:
		return t.put(j)
	case faultBodyMissing:
		return t.buryWithoutBody(j)
	case faultBodyTwice:
		return t.dropBody(j)
	case faultAliasMissing:
		return t.mendAlias(j)
	case faultExpiryMissing:
		note(&j.q.first.expiry, j.stored.expiry)
		_, err := t.stmt("expiry_add").Int(1, j.q.id).Int(2, j.stored.expiry).Blob(3, j.number[:]).Run()
		return err
	case faultMergeMissing:
		return t.mendMerge(j)
	case faultKeyNotHeld:
		return t.mendHolder(j)
	case faultBlockedByNone:
		if err := t.dropHead(j.q, j.OrderKey, j.number); err != nil {
			return err
		}
		return t.passKey(j.q, j.OrderKey)
	}

	return errJob
}

// buryWithoutBody makes a dead letter of a job whose body is lost, so that
// somebody learns of it and no handler runs on nothing.
func (t *tx) buryWithoutBody(j *job) error {
	j.Body, j.external = nil, false
	if _, err := t.stmt("body_inline").Int(1, j.q.id).Blob(2, j.number[:]).Blob(3, []byte{}).Run(); err != nil {
		return err
	}
	if !j.state.Waiting() && j.state != duly.StateLeased {
		return nil
	}
	if j.state == duly.StateLeased {
		j.ended++
	}
	j.lastError = "the stored body is lost"
	return t.die(j)
}

// mendAlias lets a job's own ID find it. Where the ID has become another job's,
// this one goes by its number from now on.
func (t *tx) mendAlias(j *job) error {
	other, err := t.byID(j.q, j.ID)
	if err != nil {
		return err
	}
	if other != nil && other.number != j.number {
		j.ID = j.number.String()
		return t.putRow(j)
	}
	if _, err := t.stmt("alias_clear").Int(1, j.q.id).Text(2, j.ID).Run(); err != nil {
		return err
	}
	j.q.aliased = true
	_, err = t.stmt("alias_add").Int(1, j.q.id).Text(2, j.ID).Blob(3, j.number[:]).Run()
	return err
}

// mendMerge lets a job hold its merge key. Where another job holds it, this one
// merges no more, and both are delivered.
func (t *tx) mendMerge(j *job) error {
	other, err := t.merger(j)
	if err != nil {
		return err
	}
	if other != nil {
		j.Merge, j.MergeKey = duly.Merge{}, ""
		return t.putRow(j)
	}
	_, err = t.stmt("merge_add").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey).Blob(4, j.number[:]).Run()
	return err
}

// mendHolder gives a ready or leased job its order key. Where another job holds
// it this one waits for it; a delivery under way ends by that, for one receipt
// per key is what is promised.
func (t *tx) mendHolder(j *job) error {
	state, err := t.readyOrBlocked(j)
	if err != nil || state == duly.StateReady {
		return err
	}
	if j.state == duly.StateLeased {
		j.ended++
		j.q.counters.Stalled++
	}
	j.state = duly.StateBlocked
	return t.put(j)
}

package sqliteengine

import (
	"bytes"
	"context"
	"fmt"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// checkTx is a transaction that finds and repairs faults.
type checkTx struct{ *tx }

// jobFault is a fault of one job.
type jobFault struct{ kind, detail string }

// jobs checks and counts the jobs of a queue.
func (c *check) jobs(ctx context.Context, q *queue) error {
	var counted duly.Sizes
	var last duly.Number
	// A page that is not full is the last one.
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
			c.result.Messages += int64(n)
		} else {
			c.result.Jobs += int64(n)
		}
		if err := c.progress(ctx); err != nil {
			return err
		}
	}

	c.counters(q, counted)
	return nil
}

// checked is a job with the columns that only Check reads.
type checked struct {
	job
	bad      error // the reason why the row is unreadable, or nil
	place    []byte
	at       int64 // the sort key, unless the job is blocked
	bodyRow  bool  // whether the job has a row in bodies
	rawState duly.State
}

func (c *check) jobPage(q *queue, last duly.Number) (page []checked, err error) {
	from := last[:]
	if last == (duly.Number{}) {
		// No number is smaller than the empty blob, so the first page begins with the first job.
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

func scanChecked(s *sqliteconn.Stmt, q *queue) (k checked) {
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
	// The raw state is counted, because an unreadable row has no parsed state.
	*counted.Of(k.rawState)++
	faults, err := c.t.faultsOf(k)
	for _, f := range faults {
		// The repair runs after the whole check. With these copies the page's memory can be freed
		// before.
		number, kind := k.number, f.kind
		c.report(kind, q, k.ID, f.detail, func(t checkTx) (bool, error) { return t.repairJob(q.ref, number, kind) })
	}
	return err
}

// faultsOf returns all faults of one job.
func (t checkTx) faultsOf(k *checked) (faults []jobFault, err error) {
	found := func(kind, format string, args ...any) {
		faults = append(faults, jobFault{kind, fmt.Sprintf(format, args...)})
	}
	if k.bad != nil {
		// If the row can't be read, its other columns are meaningless.
		found(faultUnreadable, "%v", k.bad)
		return faults, nil
	}
	// The sort key follows from the job's other columns.
	if c := k.cursor(); c.at != k.at || !bytes.Equal(c.key, k.place) {
		found(faultPlace, "%s", k.state)
	}

	switch {
	case k.external && !k.bodyRow:
		found(faultBodyMissing, "")
	case !k.external && k.bodyRow:
		found(faultBodyTwice, "")
	}

	if err := t.entryFaults(k, found); err != nil {
		return nil, err
	}
	if err := t.messageFaults(k, found); err != nil {
		return nil, err
	}

	return faults, t.keyFaults(k, found)
}

// entryFaults compares a job with its alias, its expiry and its merge key.
func (t checkTx) entryFaults(k *checked, found func(kind, format string, args ...any)) error {
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

	// The checks of the other tables find surplus entries.
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

// keyFaults compares a job with the holder of its order key.
func (t checkTx) keyFaults(k *checked, found func(kind, format string, args ...any)) error {
	if k.lockKey() == "" {
		return nil
	}
	n, busy, err := k.q.keyHolder(t.tx, k.OrderKey)
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

// repairJob repairs one kind of fault of a job, if it still exists.
func (t checkTx) repairJob(ref duly.QueueRef, number duly.Number, kind string) (bool, error) {
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
	// The statement ends before the repair changes the row that it reads.
	s.Reset()
	faults, err := t.faultsOf(&k)
	if err != nil {
		return false, err
	}

	for _, f := range faults {
		if f.kind == kind {
			// The column only says whether the body is inline.
			k.hasBody = false
			return true, t.repairFault(&k, kind)
		}
	}

	return false, nil
}

func (t checkTx) repairFault(k *checked, kind string) error {
	j := &k.job
	switch kind {
	case faultUnreadable:
		return j.q.quarantine(t.tx, unreadableRow{j.number, k.rawState, k.bad})
	case faultMessageGone, faultBeyondCursor, faultCopyMissing, faultCopyNumber:
		return t.repairMessage(j, kind)
	case faultPlace:
		return j.put(t.tx)
	case faultBodyMissing:
		return t.buryWithoutBody(j)
	case faultBodyTwice:
		return j.dropBody(t.tx)
	case faultAliasMissing:
		return t.repairAlias(j)
	case faultExpiryMissing:
		// The timer must see the new entry.
		lower(&j.q.earliest.expiry, j.stored.expiry)
		_, err := t.stmt("expiry_add").Int(1, j.q.id).Int(2, j.stored.expiry).Blob(3, j.number[:]).Run()
		return err
	case faultMergeMissing:
		return t.repairMerge(j)
	case faultKeyNotHeld:
		return t.repairHolder(j)
	case faultBlockedByNone:
		// The table of key holders may name this job although it is blocked.
		if err := j.q.dropKeyHolder(t.tx, j.OrderKey, j.number); err != nil {
			return err
		}
		return j.q.passKey(t.tx, j.OrderKey)
	}

	return errJob
}

// buryWithoutBody makes a dead letter of a job whose body is lost. So an operator sees the loss,
// and no handler gets an empty body.
func (t checkTx) buryWithoutBody(j *job) error {
	j.Body, j.external = nil, false
	if _, err := t.stmt("body_inline").Int(1, j.q.id).Blob(2, j.number[:]).Blob(3, []byte{}).Run(); err != nil {
		return err
	}
	// A finished job stays in its state, with an empty body.
	if !j.state.Waiting() && j.state != duly.StateLeased {
		return nil
	}
	if j.state == duly.StateLeased {
		// This fences the receipt of the running delivery.
		j.ended++
	}
	j.lastError = "the stored body is lost"
	return j.makeDead(t.tx)
}

// repairAlias adds the alias of a job. If the ID belongs to another job, this job gets its number
// as its ID.
func (t checkTx) repairAlias(j *job) error {
	other, err := j.q.byID(t.tx, j.ID)
	if err != nil {
		return err
	}
	if other != nil && other.number != j.number {
		j.ID = j.number.String()
		return j.putRow(t.tx)
	}
	if _, err := t.stmt("alias_clear").Int(1, j.q.id).Text(2, j.ID).Run(); err != nil {
		return err
	}
	// Lookups skip the aliases of a queue without this mark.
	j.q.aliased = true
	_, err = t.stmt("alias_add").Int(1, j.q.id).Text(2, j.ID).Blob(3, j.number[:]).Run()
	return err
}

// repairMerge makes a job the holder of its merge key. If another job holds the key already, this
// job loses the key and both jobs are delivered.
func (t checkTx) repairMerge(j *job) error {
	other, err := j.mergeHolder(t.tx)
	if err != nil {
		return err
	}
	if other != nil {
		j.Merge, j.MergeKey = duly.Merge{}, ""
		return j.putRow(t.tx)
	}
	_, err = t.stmt("merge_add").Int(1, j.q.id).Text(2, j.OrderKey).Text(3, j.MergeKey).Blob(4, j.number[:]).Run()
	return err
}

// repairHolder makes a ready or leased job the holder of its order key. If another job holds the
// key already, this job is blocked. Blocking it ends its running delivery, because a key has only
// one receipt at a time.
func (t checkTx) repairHolder(j *job) error {
	state, err := j.readyOrBlocked(t.tx)
	if err != nil || state == duly.StateReady {
		return err
	}
	if j.state == duly.StateLeased {
		j.ended++
		j.q.counters.Stalled++
	}
	j.state = duly.StateBlocked
	return j.put(t.tx)
}

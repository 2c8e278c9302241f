package sqliteengine

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// dueScanLimit is how many due jobs a read evaluates that no step has promoted yet. Few
// remain where steps run at all.
const dueScanLimit = 10_000

// readQueue reads a queue, topic or group from the tables. It returns nil if the name is unknown.
func (t readTx) readQueue(ref duly.QueueRef) (*queue, error) {
	s := t.stmt("queue_find").Text(1, ref.Namespace).Text(2, ref.Name)
	row, err := s.Step()
	if err != nil || !row {
		return nil, err
	}
	q := scanQueue(s)
	s.Reset()
	// Aliases are not counted here, so every lookup by ID must check them.
	q.aliased = true
	if err := q.readLimiter(t.conn); err != nil {
		return nil, err
	}
	return q, t.readKind(q)
}

// Get implements contract.Inspector.
func (e inspectorAPI) Get(ctx context.Context, ref duly.QueueRef, id string) (info duly.JobInfo, err error) {
	if err := contract.ValidateID(id); err != nil {
		return info, err
	}
	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) error {
		if q == nil {
			return contract.NotFound(ref, id)
		}
		j, err := q.byID(t.tx, id)
		if err != nil {
			return err
		}
		return t.foundInfo(q, j, id, &info)
	})
	return info, err
}

// GetByReceipt implements contract.Inspector.
func (e inspectorAPI) GetByReceipt(ctx context.Context, namespace string, r duly.Receipt) (
	info duly.JobInfo, err error,
) {
	if err := contract.ValidateReceipt(r); err != nil {
		return info, err
	}

	p, _ := contract.ParseReceipt(r)
	ref := duly.QueueRef{Namespace: namespace, Name: p.Queue}
	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) error {
		// A queue has only one shard here, so a receipt of another shard names no job.
		if q == nil || p.Shard != 0 {
			return contract.NotFound(ref, p.Number.String())
		}
		j, err := t.byReceipt(q, p.Number)
		if err != nil {
			return err
		}
		return t.foundInfo(q, j, p.Number.String(), &info)
	})
	return info, err
}

// byReceipt returns the job of a receipt. For a dead message it returns the copy of the message.
func (t readTx) byReceipt(q *queue, n duly.Number) (*job, error) {
	j, err := q.byNumber(t.tx, n)
	if err == nil && j == nil && q.group != nil {
		return q.byNumber(t.tx, copyNumber(n))
	}
	return j, err
}

// foundInfo sets info to a found job, or returns an error for nil.
func (t readTx) foundInfo(q *queue, j *job, id string, info *duly.JobInfo) (err error) {
	// An expired job stays in the file until a step deletes it, but no caller sees it.
	if j == nil || j.expired(t.now) {
		return notFoundIn(q, id)
	}
	// The log may have deleted the message that a pointer names.
	if *info, err = t.fullInfo(j); err == errGone {
		return notFoundIn(q, id)
	}
	return err
}

// notFoundIn returns the error for a missing job or message.
func notFoundIn(q *queue, id string) error {
	if q.group != nil {
		return contract.NoMessage(q.ref, id)
	}
	return contract.NotFound(q.ref, id)
}

// fullInfo returns a job with its body and its state at the current time.
func (t readTx) fullInfo(j *job) (duly.JobInfo, error) {
	state, err := j.currentState(t.tx)
	if err == nil {
		err = j.readBody(t.conn)
	}
	return j.info(state, len(j.Body)), err
}

// Peek implements contract.Inspector.
func (e inspectorAPI) Peek(ctx context.Context, ref duly.QueueRef) (info duly.JobInfo, err error) {
	if err := notForGroup(ref, "peek"); err != nil {
		return info, err
	}

	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) error {
		var first *job
		if q != nil {
			var err error
			if first, err = t.firstReady(q); err != nil {
				return err
			}
		}
		if first == nil {
			return contract.Errorf(duly.CodeNotFound, "queue %s has no ready job", ref)
		}
		info, err = t.fullInfo(first)
		return err
	})
	return info, err
}

// firstReady returns the job that a step and a Reserve would deliver first.
func (t readTx) firstReady(q *queue) (first *job, err error) {
	// Expired jobs stay in the set until the next step, so several pages may contain only expired
	// jobs.
	for from := (cursor{}); ; {
		jobs, err := q.page(t.tx, duly.StateReady, from, 100, true)
		if err != nil {
			return nil, err
		}
		for i := range jobs {
			if from = jobs[i].cursor(); first == nil && !jobs[i].expired(t.now) {
				j := jobs[i]
				first = &j
			}
		}
		if first != nil || len(jobs) < 100 {
			break
		}
	}

	// A due job that no step has promoted yet may come before all ready jobs.
	due, err := t.collect(t.stmt("due_first").Int(1, q.id).Int(2, t.now).Int(3, dueScanLimit), q)
	if err != nil {
		return nil, err
	}

	for i := range due {
		j := &due[i]
		if j.expired(t.now) || first != nil && !j.before(first) {
			continue
		}
		state, err := j.currentState(t.tx)
		if err != nil {
			return nil, err
		}
		if state == duly.StateReady {
			// due_first reads no bodies, so the job is read again.
			j.Body, j.hasBody = nil, false
			if j, err = q.byNumber(t.tx, j.number); err != nil {
				return nil, err
			}
			first = j
		}
	}

	return first, nil
}

// Config implements contract.Inspector.
func (e inspectorAPI) Config(ctx context.Context, ref duly.QueueRef) (cfg duly.QueueConfig, err error) {
	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) error {
		if cfg = contract.DefaultQueueConfig(); q != nil {
			cfg = q.cfg
			cfg.Closing = q.closing.Clip(t.now).Info()
		}
		return nil
	})
	return cfg, err
}

// Stats implements contract.Inspector.
func (e inspectorAPI) Stats(ctx context.Context, ref duly.QueueRef) (s duly.Stats, err error) {
	err = e.onSnapshot(ctx, ref, func(t readTx, q *queue) error {
		if q == nil {
			s.Tokens = duly.None
			return nil
		}
		s, err = t.stats(q)
		return err
	})
	return s, err
}

// Survey implements contract.Surveyor. One query reads a page of queues with their sizes and
// counters. Only queues with waiting jobs need further reads.
func (e inspectorAPI) Survey(ctx context.Context, namespace string, p duly.PageParams) (
	page contract.SurveyPage, err error,
) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return page, err
	}
	if err := contract.ValidatePage(&p); err != nil {
		return page, err
	}
	// The cursor is the name of a queue or of a group.
	if p.Cursor != "" && contract.ValidateQueue(duly.QueueRef{Name: p.Cursor}) != nil {
		return page, contract.BadCursor()
	}

	v := surveyReader{namespace: contract.NamespaceOr(namespace), behind: p.Cursor, limit: p.Limit}
	err = e.readLong(ctx, func(c *conn, s *readSlice) (more bool, err error) { return v.read(e.newReadTx(c), s) })
	if err != nil {
		return contract.SurveyPage{}, err
	}
	return v.page, nil
}

// surveyReader is a page of a survey.
type surveyReader struct {
	namespace string
	behind    string // name of the last queue of the page
	limit     int
	page      contract.SurveyPage
}

// read adds queues until the page or the slice ends. It reports whether more queues follow.
func (v *surveyReader) read(t readTx, s *readSlice) (more bool, err error) {
	rows := t.stmt("queue_page").Text(1, v.namespace).Text(2, v.behind).Int(3, noLimit)
	defer rows.Reset()
	for {
		row, err := rows.Step()
		if err != nil || !row {
			return false, err
		}
		// The row after the page is read only to know whether more rows follow.
		if len(v.page.Queues) == v.limit {
			v.page.Next = v.behind
			return false, nil
		}

		q := scanQueue(rows)
		if err := q.readLimiter(t.conn); err != nil {
			return false, err
		}
		if err := t.readKind(q); err != nil {
			return false, err
		}
		stats, err := t.stats(q)
		if err != nil {
			return false, err
		}
		v.page.Queues = append(v.page.Queues, contract.QueueStats{Name: q.ref.Name, Stats: stats,
			Throttle: contract.ThrottleOf(q.cfg)})
		v.behind = q.ref.Name
		// The check follows an append, so that every slice advances.
		if s.timeUp() {
			return true, nil
		}
	}
}

// stats returns the sizes of a queue at the current time, and its counters.
func (t readTx) stats(q *queue) (s duly.Stats, err error) {
	s = duly.Stats{Sizes: q.sizes, Counters: q.counters, Delivery: q.cfg.Delivery}
	s.Closing = q.closing.Clip(t.now).Info()
	q.addLimiter(&s)
	s.Tokens, s.NextToken = q.bucket.Tokens(q.limits().Rate, t.now)
	if q.group != nil {
		if s.Group, err = t.groupStats(q.asGroup()); err != nil {
			return s, err
		}
	}

	oldest := t.now
	if q.sizes.Ready > 0 {
		if oldest, err = t.oldestReady(q); err != nil {
			return s, err
		}
	}

	if q.sizes.Delayed > 0 {
		if err := t.countDue(q, &s.Sizes, &oldest); err != nil {
			return s, err
		}
		// countDue has handled the due jobs, so the next due time is later than now.
		next, ok, err := t.integer(t.stmt("next_due").Int(1, q.id).Int(2, t.now))
		if err != nil {
			return s, err
		}
		if ok {
			s.NextDue = clock.FromMilli(next)
		}
	}

	if err := t.scheduleStats(q, &s); err != nil {
		return s, err
	}

	// The difference is negative if the clock was set back.
	s.OldestReady = time.Duration(max(0, t.now-oldest)) * time.Millisecond
	return s, nil
}

// oldestReady returns the earliest due time of a ready job, or now. Ready jobs are sorted
// by priority, so it reads the first job of each priority.
func (t readTx) oldestReady(q *queue) (int64, error) {
	oldest := t.now
	for from := int64(-1 << 63); ; {
		place, ok, err := t.integer(t.stmt("ready_from").Int(1, q.id).Int(2, from))
		if err != nil || !ok {
			return oldest, err
		}
		// The level is minus the priority.
		level := floorDiv(place, priorityStep)
		oldest = min(oldest, place-level*priorityStep)
		from = (level + 1) * priorityStep
	}
}

func floorDiv(a, b int64) int64 {
	if d := a / b; d*b == a || a > 0 {
		return d
	}
	return a/b - 1
}

// countDue counts due jobs that no step has promoted yet, by their current state. It evaluates the
// first dueScanLimit of these jobs and counts the remaining ones as ready by the index. So many due
// jobs exist only if nobody reserves.
func (t readTx) countDue(q *queue, z *duly.Sizes, oldest *int64) error {
	s := t.stmt("due_first").Int(1, q.id).Int(2, t.now).Int(3, dueScanLimit)
	defer s.Reset()
	seen := int64(0)
	for ; ; seen++ {
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			break
		}

		state, at, err := t.dueNow(s, q)
		if err != nil {
			return err
		}
		z.Delayed--
		*z.Of(state)++
		if state == duly.StateReady {
			*oldest = min(*oldest, at)
		}
	}
	if seen < dueScanLimit {
		return nil
	}

	// The remaining jobs are counted only by the index, which is fast.
	due, _, err := t.integer(t.stmt("due_count").Int(1, q.id).Int(2, t.now))
	if err != nil {
		return err
	}
	z.Delayed -= due - seen
	z.Ready += due - seen
	return nil
}

// dueNow returns the current state and the due time of a due job from its row. An unreadable row
// stays delayed.
func (t readTx) dueNow(s *sqliteconn.Stmt, q *queue) (state duly.State, at int64, err error) {
	if at = s.ColInt(2); q.group != nil {
		// A ready message sorts by its entry time.
		at = s.ColInt(4)
	}
	// Without rules a job has no order key, so nothing can block it.
	if s.ColNull(8) {
		return duly.StateReady, at, nil
	}
	var j job
	if j.scanJob(s, q) != nil {
		return duly.StateDelayed, at, nil
	}
	state, err = j.currentState(t.tx)
	return state, at, err
}

// size returns the length of a job's body without reading it. The row of a list holds
// the length of an inline body.
func (t readTx) size(j *job, row *sqliteconn.Stmt) (int, error) {
	if !j.hasBody && !j.pointer && !row.ColNull(12) {
		return int(row.ColInt(12)), nil
	}
	return t.bodySize(j)
}

// bodySize is like size for a job without the row of a list.
func (t readTx) bodySize(j *job) (int, error) {
	switch {
	case j.hasBody:
		return len(j.Body), nil
	case j.pointer:
		return j.readMessageHead(t.conn)
	}
	n, _, err := t.integer(t.stmt("body_size").Int(1, j.q.id).Blob(2, j.number[:]))
	return int(n), err
}

// readKind reads the rows that only a topic or a group has.
func (t readTx) readKind(q *queue) error {
	switch q.kind {
	case kindTopic:
		// If a damaged file lacks these rows, the defaults remain.
		q.log = newTopicLog(q.ref)
		return eachRow(t.stmt("topic_find").Int(1, q.id), func(s *sqliteconn.Stmt) { q.log = scanTopic(s, q.ref) })
	case kindGroup:
		q.group = &groupState{stale: true}
		if err := eachRow(t.stmt("group_find").Int(1, q.id),
			func(s *sqliteconn.Stmt) { q.asGroup().scanGroup(s) }); err != nil {
			return err
		}
		// The notifier knows later calls, which are not saved yet.
		q.group.called = max(q.group.called, t.w.e.notifier.called(q.ref))
		topic, _, _ := q.ref.Group()
		s := t.stmt("topic_id").Text(1, topic.Namespace).Text(2, topic.Name)
		return eachRow(s, func(s *sqliteconn.Stmt) { q.group.topic, q.group.topicID = topic, s.ColInt(0) })
	}
	return nil
}

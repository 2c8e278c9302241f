package sqliteengine

import (
	"math"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// tx is a write transaction. It runs the operations of many callers one after the
// other. Operations use its methods; see doc.go.
type tx struct {
	*conn
	w *writer
	// time and now are the time of the operation that runs; now is in milliseconds.
	time time.Time
	now  int64

	touched []*queue // the drafts of all queues that operations asked for
	// overlay holds created and destroyed queues until the commit. A destroyed
	// queue is nil.
	overlay map[duly.QueueRef]*queue

	queueDestroyed bool // a queue was destroyed
	tokensChanged  bool // a token, a placement or a push queue has changed

	simple       []simplePush  // pushes that wait for a shared statement
	appended     []appended    // messages that wait for a shared statement
	deletes      []*deleteCall // Deletes that wait for a shared statement
	trimmedBytes int64         // bytes of messages that retention has deleted
	// readyBufs holds ready jobs that Reserves share. remaining is the running
	// operation and all later ones.
	readyBufs []readyBuffer
	remaining []*op

	drops    []drop        // jobs dropped over a bound, to be logged
	misses   []missedRange // messages that groups have missed, to be logged
	polls    []pollResult  // results of polls, for the notifier
	rows     []job         // scratch space: the jobs of one read
	rowsUsed int           // the longest use of rows
	// readOnly marks a read transaction. It changes nothing and skips unreadable rows.
	readOnly bool
}

// drop counts jobs that were dropped over a bound.
type drop struct {
	ref   duly.QueueRef
	state duly.State
	n     int
}

// begin sets the time of the next operation.
func (t *tx) begin() {
	t.time = t.w.clock.Now()
	t.now = clock.Milli(t.time)
}

// queue returns the transaction's draft of a queue, or nil for an unknown one. Each
// queue has one draft per transaction.
func (t *tx) queue(ref duly.QueueRef) *queue {
	if t.overlay != nil {
		if q, ok := t.overlay[ref]; ok {
			return q
		}
	}
	q := t.w.queues[ref]
	if q == nil {
		return nil
	}
	if q.draft == nil {
		q.draft = q.newDraft()
		t.touched = append(t.touched, q.draft)
	}
	return q.draft
}

// peek returns the queue as the transaction sees it. The caller must not change it.
func (t *tx) peek(ref duly.QueueRef) *queue {
	if q, ok := t.overlay[ref]; ok {
		return q
	}
	q := t.w.queues[ref]
	if q != nil && q.draft != nil {
		return q.draft
	}
	return q
}

// makeQueue returns a queue and creates it with that configuration if necessary. It
// returns ErrFull if the namespace has too many queues, and ErrConflict if a topic has
// the name.
func (t *tx) makeQueue(ref duly.QueueRef, cfg duly.QueueConfig) (*queue, error) {
	switch q := t.queue(ref); {
	case q == nil:
		q = &queue{ref: ref, cfg: cfg}
		t.announce(q)
		return q, t.addQueue(q)
	case q.kind == kindTopic:
		return nil, contract.IsTopic(ref)
	default:
		return q, nil
	}
}

// announce makes the commit notify the watchers if q is a push queue.
func (t *tx) announce(q *queue) { t.tokensChanged = t.tokensChanged || q.waitKey().dispatcher }

// addQueue stores a new queue, topic or group and sets its ID. Groups don't count
// towards the bound of the namespace, because each topic bounds its own.
func (t *tx) addQueue(q *queue) error {
	if n := t.queuesIn(q.ref.Namespace); q.kind != kindGroup && n >= t.w.maxQueues {
		return contract.NamespaceFull(q.ref.Namespace, n)
	}
	s := t.stmt("queue_make").Text(1, q.ref.Namespace).Text(2, q.ref.Name)
	q.bindConfig(s, 3)
	if _, err := s.Int(20, int64(q.kind)).Step(); err != nil {
		return err
	}
	q.id, q.earliest = s.ColInt(0), noEvents
	s.Reset()
	q.base = &queue{id: q.id, ref: q.ref, kind: q.kind, cfg: q.cfg, earliest: q.earliest, draft: q}
	t.touched = append(t.touched, q)
	t.setOverlay(q.ref, q)
	return nil
}

// destroy removes a queue. Its jobs disappear at once, because their queue's ID is
// never used again. Maintenance deletes their rows later.
func (t *tx) destroy(q *queue) error {
	names := []string{"queue_drop", "tallies_drop", "grave_add"}
	switch q.kind {
	case kindTopic:
		names = append(names, "topic_drop", "log_drop")
	case kindGroup:
		names = append(names, "group_drop", "cursor_drop")
		t.w.e.consumers.forget(q.id)
		delete(t.w.misses, q.ref)
	}

	for _, name := range names {
		if _, err := t.stmt(name).Int(1, q.id).Run(); err != nil {
			return err
		}
	}

	t.announce(q)
	q.destroyed, t.queueDestroyed = true, true
	t.setOverlay(q.ref, nil)
	return nil
}

// setOverlay records a created or destroyed queue.
func (t *tx) setOverlay(ref duly.QueueRef, q *queue) {
	if t.overlay == nil {
		t.overlay = map[duly.QueueRef]*queue{}
	}
	t.overlay[ref] = q
}

// queuesIn returns the number of queues in a namespace.
func (t *tx) queuesIn(namespace string) int {
	n := t.w.perNamespace[namespace]
	for ref, q := range t.overlay {
		before := t.w.queues[ref] != nil
		switch {
		case ref.Namespace != namespace || ref.IsGroup():
		case q != nil && !before:
			n++
		case q == nil && before:
			n--
		}
	}
	return n
}

// save writes the changed queues.
func (t *tx) save() error {
	if err := t.flush(opOther); err != nil {
		return err
	}
	for _, q := range t.touched {
		if err := q.save(t.conn); err != nil {
			return err
		}
	}
	return nil
}

// apply applies the drafts to the writer's queues after the commit.
func (t *tx) apply() {
	for ref, q := range t.overlay {
		before := t.w.queues[ref] != nil
		switch {
		case ref.IsGroup():
		case q != nil && !before:
			t.w.perNamespace[ref.Namespace]++
		case q == nil && before:
			t.w.perNamespace[ref.Namespace]--
		}
		if q == nil {
			delete(t.w.queues, ref)
		} else {
			t.w.queues[ref] = q.base
		}
	}

	for _, q := range t.touched {
		truth := q.base
		*truth = *q
		truth.draft, truth.base, truth.cfgDirty, truth.reserves = nil, nil, false, 0
	}
}

// discard discards the drafts after a rollback.
func (t *tx) discard() {
	for _, q := range t.touched {
		q.base.draft = nil
	}
}

// reset resets the transaction for reuse.
func (t *tx) reset() {
	clear(t.touched)
	clear(t.simple)
	clear(t.appended)
	clear(t.polls)
	clear(t.deletes)
	t.touched, t.simple, t.drops, t.polls = t.touched[:0], t.simple[:0], t.drops[:0], t.polls[:0]
	t.deletes, t.appended, t.misses = t.deletes[:0], t.appended[:0], t.misses[:0]
	t.overlay, t.remaining, t.queueDestroyed, t.tokensChanged, t.trimmedBytes = nil, nil, false, false, 0
	t.resetReadyBufs()
	clear(t.rows[:t.rowsUsed]) // they hold bodies
	t.rowsUsed = 0
}

// collect reads every row of a statement as a job. The slice is valid until the next
// collect.
func (t *tx) collect(s *sq.Stmt, q *queue) (jobs []job, err error) {
	return t.collectUpTo(s, q, math.MaxInt)
}

// collectUpTo is collect with a limit on the bytes of results and inline bodies. The
// job that exceeds it is the last one.
func (t *tx) collectUpTo(s *sq.Stmt, q *queue, bytes int) (jobs []job, err error) {
	t.rows, err = t.collectInto(t.rows, s, q, bytes)
	t.rowsUsed = max(t.rowsUsed, len(t.rows))
	return t.rows, err
}

// collectInto reads rows as jobs into a reused slice, up to a number of bytes. It
// quarantines unreadable rows, so that they don't block the others.
func (t *tx) collectInto(jobs []job, s *sq.Stmt, q *queue, bytes int) ([]job, error) {
	jobs = jobs[:0]
	var unreadable []unreadableRow
	for {
		row, err := s.Step()
		if err != nil {
			return jobs, err
		}
		if !row {
			break
		}
		jobs = append(jobs, job{})
		j := &jobs[len(jobs)-1]
		if err := j.scanJob(s, q); err != nil {
			unreadable = append(unreadable, unreadableRow{j.number, duly.State(s.ColInt(1)), err})
			jobs = jobs[:len(jobs)-1]
			continue
		}
		if bytes -= len(j.Body) + len(j.result); bytes < 0 {
			s.Reset()
			break
		}
	}

	for _, u := range unreadable {
		if err := t.quarantine(q, u); err != nil {
			return jobs, err
		}
	}
	return jobs, nil
}

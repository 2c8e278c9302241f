package sqliteengine

import (
	"math"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// tx is a transaction of the writer: the operations of many callers, one after
// the other. Its methods are what operations are written with; see doc.go.
type tx struct {
	*conn
	w *writer
	// t and now are the moment of the operation that runs.
	t   time.Time
	now int64

	touched []*queue // copies of the queues that were asked for
	// made and destroyed queues stand here until they are committed; nil is a
	// destroyed one.
	overlay map[duly.QueueRef]*queue

	destroyed bool // a queue was destroyed
	tokens    bool // a token was changed

	simple   []simplePush // pushes that wait for their turn to be one statement
	appended []appended   // messages of the log that wait for theirs
	removals []*removal   // Deletes that wait for theirs
	deleted  int64        // bytes of messages that keep has deleted
	// supplies are what callers of Reserve share; turns are the operations of
	// the transaction from the one that runs on.
	supplies []supply
	turns    []*op

	dropped []drop     // what bounds have dropped, for the log
	misses  []missNote // what groups have missed, for the log
	looks   []look     // what looks have found, for the hub
	rows    []job      // scratch: the jobs of one read
	used    int        // of rows, by any read
	// reading: this is no transaction of the writer but one that looks. It
	// changes nothing, and passes over rows that can't be read.
	reading bool
}

// drop is what a bound has dropped.
type drop struct {
	ref   duly.QueueRef
	state duly.State
	n     int
}

// begin gives the next operation its moment.
func (t *tx) begin() {
	t.t = t.w.clock.Now()
	t.now = clock.Milli(t.t)
}

// queue is the transaction's copy of a queue, nil for an unknown one. It is
// the same one throughout a transaction.
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
	if q.work == nil {
		q.work = q.copy()
		t.touched = append(t.touched, q.work)
	}
	return q.work
}

// peek is the queue as the transaction sees it. It must not be changed.
func (t *tx) peek(ref duly.QueueRef) *queue {
	if q, ok := t.overlay[ref]; ok {
		return q
	}
	q := t.w.queues[ref]
	if q != nil && q.work != nil {
		return q.work
	}
	return q
}

// makeQueue finds a queue, or makes it with that configuration; ErrFull if the
// namespace has no room for it, ErrConflict if a topic has its name.
func (t *tx) makeQueue(ref duly.QueueRef, cfg duly.QueueConfig) (*queue, error) {
	switch q := t.queue(ref); {
	case q == nil:
		q = &queue{ref: ref, cfg: cfg}
		t.announce(q)
		return q, t.addQueue(q)
	case q.kind == kindTopic:
		return nil, duly.IsTopic(ref)
	default:
		return q, nil
	}
}

// announce lets the watchers know of a change of a push queue once it is committed.
func (t *tx) announce(q *queue) { t.tokens = t.tokens || q.door().dispatcher }

// addQueue stores a new queue, topic or group, and gives it its ID. Groups do not count
// in the namespace: each topic has a bound on its own.
func (t *tx) addQueue(q *queue) error {
	if n := t.queuesIn(q.ref.Namespace); q.kind != kindGroup && n >= t.w.maxQueues {
		return duly.NamespaceFull(q.ref.Namespace, n)
	}
	s := t.stmt("queue_make").Text(1, q.ref.Namespace).Text(2, q.ref.Name)
	q.bindConfig(s, 3)
	if _, err := s.Int(20, int64(q.kind)).Step(); err != nil {
		return err
	}
	q.id, q.first = s.ColInt(0), noMoments
	s.Reset()
	q.truth = &queue{id: q.id, ref: q.ref, kind: q.kind, cfg: q.cfg, first: q.first, work: q}
	t.touched = append(t.touched, q)
	t.lay(q.ref, q)
	return nil
}

// destroy removes a queue. Its jobs go with it for everybody who asks, for
// nobody finds its id again; their rows are removed by and by.
func (t *tx) destroy(q *queue) error {
	names := []string{"queue_drop", "tallies_drop", "grave_dig"}
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
	q.destroyed, t.destroyed = true, true
	t.lay(q.ref, nil)
	return nil
}

func (t *tx) lay(ref duly.QueueRef, q *queue) {
	if t.overlay == nil {
		t.overlay = map[duly.QueueRef]*queue{}
	}
	t.overlay[ref] = q
}

// queuesIn is the number of queues of a namespace.
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

// save writes what the transaction's queues have become.
func (t *tx) save() error {
	if err := t.flush(joinsNothing); err != nil {
		return err
	}
	for _, q := range t.touched {
		if err := q.save(t.conn); err != nil {
			return err
		}
	}
	return nil
}

// publish makes the copies the truth; the transaction was committed.
func (t *tx) publish() {
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
			t.w.queues[ref] = q.truth
		}
	}

	for _, q := range t.touched {
		truth := q.truth
		*truth = *q
		truth.work, truth.truth, truth.cfgDirty, truth.reserves = nil, nil, false, 0
	}
}

// forget drops the copies; the transaction was rolled back.
func (t *tx) forget() {
	for _, q := range t.touched {
		q.truth.work = nil
	}
}

// clear makes the transaction ready for the next one.
func (t *tx) clear() {
	clear(t.touched)
	clear(t.simple)
	clear(t.appended)
	clear(t.looks)
	clear(t.removals)
	t.touched, t.simple, t.dropped, t.looks = t.touched[:0], t.simple[:0], t.dropped[:0], t.looks[:0]
	t.removals, t.appended, t.misses = t.removals[:0], t.appended[:0], t.misses[:0]
	t.overlay, t.turns, t.destroyed, t.tokens, t.deleted = nil, nil, false, false, 0
	t.clearSupplies()
	clear(t.rows[:t.used]) // they hold bodies
	t.used = 0
}

// collect reads every row of a statement as a job. The slice is good until
// collect is called again.
func (t *tx) collect(s *sq.Stmt, q *queue) (jobs []job, err error) {
	return t.collectUpTo(s, q, math.MaxInt)
}

// collectUpTo is collect that ends behind the row with which results and inline
// bodies are more than so many bytes.
func (t *tx) collectUpTo(s *sq.Stmt, q *queue, bytes int) (jobs []job, err error) {
	t.rows, err = t.collectInto(t.rows, s, q, bytes)
	t.used = max(t.used, len(t.rows))
	return t.rows, err
}

// collectInto reads the rows of a statement as jobs, in the room of those of
// before, up to so many bytes. A row that can't be read is made a dead letter that
// says so, so that it does not stand in the way of the others.
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

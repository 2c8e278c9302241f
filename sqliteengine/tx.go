package sqliteengine

import (
	"math"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// tx is a write transaction. It runs the operations of many callers one after the
// other. Operations use its methods; see doc.go.
type tx struct {
	*conn
	w *writer
	// time and now are the time of the operation that runs; now is in milliseconds.
	time time.Time
	now  int64

	touched []*queue // drafts of all queues that operations of the transaction asked for
	// overlay holds created and destroyed queues until the commit. A destroyed
	// queue is nil.
	overlay map[duly.QueueRef]*queue

	queueDestroyed bool // whether a queue was destroyed
	tokensChanged  bool // whether a token, a placement or a push queue has changed

	// The operations of one kind share statements. These batches hold the items that wait for a
	// shared statement.
	pushes   pushBatch
	messages messageBatch
	deletes  deleteBatch
	ready    readyBuffers

	remaining    []*op // the running operation and all later operations
	trimmedBytes int64 // bytes of messages that retention has deleted in this transaction

	drops    []drop            // jobs dropped over a limit, to be logged
	misses   []missedRange     // messages that groups have missed, to be logged
	limits   []adaptive.Change // changes of adaptive limits, to be logged
	polls    []pollResult      // results of polls, for the notifier
	rows     []job             // scratch space: the jobs of one read
	rowsUsed int               // the largest length that rows had in this transaction
	// readOnly marks a read transaction. It changes nothing and skips unreadable rows.
	readOnly bool
}

// drop counts the jobs of one queue that were dropped over a limit.
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

// queue returns the transaction's draft of a queue, or nil if the queue is unknown. Each queue has
// one draft per transaction.
func (t *tx) queue(ref duly.QueueRef) *queue {
	if t.overlay != nil {
		if q, ok := t.overlay[ref]; ok {
			return q
		}
	}
	// Most transactions create no queue. They have no overlay, so the queue is looked up in the
	// committed state.
	q := t.w.queues[ref]
	if q == nil {
		return nil
	}
	// The first use in a transaction makes the draft.
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

// makeQueue returns a queue and creates it with the given configuration if it does not exist. It
// returns ErrFull if the namespace has too many queues, and ErrConflict if a topic has the name.
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
	if _, err := s.Int(21, int64(q.kind)).Step(); err != nil {
		return err
	}
	q.id, q.earliest = s.ColInt(0), noEvents
	s.Reset()
	// The draft needs a base that apply can fill in, as an existing queue has.
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
		// This state is only in memory, so no statement removes it.
		t.w.e.consumers.forget(q.id)
		delete(t.w.misses, q.ref)
	}

	if q.limiter != nil {
		names = append(names, "limiter_drop")
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
		// A queue that was destroyed and created again in one transaction does not change the
		// count.
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
		t.noteLimitChange(q)
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

	// The base is overwritten in place, because the map of queues refers to it.
	for _, q := range t.touched {
		truth := q.base
		*truth = *q
		truth.draft, truth.base, truth.cfgDirty, truth.tickMoved, truth.reserves = nil, nil, false, false, 0
	}
}

// discard discards the drafts after a rollback.
func (t *tx) discard() {
	// The next transaction must start from the committed state.
	for _, q := range t.touched {
		q.base.draft = nil
	}
}

// reset resets the transaction for reuse.
func (t *tx) reset() {
	t.pushes.reset()
	t.messages.reset()
	t.deletes.reset()
	t.ready.reset()

	clear(t.touched)
	clear(t.polls)
	t.touched, t.polls, t.drops, t.misses = t.touched[:0], t.polls[:0], t.drops[:0], t.misses[:0]
	t.limits = t.limits[:0]
	t.overlay, t.remaining, t.queueDestroyed, t.tokensChanged, t.trimmedBytes = nil, nil, false, false, 0

	// The results and bodies can then be freed.
	clear(t.rows[:t.rowsUsed])
	t.rowsUsed = 0
}

// collect reads every row of a statement as a job. The slice is valid until the next
// collect.
func (t *tx) collect(s *sqliteconn.Stmt, q *queue) (jobs []job, err error) {
	return t.collectUpTo(s, q, math.MaxInt)
}

// collectUpTo is like collect but with a limit on the bytes of results and inline bodies. The job that
// exceeds the limit is the last one.
func (t *tx) collectUpTo(s *sqliteconn.Stmt, q *queue, bytes int) (jobs []job, err error) {
	t.rows, err = t.collectInto(t.rows, s, q, bytes)
	t.rowsUsed = max(t.rowsUsed, len(t.rows))
	return t.rows, err
}

// collectInto reads rows as jobs into a reused slice, up to a number of bytes. It
// quarantines unreadable rows, so that they don't block the others.
func (t *tx) collectInto(jobs []job, s *sqliteconn.Stmt, q *queue, bytes int) ([]job, error) {
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

	// Quarantine writes to the table that the statement reads, so it comes after the read.
	for _, u := range unreadable {
		if err := q.quarantine(t, u); err != nil {
			return jobs, err
		}
	}
	return jobs, nil
}

// runMany runs a wide statement over numbers. Its arguments are those of lead, the queue
// and the numbers.
func (t *tx) runMany(name string, q *queue, numbers []duly.Number, lead func(s *sqliteconn.Stmt) int) error {
	for len(numbers) > 0 {
		w := width(len(numbers))
		s, i := t.conn.many(name, w), 1
		if lead != nil {
			i = lead(s)
		}
		s.Int(i, q.id)
		for k := range w {
			s.Blob(i+1+k, numbers[k][:])
		}
		changed, err := s.Run()
		if err != nil {
			return err
		}
		if changed != w {
			// The index names jobs that don't exist, or that have another state.
			return errJob
		}
		numbers = numbers[w:]
	}

	return nil
}

// number reads the first column of a statement's first row.
func (t *tx) number(s *sqliteconn.Stmt) (n duly.Number, ok bool, err error) {
	row, err := s.Step()
	if err != nil || !row {
		return n, false, err
	}
	ok = copy(n[:], s.ColRaw(0)) == len(n)
	s.Reset()
	return n, ok, nil
}

// integer reads the first column of a statement's first row.
func (t *tx) integer(s *sqliteconn.Stmt) (v int64, ok bool, err error) {
	ok, err = s.Step()
	if err != nil || !ok {
		return 0, false, err
	}
	v = s.ColInt(0)
	s.Reset()
	return v, true, nil
}

func (t *tx) count(s *sqliteconn.Stmt) (int64, error) {
	if _, err := s.Step(); err != nil {
		return 0, err
	}
	n := s.ColInt(0)
	s.Reset()
	return n, nil
}

// queueFor returns the queue that serves waiters of that key, or nil.
func (t *tx) queueFor(d waitKey) *queue {
	if q := t.queue(d.ref); q != nil && q.waitKey() == d {
		return q
	}
	return nil
}

// polled reports whether a poll of the transaction has counted the queue's jobs, which
// is more exact than its sizes.
func (t *tx) polled(q *queue) bool {
	return slices.ContainsFunc(t.polls, func(l pollResult) bool { return l.q == q })
}

// flush runs the waiting shared statements of all kinds except next, before an operation of the
// kind next runs.
func (t *tx) flush(next opKind) error {
	if next != opPush {
		if err := t.pushes.flush(t); err != nil {
			return err
		}
		if err := t.messages.flush(t); err != nil {
			return err
		}
	}
	if next != opDelete {
		if err := t.deletes.flush(t); err != nil {
			return err
		}
	}
	if next != opReserve {
		return t.ready.flush(t)
	}
	return nil
}

// checkKnown returns an error for the name of a topic or of an unknown group. It returns nil for
// an unknown queue.
func (t *tx) checkKnown(ref duly.QueueRef) error {
	q := t.peek(ref)
	switch topic, _, isGroup := ref.Group(); {
	case q != nil && q.kind == kindTopic:
		return contract.IsTopic(ref)
	case !isGroup:
		return nil
	case t.peek(topic) == nil || t.peek(topic).kind != kindTopic:
		return contract.NoTopic(topic)
	case q == nil:
		return contract.NoGroup(ref)
	}
	return nil
}

// makeTopic returns a topic and creates it if necessary. It returns ErrFull if the
// namespace has too many queues, and ErrConflict if a queue has the name.
func (t *tx) makeTopic(ref duly.QueueRef) (topicQueue, error) {
	switch q := t.queue(ref); {
	case q == nil:
		q = &queue{ref: ref, kind: kindTopic, cfg: contract.DefaultQueueConfig(), log: newTopicLog(ref)}
		return q.asTopic(), t.addQueue(q)
	case q.kind != kindTopic:
		return topicQueue{}, contract.IsQueue(ref)
	default:
		return q.asTopic(), nil
	}
}

// topic returns the transaction's draft of a topic. It returns ErrNotFound if the topic is unknown.
func (t *tx) topic(ref duly.QueueRef) (topicQueue, error) {
	q := t.queue(ref)
	if q == nil || q.kind != kindTopic {
		return topicQueue{}, contract.NoTopic(ref)
	}
	return q.asTopic(), nil
}

// mayCreate returns the first message of a new group, or the error if its topic cannot
// have another group. It changes nothing.
func (t *tx) mayCreate(topic duly.QueueRef, from duly.From, parts contract.FromParts) (first int64, err error) {
	// The group may be the first user of its topic.
	q := t.peek(topic)
	if q == nil || q.kind != kindTopic {
		q = &queue{ref: topic, kind: kindTopic, log: newTopicLog(topic)}
	}
	at, err := q.asTopic().findPlace(t, from, parts)
	if err == nil && len(q.log.groups) >= duly.MaxGroups {
		err = contract.GroupsFull(topic)
	}
	return at.first, err
}

// groupNamed returns the group with that name. It returns nil if there is none, or if the name
// belongs to a queue.
func (t *tx) groupNamed(ref duly.QueueRef) *queue {
	if !ref.IsGroup() {
		return nil
	}
	if q := t.queue(ref); q != nil && q.group != nil {
		return q
	}
	return nil
}

// voids reports whether deleting messages of a topic may make receipts invalid: the topic has a
// limit, or a group that may be parked because it was idle.
func (t *tx) voids(topic duly.QueueRef) bool {
	q := t.peek(topic)
	if q == nil || q.log == nil {
		return false
	}
	c := &q.log.cfg
	return c.MaxAge != duly.None || c.MaxCount != duly.None || c.MaxBytes != duly.None ||
		slices.ContainsFunc(q.log.groups, func(ref duly.QueueRef) bool {
			g := t.peek(ref)
			return g != nil && g.cfg.Group.Idle != duly.None
		})
}

// eachRow calls f for every row of a statement.
func eachRow(s *sqliteconn.Stmt, f func(s *sqliteconn.Stmt)) error {
	for {
		row, err := s.Step()
		if err != nil || !row {
			return err
		}
		f(s)
	}
}

// lastTime reads the times of an index in order and returns the last time.
func (t *tx) lastTime(s *sqliteconn.Stmt, read func(s *sqliteconn.Stmt) int64) (last int64, err error) {
	last = never
	for {
		row, err := s.Step()
		if err != nil || !row {
			return last, err
		}
		last = read(s)
	}
}

// wanted returns how many jobs of a queue the running and the next Reserves want. It considers only
// the next few operations, because there may be as many queues as callers.
func (t *tx) wanted(ref duly.QueueRef) (n int) {
	for _, o := range t.remaining[:min(len(t.remaining), widths[0])] {
		if r := o.reserve; r != nil && r.p.Namespace == ref.Namespace && slices.Contains(r.p.Queues, ref.Name) {
			n += r.p.Max
		}
	}
	return n
}

package sqliteengine

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/internal/clock"
)

// maintainEvery is how many transactions may run before some maintenance runs, even
// while callers wait.
const maintainEvery = 16

// writer owns the connection that writes and the state of the queues.
type writer struct {
	e         *store
	clock     duly.Clock
	log       *slog.Logger
	maxQueues int

	c            *conn
	queues       map[duly.QueueRef]*queue
	perNamespace map[string]int
	t            tx
	batch        []*op
	checkpoints  checkpoints
	space        diskSpace
	walPages     int    // pages written to the WAL since it was last restarted
	graves       bool   // whether destroyed queues may have left rows
	mayShrink    bool   // whether the file may have free pages to return to the disk
	txCount      int    // number of transactions so far
	lastWarning  string // the last logged warning of maintenance
	failure      *failure
	misses       map[duly.QueueRef]missedRange // the last logged missed messages of each group
	limitLog     adaptive.Log                  // the lines about closings and probing
}

// run runs operations until the engine is closed. While a transaction commits, the
// operations of the next one gather.
func (w *writer) run() {
	defer close(w.e.stopped)
	for {
		// Closed is read before Take, so that no operation is missed.
		closed := w.e.inbox.Closed()
		poll := w.e.inbox.pollRequested.Swap(false)
		w.batch = w.e.inbox.Take(w.batch, txLimits)
		w.tryReopen()
		if len(w.batch) > 0 {
			w.e.readers.long.writeBegins()
			w.serve(w.batch)
			w.e.readers.long.writeEnds()
			answered := len(w.batch)
			// Finished operations must not keep their bodies in memory.
			clear(w.batch)
			w.maintainUnderLoad()
			if w.e.cfg.Gather {
				w.e.inbox.Gather(answered)
			}
		}

		if poll {
			w.poll()
		}
		if len(w.batch) > 0 || poll {
			continue
		}
		if closed {
			return
		}

		if w.maintain() {
			continue
		}
		<-w.e.inbox.signals
	}
}

// maintainUnderLoad runs a slice of maintenance although callers wait. Without it, maintenance
// would never run under a permanent load.
func (w *writer) maintainUnderLoad() {
	w.reclaim()
	w.checkpoints.start()
	if w.txCount++; w.c != nil && (w.txCount%maintainEvery == 0 || w.checkpoints.due()) {
		w.maintain()
	}
}

// serve runs a batch of operations and answers them.
func (w *writer) serve(ops []*op) {
	err := w.attempt(ops)
	// A lost disk fails every operation alike, so a second attempt would be useless.
	if err != nil && len(ops) > 1 && w.failure == nil && !w.mustReopen(err) {
		// The operations run one by one, so that a failing operation does not fail the others.
		for _, o := range ops {
			w.answerAll([]*op{o}, w.attempt([]*op{o}))
		}
		return
	}
	w.answerAll(ops, err)
}

// answerAll answers operations after their transaction.
func (w *writer) answerAll(ops []*op, err error) {
	if err != nil && w.mustReopen(err) {
		w.fail(err)
	}
	for _, o := range ops {
		if err != nil {
			o.answer(storeError(w.e.cfg.Path, err))
			continue
		}
		o.answer(o.err)
	}
}

// runTx runs operations in one transaction. After an error nothing is stored, unless
// mustReopen reports that the state of the disk is unknown.
func (w *writer) runTx(ops []*op) error {
	if w.c == nil {
		return w.downError()
	}

	t := &w.t
	t.conn, t.w = w.c, w
	defer t.reset()

	began := w.e.observeStart()
	err := w.execute(t, ops)
	w.e.observe("transaction", began)
	if err != nil {
		t.discard()
		// After some errors SQLite has already ended the transaction.
		if w.c.InTx() {
			err = errors.Join(err, w.c.Exec("ROLLBACK"))
		}
		return err
	}

	t.apply()
	w.afterCommit(t)
	return nil
}

// execute runs operations between BEGIN and COMMIT. A refused operation keeps its
// error in op.err.
func (w *writer) execute(t *tx, ops []*op) (err error) {
	defer w.recoverPanic(&err)
	if _, err := w.c.stmt("begin").Run(); err != nil {
		return err
	}

	// Operations of one kind share statements, so they are placed next to each other.
	sortByKind(ops)
	for i, o := range ops {
		if o.err = cmp.Or(o.start(), w.space.admit(o.space)); o.err != nil {
			continue
		}
		if err := t.flush(o.kind); err != nil {
			return err
		}
		t.remaining = ops[i:]
		// Reserves that share the jobs of one read also share the time of the transaction.
		if o.kind != opReserve || len(t.ready) == 0 {
			t.begin()
		}
		if o.err = o.run(t); o.err != nil && !isRefusal(o.err) {
			return o.err
		}
	}

	// The ballast must be large enough before the commit, because the new pages may later have to
	// move into the file of a full disk.
	if err := t.save(); err != nil {
		return err
	}
	if err := w.space.cover(w.c); err != nil {
		return err
	}

	began := w.e.observeStart()
	_, err = w.c.stmt("commit").Run()
	w.e.observe("commit", began)
	return err
}

// recoverPanic turns a panic of an operation into an error of its transaction, so that the
// process survives. The other operations succeed when each runs alone.
func (w *writer) recoverPanic(err *error) {
	if r := recover(); r != nil {
		w.log.Error("an operation of the store panicked", "panic", r, "stack", string(debug.Stack()))
		*err = contract.Errorf(duly.CodeInternal, "an operation of the store panicked; the log has the stack")
	}
}

// afterCommit logs, notifies and counts after a commit.
func (w *writer) afterCommit(t *tx) {
	for _, d := range t.drops {
		w.log.Info("dropped over a bound", "queue", d.ref.String(), "state", d.state.String(), "jobs", d.n)
	}
	w.logMisses(t)
	w.logLimits(t)

	pages := w.c.PagesWritten()
	w.walPages += pages
	// A slow disk is simulated before anyone learns of the commit.
	if d := w.e.cfg.SyncDelay; d > 0 && pages > 0 {
		<-w.clock.NewTimer(d).C
	}
	// Waiters must see the commit, so they are woken after it.
	w.e.notifier.applyCommit(t)
	if t.tokensChanged {
		w.e.tokenWatchers.notify()
	}
	if t.queueDestroyed {
		w.graves = true
	}
}

// logMisses logs the messages that groups have missed, at most once a minute for each
// group. The next line covers the messages missed in between.
func (w *writer) logMisses(t *tx) {
	for _, m := range t.misses {
		if w.misses == nil {
			w.misses = map[duly.QueueRef]missedRange{}
		}

		if before, ok := w.misses[m.group]; ok {
			m.logged = before.logged
			if before.n > 0 {
				m.first, m.n = min(m.first, before.first), m.n+before.n
			}
		}
		// The log must not get a line for every message that is missed.
		if m.logged == 0 || t.now >= m.logged+clock.Millis(missPause) {
			w.log.Warn("a group has missed messages, which a bound of its topic or idle has deleted",
				"group", m.group.String(), "first", m.first, "last", m.last, "messages", m.n)
			m.n, m.logged = 0, t.now
		}
		w.misses[m.group] = m
	}
}

// missedRange is a range of messages that a group has missed, for logging.
type missedRange struct {
	group       duly.QueueRef
	first, last int64 // ordinals of the first and the last missed message
	n           int64
	logged      int64 // time at which a range of the group was last logged
}

// missPause is the minimum time between two log lines about missed messages of a group.
const missPause = time.Minute

// poll polls every waited queue for which a time has passed and reports to the
// notifier.
func (w *writer) poll() {
	for d, waiters := range w.e.notifier.overdueQueues() {
		err := w.runTx([]*op{{run: func(t *tx) error {
			// The queue may have been destroyed since the notifier looked.
			q := t.queueFor(d)
			if q == nil {
				return nil
			}
			n, next, err := q.deliverable(t, waiters)
			if err == nil {
				t.polls = append(t.polls, pollResult{q, n, next})
			}
			return err
		}}})

		if err != nil {
			w.backgroundError(err)
			return
		}
	}
}

package sqliteengine

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime/debug"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// choreTurns is how many transactions may follow each other before something
// is done of what can wait.
const choreTurns = 16

// writer owns the connection that writes, and what is known of the queues.
type writer struct {
	e         *Engine
	clock     clock.Clock
	log       *slog.Logger
	maxQueues int

	c            *conn
	queues       map[duly.QueueRef]*queue
	perNamespace map[string]int
	t            tx
	batch        []*op
	checkpoints  checkpoints
	room         room
	pages        int    // pages in the log since it was last begun anew
	graves       bool   // destroyed queues have left something behind
	vacuum       bool   // there may be free pages to give back
	turns        int    // transactions since the last chore
	told         string // what the log was told last of such work
	failure      *failure
	misses       map[duly.QueueRef]missNote // what was logged last of groups that missed messages
}

// loop serves operations until the engine is closed: while one transaction is
// committed the next ones gather.
func (w *writer) loop() {
	defer close(w.e.stopped)
	for {
		closed := w.e.inbox.Closed() // before Take, which then misses nothing
		looks := w.e.inbox.looks.Swap(false)
		w.batch = w.e.inbox.Take(w.batch, txLimits)
		w.recover()
		if len(w.batch) > 0 {
			w.e.readers.long.begins()
			w.serve(w.batch)
			w.e.readers.long.ends()
			answered := len(w.batch)
			clear(w.batch)
			w.attend()
			if w.e.cfg.Gather {
				w.e.inbox.Gather(answered)
			}
		}

		if looks {
			w.look()
		}
		if len(w.batch) > 0 || looks {
			continue
		}
		if closed {
			return
		}

		if w.idle() {
			continue
		}
		<-w.e.inbox.bell
	}
}

// attend does a slice of what can wait although others are waiting: under a
// load that never ends it would else never be done.
func (w *writer) attend() {
	w.regain()
	w.checkpoints.start()
	if w.turns++; w.c != nil && (w.turns%choreTurns == 0 || w.checkpoints.due()) {
		w.idle()
	}
}

// serve answers a batch of operations.
func (w *writer) serve(ops []*op) {
	err := w.attempt(ops)
	if err != nil && len(ops) > 1 && w.failure == nil && !w.mustReopen(err) {
		// One of them, or all together, went wrong: each by itself.
		for _, o := range ops {
			w.finish([]*op{o}, w.attempt([]*op{o}))
		}
		return
	}
	w.finish(ops, err)
}

func (w *writer) finish(ops []*op, err error) {
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

// try runs operations in one transaction. On an error nothing has happened, or,
// where mustReopen says so, it may have.
func (w *writer) try(ops []*op) error {
	if w.c == nil {
		return w.down()
	}

	t := &w.t
	t.conn, t.w = w.c, w
	defer t.clear()

	began := w.e.begin()
	err := w.transact(t, ops)
	w.e.observe("transaction", began)
	if err != nil {
		t.forget()
		if w.c.InTx() { // SQLite has not ended it by itself
			err = errors.Join(err, w.c.Exec("ROLLBACK"))
		}
		return err
	}

	t.publish()
	w.committed(t)
	return nil
}

func (w *writer) transact(t *tx, ops []*op) (err error) {
	defer w.calm(&err)
	if _, err := w.c.stmt("begin").Run(); err != nil {
		return err
	}
	arrange(ops)
	for i, o := range ops {
		if o.err = cmp.Or(o.begin(), w.room.admit(o.needs)); o.err != nil {
			continue
		}
		if err := t.flush(o.joins); err != nil {
			return err
		}
		t.turns = ops[i:]
		if o.joins != joinsReserves || len(t.supplies) == 0 { // one moment for all that share
			t.begin()
		}
		if o.err = o.run(t); o.err != nil && !refusal(o.err) {
			return o.err
		}
	}
	if err := t.save(); err != nil {
		return err
	}
	if err := w.room.cover(w.c); err != nil {
		return err
	}

	began := w.e.begin()
	_, err = w.c.stmt("commit").Run()
	w.e.observe("commit", began)
	return err
}

// calm keeps a panic in one operation, or in what several share, from ending
// the process: it is an error of the transaction. Those that did not cause it
// succeed when each is done by itself.
func (w *writer) calm(err *error) {
	if r := recover(); r != nil {
		w.log.Error("an operation panicked", "panic", r, "stack", string(debug.Stack()))
		*err = duly.Errorf(duly.CodeInternal, "the operation failed; the log tells more")
	}
}

// committed does what follows a commit.
func (w *writer) committed(t *tx) {
	for _, d := range t.dropped {
		w.log.Info("dropped over a bound", "queue", d.ref.String(), "state", d.state.String(), "jobs", d.n)
	}
	w.logMisses(t)
	pages := w.c.PagesWritten()
	w.pages += pages
	if d := w.e.cfg.SyncDelay; d > 0 && pages > 0 {
		<-w.clock.NewTimer(d).C
	}
	w.e.hub.publish(t)
	if t.tokens {
		w.e.watchers.ring()
	}
	if t.destroyed {
		w.graves = true
	}
}

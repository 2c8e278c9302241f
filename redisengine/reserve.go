package redisengine

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// Reserve implements duly.Engine. Queues are asked one after the other, and
// each queue's shards beginning at the one that somebody was woken for, else at
// a random one.
func (e *Engine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := e.alive(ctx); err != nil {
		e.hub.pass(p.Namespace, p.Queues)
		return nil, err
	}
	if !e.work.enter() {
		return nil, duly.ErrClosed
	}
	defer e.work.done()
	if ctx.Done() != nil {
		ctx = undated{ctx}
	}
	t := newTaking(e, p)
	err := t.run(ctx)
	if ctx.Err() != nil {
		return nil, t.leave(ctx.Err())
	}
	return t.got, err
}

// undated ends as a caller's context does, but tells of no deadline: what was
// not reached is asked again for as long as the link would of itself.
type undated struct{ context.Context }

// Deadline implements context.Context.
func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// taking is one Reserve under way.
type taking struct {
	e      *Engine
	p      duly.ReserveParams
	left   int // deliveries
	room   int // bytes of bodies
	full   bool
	again  bool // it asks not for the first time
	owed   owed
	share  share // of the joint call that is on its way
	got    []duly.Delivery
	broken error // of jobs that could not be read
}

// owed is a shard that somebody was woken for and that was not asked since.
type owed struct {
	ref   duly.QueueRef // without a name: none
	shard int
}

func newTaking(e *Engine, p duly.ReserveParams) *taking {
	return &taking{e: e, p: p, left: p.Max, room: duly.MaxBatchBytes}
}

// leave is the end of a Reserve whose caller has gone: what it brought is given
// back, and others are woken for what it has not asked.
func (t *taking) leave(cause error) error {
	if len(t.got) > 0 {
		t.e.work.begin(t.release)
	}
	if o := t.owed; o.ref.Name != "" {
		t.e.hub.spawn(func() { t.e.hub.instead(o.ref, o.shard) })
	}
	return duly.Unanswered(cause)
}

// run asks the queues, and again as long as there is nothing to be had and one
// of them was not reached. Once something was leased it is the answer, and an
// error after that is not.
func (t *taking) run(ctx context.Context) error {
	for p := t.e.link.Patience(ctx); ; t.again = true {
		err := t.ask(ctx)
		switch {
		case len(t.got) > 0:
			return nil
		case err == nil:
			return t.broken
		case !link.Untouched(err) || !p.Wait():
			return err
		}
	}
}

// ask asks every queue once. A node that is not reached does not keep the others
// from being asked; the answer is then one of its errors.
func (t *taking) ask(ctx context.Context) error {
	failed := t.e.failure()
	for i, name := range t.p.Queues {
		ref := duly.QueueRef{Namespace: t.p.Namespace, Name: name}.Normal()
		w := round{failed: t.e.failure()}
		err := t.e.with(ctx, ref, func(q *queue) error {
			if q == nil {
				return nil
			}
			return t.queue(ctx, q, &w)
		})
		fatal := err != nil && !failed.take(err)
		if fatal || t.left == 0 || t.full {
			t.e.hub.pass(t.p.Namespace, t.p.Queues[i+1:])
		}
		switch {
		case fatal:
			return err
		case t.left == 0 || t.full:
			return nil
		}
	}
	return failed.err
}

// failure is why a node of a cluster, or a part of a call, was not reached: that a call may have run
// counts for more than that one certainly did not.
type failure struct {
	cluster bool // there are other nodes
	err     error
}

func (e *Engine) failure() failure { return failure{cluster: e.link.Options().Mode == link.Cluster} }

// take notes an error that does not keep other nodes from being asked; false
// for any other.
func (f *failure) take(err error) bool {
	if !f.cluster || duly.CodeOf(err) != duly.CodeUnavailable {
		return false
	}
	f.note(err)
	return true
}

func (f *failure) note(err error) {
	if f.err == nil || link.Untouched(f.err) {
		f.err = err
	}
}

// round is a Reserve's way through the shards of one queue.
type round struct {
	walk
	first  int
	failed failure
}

func (t *taking) queue(ctx context.Context, q *queue, r *round) error {
	if r.begins(q) {
		first, woken := t.begin(q.ref)
		if !woken && len(q.shards) > 1 {
			var b [1]byte
			rand.Read(b[:])
			first = int(b[0]) // there is a power of two of them
		}
		r.first, r.failed = first, t.e.failure()
	}
	enough := func() bool { return t.left == 0 || t.full }
	err := r.each(q, r.first, func(s *shard) error {
		if enough() {
			return nil
		}
		if err := t.shard(ctx, q, s); err != nil && !r.failed.take(err) {
			return err
		}
		return nil
	})
	if err != nil || enough() {
		return err
	}
	return r.failed.err
}

// begin tells the shard that a waiter was woken for.
func (t *taking) begin(ref duly.QueueRef) (shard int, woken bool) {
	if t.owed.ref != ref { // else its call has found another configuration
		if t.owed = (owed{}); t.again {
			return 0, false
		}
		if shard, woken = t.e.hub.reserving(ref); !woken {
			return 0, false
		}
		t.owed = owed{ref, shard}
	}
	return t.owed.shard, true
}

// shard takes what one shard has, if its node is reached. A step that ended at
// its bound is repeated before the answer is nothing, and so is a call that had
// room for others alone.
func (t *taking) shard(ctx context.Context, q *queue, s *shard) error {
	s.emptied.Store(0)
	for {
		err := t.join(ctx, q, s)
		if t.asked(s, err); err != nil {
			return err
		}
		before := len(t.got)
		t.read(q, s)
		t.full = t.share.more == fullUp && len(t.got) > 0
		if len(t.got) > before || t.full || t.share.more == noMore {
			return nil
		}
	}
}

// asked notes that a shard was asked, and so has told anew what is there.
func (t *taking) asked(s *shard, err error) {
	var other *stale
	if s.index == t.owed.shard && !errors.Is(err, errUnsent) && !errors.As(err, &other) {
		t.owed = owed{}
	}
}

// read takes over what a shard has handed out.
func (t *taking) read(q *queue, s *shard) {
	h := &t.share.handed
	t.got = slices.Grow(t.got, h.n)
	w := writing{ref: q.ref, shard: s.index, now: h.now, left: h.n, receipts: make([]byte, 0, h.n*(len(q.ref.Name)+36))}
	for i := range h.n {
		number, record, there := h.next(i)
		if !there {
			continue // a number without a record; Check names it
		}
		at := len(t.got)
		t.got = t.got[:at+1]
		d := &t.got[at]
		if !w.write(d, h, i, number, record) {
			t.got = t.got[:at]
			t.broken = damagedJob(q.ref, number)
			t.e.cfg.Logger.Error("a job can't be read; it stays leased until its lease ends", "queue", q.ref.String(), "number", numberText(number))
			continue
		}
		t.left--
		t.room -= len(d.Body)
	}
}

// release gives back what a caller that has gone does not want. Where the answer
// is lost it is repeated: what was released has no current receipt any more.
func (t *taking) release() {
	outcomes := make([]duly.Outcome, len(t.got))
	for i, d := range t.got {
		outcomes[i] = duly.Outcome{Receipt: d.Receipt, As: duly.Release}
	}
	for p := t.e.link.Patience(context.Background()); ; {
		_, err := t.e.settle(context.Background(), t.p.Namespace, outcomes)
		switch {
		case err == nil:
			return
		case duly.CodeOf(err) != duly.CodeUnavailable || !p.Wait():
			t.e.cfg.Logger.Warn("jobs of a caller that has gone stay leased until their leases end", "jobs", len(outcomes), "error", err)
			return
		}
	}
}

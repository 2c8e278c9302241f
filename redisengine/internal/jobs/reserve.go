package jobs

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/internal/wait"
)

// Reserve implements duly.Engine. Queues are asked one after the other, and
// each queue's shards beginning at the one that somebody was woken for, else at
// a random one.
func (e *Jobs) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := contract.ValidateReserve(&p); err != nil {
		return nil, err
	}
	if err := e.Alive(ctx); err != nil {
		e.hub.PassOn(p.Namespace, p.Queues, p.Dispatcher)
		return nil, err
	}
	if !e.Tasks.Add() {
		return nil, duly.ErrClosed
	}
	defer e.Tasks.Done()
	if ctx.Done() != nil {
		ctx = withoutDeadline{ctx}
	}

	if err := e.checkGroups(ctx, p); err != nil {
		e.hub.PassOn(p.Namespace, p.Queues, p.Dispatcher)
		return nil, err
	}
	t := NewReservation(e, p)
	err := t.run(ctx)
	if ctx.Err() != nil {
		return nil, t.leave(ctx.Err())
	}

	return t.Got, err
}

// withoutDeadline is a caller's context without its deadline: what was not reached
// is asked again for as long as the link does by default.
type withoutDeadline struct{ context.Context }

// Deadline implements context.Context.
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// Reservation is one Reserve under way.
type Reservation struct {
	e      *Jobs
	p      duly.ReserveParams
	left   int // deliveries
	room   int // bytes of bodies
	full   bool
	again  bool // it asks not for the first time
	wakeup wakeup
	share  share // of the joint call that is on its way
	Got    []duly.Delivery
	broken error // of jobs that could not be read
}

// wakeup is a shard that a waiter was woken for and that was not asked since.
type wakeup struct {
	ref   duly.QueueRef // without a name: none
	shard int
}

// NewReservation returns a Reserve that has nothing yet.
func NewReservation(e *Jobs, p duly.ReserveParams) *Reservation {
	return &Reservation{e: e, p: p, left: p.Max, room: duly.MaxBatchBytes}
}

// leave is the end of a Reserve whose caller has gone: what it brought is given
// back, and others are woken for what it has not asked.
func (t *Reservation) leave(cause error) error {
	if len(t.Got) > 0 {
		t.e.Tasks.Go(t.Release)
	}
	if o := t.wakeup; o.ref.Name != "" {
		t.e.hub.Go(func() { t.e.hub.WakeAnother(wait.Door{Ref: o.ref, Dispatcher: t.p.Dispatcher}, o.shard) })
	}
	return contract.Unanswered(cause)
}

// run asks the queues, and again as long as there is nothing to be had and one
// of them was not reached. Once something was leased it is the answer, and an
// error after that is not.
func (t *Reservation) run(ctx context.Context) error {
	for p := t.e.Link.Backoff(ctx); ; t.again = true {
		err := t.ask(ctx)
		switch {
		case len(t.Got) > 0:
			return nil
		case err == nil:
			return t.broken
		case !link.Untouched(err) || !p.Wait():
			return err
		}
	}
}

// checkGroups returns an error for a Reserve of an unknown group or of a topic, before
// anything is leased.
func (e *Jobs) checkGroups(ctx context.Context, p duly.ReserveParams) error {
	for _, name := range p.Queues {
		ref := duly.QueueRef{Namespace: p.Namespace, Name: name}.Normal()
		q := e.Cache.Get(ref)
		if q == nil && ref.IsGroup() {
			var err error
			if q, err = e.Find(ctx, ref); err != nil {
				return err
			}
			if q == nil {
				return e.Unknown(ctx, ref)
			}
		}

		if q != nil && q.Topic != nil {
			return contract.IsTopic(ref)
		}

		if q != nil && q.View != nil {
			if err := contract.CheckGroupTarget(q.Config.Group, ref, p.Target); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask asks every queue once. A node that is not reached does not keep the others
// from being asked; the answer is then one of its errors.
func (t *Reservation) ask(ctx context.Context) error {
	failed := t.e.newFailure()
	for i, name := range t.p.Queues {
		ref := duly.QueueRef{Namespace: t.p.Namespace, Name: name}.Normal()
		w := queueRound{failed: t.e.newFailure()}
		err := t.e.With(ctx, ref, func(q *catalog.Queue) error {
			if q == nil && ref.IsGroup() {
				return t.e.Unknown(ctx, ref)
			}
			if q == nil {
				return nil
			}
			if q.View != nil { // its configuration may be another one than at the beginning
				if err := contract.CheckGroupTarget(q.Config.Group, ref, t.p.Target); err != nil {
					return err
				}
			}
			return t.queue(ctx, q, &w)
		})

		fatal := err != nil && !failed.noteOtherNode(err)
		if fatal || t.left == 0 || t.full {
			t.e.hub.PassOn(t.p.Namespace, t.p.Queues[i+1:], t.p.Dispatcher)
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

// queueRound is a Reserve's progress through the shards of one queue.
type queueRound struct {
	catalog.Walk
	had    int  // deliveries of other queues
	woken  bool // a waiter was woken for the queue
	first  int
	failed failure
}

func (t *Reservation) queue(ctx context.Context, q *catalog.Queue, r *queueRound) error {
	if r.Begin(q) {
		first, woken := t.begin(q.Ref)
		r.had, r.woken = len(t.Got), r.woken || woken
		if !woken && len(q.Shards) > 1 {
			first = int(t.e.reserves.next()) // there is a power of two of them
		}
		r.first, r.failed = first, t.e.newFailure()
	}

	enough := func() bool { return t.left == 0 || t.full }
	err := r.Each(q, r.first, func(s *catalog.Shard) error {
		if enough() {
			return nil
		}
		if err := t.shard(ctx, q, s); err != nil && !r.failed.noteOtherNode(err) {
			return err
		}
		return nil
	})

	// A filter passes over messages that have woken a waiter. Of other queues, another
	// caller was faster, which is no reason to wait.
	found := len(t.Got) > r.had
	if q.Config.Group.Filter != "" && (found || err == nil && r.failed.err == nil) {
		t.e.hub.Reserved(wait.Door{Ref: q.Ref}, found, r.woken)
	}

	if err != nil || enough() {
		return err
	}

	return r.failed.err
}

// begin returns the shard that a waiter was woken for.
func (t *Reservation) begin(ref duly.QueueRef) (shard int, woken bool) {
	if t.wakeup.ref != ref { // else its call has found another configuration
		if t.wakeup = (wakeup{}); t.again {
			return 0, false
		}
		if shard, woken = t.e.hub.Arrive(wait.Door{Ref: ref, Dispatcher: t.p.Dispatcher}); !woken {
			return 0, false
		}
		t.wakeup = wakeup{ref, shard}
	}
	return t.wakeup.shard, true
}

// shard takes what one shard has, if its node is reached. A step that ended at
// its bound is repeated before the answer is nothing. So is a joint call whose room
// other callers have used: this caller has its own (C4.3).
func (t *Reservation) shard(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	if q.Dispatched() != t.p.Dispatcher {
		return t.stepOnly(ctx, q, s)
	}
	s.Emptied.Store(0)
	for {
		err := t.join(ctx, q, s)
		if t.noteAsked(s, err); err != nil {
			return err
		}
		before := len(t.Got)
		if q.View != nil {
			t.readMessages()
		} else {
			t.read(q, s)
		}
		filled := t.share.more == noRoom
		if filled && t.share.joint && t.left > 0 && !t.hasSuspect() {
			continue
		}
		t.full = filled && len(t.Got) > 0
		if len(t.Got) > before || t.full || t.share.more == noMore {
			return nil
		}
	}
}

// stepOnly moves a shard forward that has jobs for other callers alone. The shard also
// says whether this is still so.
func (t *Reservation) stepOnly(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	if q.View != nil {
		return nil
	}
	_, err := t.e.CallOnce(ctx, q, s, store.ScriptStep, s.Limits)
	t.noteAsked(s, err)
	return err
}

// hasSuspect reports whether a job came that goes alone.
func (t *Reservation) hasSuspect() bool {
	return slices.ContainsFunc(t.Got, func(d duly.Delivery) bool { return contract.Suspect(&d.Job, d.Failures, d.Stalls) })
}

// noteAsked notes that a shard was asked, and so has said again what it has.
func (t *Reservation) noteAsked(s *catalog.Shard, err error) {
	var other *catalog.Stale
	if s.Index == t.wakeup.shard && !errors.Is(err, errUnsent) && !errors.As(err, &other) {
		t.wakeup = wakeup{}
	}
}

// read takes over what a shard has handed out.
func (t *Reservation) read(q *catalog.Queue, s *catalog.Shard) {
	h := &t.share.handed
	t.Got = slices.Grow(t.Got, h.N)
	w := codec.DeliveryWriter{Ref: q.Ref, Shard: s.Index, Now: h.Now, Left: h.N, Receipts: make([]byte, 0, h.N*(len(q.Ref.Name)+36))}
	for i := range h.N {
		number, record, there := h.Next(i)
		if !there {
			continue // a number without a record; Check names it
		}
		at := len(t.Got)
		t.Got = t.Got[:at+1]
		d := &t.Got[at]
		if !w.Write(d, h, i, number, record) {
			t.Got = t.Got[:at]
			t.broken = codec.DamagedJob(q.Ref, number)
			t.e.Settings.Logger.Error(
				"a job can't be read; it stays leased until its lease ends",
				"queue", q.Ref.String(), "number", codec.NumberText(number))
			continue
		}
		t.left--
		t.room -= len(d.Body)
	}
}

// readMessages adds the deliveries of a shard of a group.
func (t *Reservation) readMessages() {
	for _, d := range t.share.messages {
		t.left--
		t.room -= len(d.Body)
	}
	t.Got = append(t.Got, t.share.messages...)
}

// Release gives back what a caller that has gone does not want. Where the answer
// is lost it is repeated: what was released has no current receipt any more.
func (t *Reservation) Release() {
	outcomes := make([]duly.SettleRequest, len(t.Got))
	for i, d := range t.Got {
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Release}
	}
	for p := t.e.Link.Backoff(context.Background()); ; {
		_, err := t.e.settle(context.Background(), t.p.Namespace, outcomes)
		switch {
		case err == nil:
			return
		case duly.CodeOf(err) != duly.CodeUnavailable || !p.Wait():
			t.e.Settings.Logger.Warn("jobs of a caller that has gone stay leased until their leases end", "jobs", len(outcomes), "error", err)
			return
		}
	}
}

// What a reserve says of what it has not handed out.
const (
	noMore int64 = iota
	moreSteps
	noRoom // the next job does not go with what was handed out
)

// errUnsent says that a caller has left before its call was sent. No caller of the
// engine ever sees it.
var errUnsent = errors.New("redisengine: left before the call was sent")

// maxShared is how many jobs a caller may want to go with others. More are
// worth a call of their own, which then waits for nobody.
const maxShared = 100

// join asks a shard together with other callers that want jobs of the same lease,
// in the order in which they came.
func (t *Reservation) join(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	t.share = share{room: t.room, hasJobs: len(t.Got) > 0, consumer: t.p.Consumer}
	c := newBatched(t.left)
	c.lease, c.share = codec.Micros(t.p.Lease), &t.share
	b := &t.e.Batchers(q, s).Reserve
	do := b.Do
	if t.left > maxShared || len(t.Got) > 0 {
		do = b.DoAlone
	}

	err := do(ctx, c)
	switch {
	case c.Answered():
		c.free()
	case err != nil && err == ctx.Err():
		return errUnsent
	}
	return err
}

// roomOf returns how many jobs the calls of a batch ask for, and the bytes that they have
// room for. hasJobs is "1" if the caller has jobs already. Such a call is never joined
// with others.
func roomOf(calls []*Batched) (most, room int, hasJobs string) {
	for _, c := range calls {
		most += c.Items
	}
	if len(calls) > 1 {
		return most, duly.MaxBatchBytes, "0"
	}

	hasJobs = "0"
	if calls[0].share.hasJobs {
		hasJobs = "1"
	}
	return most, calls[0].share.room, hasJobs
}

// sendReserve returns the sender of batched reserves. It waits for the reply even
// if all callers leave, because the reply may hand out leases.
func (e *Jobs) sendReserve(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		most, room, hasJobs := roomOf(calls)
		asked := e.Local().Mono()
		r, err := e.CallOnce(ctx, q, s, store.ScriptReserve, s.Limits,
			strconv.Itoa(most), strconv.FormatInt(calls[0].lease, 10), strconv.Itoa(room), hasJobs)
		if err != nil {
			e.repairer.Repair(catalog.ShardRef{Ref: q.Ref, Index: s.Index}, err)
			return err
		}

		h, more := codec.ReadDeliveries(r.Rest), codec.Integer(&r.Rest[0])
		if h.N < most && more == noMore {
			s.Emptied.Store(int64(asked) + 1)
		}
		if at := h.FirstEnd(); at != 0 {
			e.hub.LeasesGranted(q, s, at, store.Reading{Now: h.Now * 1000, Sent: asked, Received: e.Local().Mono()})
		}
		if deal(calls, &h, more); h.N > 0 {
			e.Tasks.Go(func() { e.giveBack(q, s, h) })
		}

		return nil
	}
}

// deal gives the jobs of an answer to the callers, in the order in which they came.
// What is left was meant for callers that have left.
func deal(calls []*Batched, h *codec.Deliveries, more int64) {
	for _, c := range calls {
		if c.Claim() {
			c.share.more, c.share.joint = more, len(calls) > 1
			c.share.handed = h.Cut(c.Items)
		}
	}
}

// giveBack releases what nobody has taken.
func (e *Jobs) giveBack(q *catalog.Queue, s *catalog.Shard, h codec.Deliveries) {
	t := NewReservation(e, duly.ReserveParams{Namespace: q.Ref.Namespace})
	t.share.handed = h
	if t.read(q, s); len(t.Got) > 0 {
		t.Release()
	}
}

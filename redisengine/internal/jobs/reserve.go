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

// Reserve implements duly.Engine. It asks the queues one after the other. In each queue it begins
// at the shard that a waiter was woken for, or else at a random one.
func (e *Jobs) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := contract.ValidateReserve(&p); err != nil {
		return nil, err
	}
	if err := e.Alive(ctx); err != nil {
		// The caller may have been woken for a job. Since it reserves nothing, another waiter must
		// be woken.
		e.hub.PassOn(p.Namespace, p.Queues, p.Dispatcher)
		return nil, err
	}
	// Close waits for this call, so the jobs that it leases are not lost.
	if !e.Tasks.Add() {
		return nil, duly.ErrClosed
	}
	defer e.Tasks.Done()
	// The caller's deadline limits waiting, not the retries of an unreachable shard.
	if ctx.Done() != nil {
		ctx = withoutDeadline{ctx}
	}

	if err := e.checkGroups(ctx, p); err != nil {
		e.hub.PassOn(p.Namespace, p.Queues, p.Dispatcher)
		return nil, err
	}
	t := NewReservation(e, p)
	err := t.run(ctx)
	// The caller has left, so nobody would settle the jobs.
	if ctx.Err() != nil {
		return nil, t.leave(ctx.Err())
	}

	return t.Got, err
}

// withoutDeadline is a caller's context without its deadline. An unreachable shard is then
// retried for as long as the link does by default.
type withoutDeadline struct{ context.Context }

// Deadline implements context.Context.
func (withoutDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// Reservation is one Reserve in progress.
type Reservation struct {
	e      *Jobs
	p      duly.ReserveParams
	left   int // number of deliveries still wanted
	room   int // bytes of bodies that may still be returned
	full   bool
	again  bool // whether this is a retry
	wakeup wakeup
	share  share // result of the batched call in flight
	Got    []duly.Delivery
	broken error              // the error of a job that could not be read
	due    []catalog.ShardRef // shards that have reported a due tick
	fired  bool               // whether the ticks of due were fired
}

// wakeup is the shard that a waiter was woken for, as long as it has not been asked.
type wakeup struct {
	ref   duly.QueueRef // the zero value means no wake-up
	shard int
}

// NewReservation returns a Reserve without jobs.
func NewReservation(e *Jobs, p duly.ReserveParams) *Reservation {
	return &Reservation{e: e, p: p, left: p.Max, room: duly.MaxBatchBytes}
}

// leave ends a Reserve whose caller has left. It releases the reserved jobs and passes a wake-up
// on to another waiter.
func (t *Reservation) leave(cause error) error {
	if len(t.Got) > 0 {
		t.e.Tasks.Go(t.Release)
	}
	if o := t.wakeup; o.ref.Name != "" {
		t.e.hub.Go(func() { t.e.hub.WakeAnother(wait.Door{Ref: o.ref, Dispatcher: t.p.Dispatcher}, o.shard) })
	}
	return contract.Unanswered(cause)
}

// run asks the queues. It retries while there are no jobs and a queue was unreachable. Once a job
// is leased, the jobs are the answer, and later errors are ignored.
func (t *Reservation) run(ctx context.Context) error {
	for p := t.e.Link.Backoff(ctx); ; t.again = true {
		err := t.ask(ctx)
		switch {
		case len(t.Got) > 0:
			return nil
		case err == nil && len(t.due) > 0 && !t.fired:
			t.fireTicks(ctx)
		case err == nil:
			return t.broken
		// A call that may have run may also have leased jobs, so it is not repeated.
		case !link.Untouched(err) || !p.Wait():
			return err
		}
	}
}

// fireTicks fires due ticks, so that a Reserve that has found nothing gets their runs. If that
// fails, the ticks stay due.
func (t *Reservation) fireTicks(ctx context.Context) {
	t.fired = true
	for _, at := range t.due {
		_, _ = t.e.Ticks.Round(ctx, at)
	}
}

// checkGroups returns an error for a Reserve of an unknown group or of a topic, before any job is
// leased.
func (e *Jobs) checkGroups(ctx context.Context, p duly.ReserveParams) error {
	for _, name := range p.Queues {
		ref := duly.QueueRef{Namespace: p.Namespace, Name: name}.Normal()
		q := e.Cache.Get(ref)
		// A group has no default configuration, so an unknown one is an error.
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

// ask asks every queue once. An unreachable node does not stop the others from being asked. ask
// then returns one of the errors.
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
			// The configuration may have changed since checkGroups.
			if q.View != nil {
				if err := contract.CheckGroupTarget(q.Config.Group, ref, t.p.Target); err != nil {
					return err
				}
			}
			return t.queue(ctx, q, &w)
		})

		fatal := err != nil && !failed.noteOtherNode(err)
		if fatal || t.left == 0 || t.full {
			// Wake-ups for the queues that are not asked go to other waiters.
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

// queueRound is the progress of a Reserve through the shards of one queue.
type queueRound struct {
	catalog.Walk
	had    int  // number of deliveries from earlier queues
	woken  bool // whether a waiter was woken for this queue
	first  int
	failed failure
}

func (t *Reservation) queue(ctx context.Context, q *catalog.Queue, r *queueRound) error {
	if r.Begin(q) {
		first, woken := t.begin(q.Ref)
		r.had, r.woken = len(t.Got), r.woken || woken
		if !woken && len(q.Shards) > 1 {
			// The number is reduced to a valid index later, because the number of shards is a power
			// of two.
			first = int(t.e.reserves.next())
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

	// A filter may skip messages that have woken a waiter, and that slows down later wake-ups. In
	// other queues an empty Reserve only means that another caller was faster.
	found := len(t.Got) > r.had
	if q.Config.Group.Filter != "" && (found || err == nil && r.failed.err == nil) {
		t.e.hub.Reserved(wait.Door{Ref: q.Ref}, found, r.woken)
	}

	if err != nil || enough() {
		return err
	}

	return r.failed.err
}

// begin returns the shard that a waiter was woken for, if any.
func (t *Reservation) begin(ref duly.QueueRef) (shard int, woken bool) {
	// If the wake-up is for the same queue, this is a retry after a change of the configuration.
	if t.wakeup.ref != ref {
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

// shard reserves jobs from one shard, if its node is reachable. It asks again if a step ended at
// its limit. It also asks again if other callers of the batch used up the bytes, because each
// caller has its own limit (C4.3).
func (t *Reservation) shard(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	// Dispatchers and workers must not reserve each other's jobs.
	if q.Dispatched() != t.p.Dispatcher {
		return t.stepOnly(ctx, q, s)
	}
	// A new waiter must not skip its first poll because of an older answer.
	s.Emptied.Store(0)
	for {
		err := t.join(ctx, q, s)
		if t.noteAsked(s, err); err != nil {
			return err
		}
		if t.share.tickDue {
			t.due = append(t.due, catalog.ShardRef{Ref: q.Ref, Index: s.Index})
		}
		before := len(t.Got)
		if q.View != nil {
			t.readMessages()
		} else {
			t.read(q, s)
		}
		// A suspect job is delivered alone, so an answer with such a job is complete.
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

// stepOnly makes one step in a shard whose jobs are for other callers. The answer also shows
// whether the configuration is still current.
func (t *Reservation) stepOnly(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	if q.View != nil {
		return nil
	}
	_, err := t.e.CallOnce(ctx, q, s, store.ScriptStep, s.Limits)
	t.noteAsked(s, err)
	return err
}

// hasSuspect reports whether a reserved job must be delivered alone.
func (t *Reservation) hasSuspect() bool {
	return slices.ContainsFunc(t.Got, func(d duly.Delivery) bool { return contract.Suspect(&d.Job, d.Failures, d.Stalls) })
}

// noteAsked clears the wake-up of a shard that has answered.
func (t *Reservation) noteAsked(s *catalog.Shard, err error) {
	var other *catalog.Stale
	// A shard that was not asked, or has another configuration, still needs the wake-up.
	if s.Index == t.wakeup.shard && !errors.Is(err, errUnsent) && !errors.As(err, &other) {
		t.wakeup = wakeup{}
	}
}

// read adds the deliveries of a shard.
func (t *Reservation) read(q *catalog.Queue, s *catalog.Shard) {
	h := &t.share.handed
	t.Got = slices.Grow(t.Got, h.N)
	w := codec.DeliveryWriter{Ref: q.Ref, Shard: s.Index, Now: h.Now, Left: h.N,
		Receipts: make([]byte, 0, h.N*(len(q.Ref.Name)+36))}
	for i := range h.N {
		number, record, there := h.Next(i)
		if !there {
			// Check reports a number without a record.
			continue
		}
		at := len(t.Got)
		t.Got = t.Got[:at+1]
		// Filling the slice in place saves a copy of each delivery.
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

// Release returns the jobs of a caller that has left. It may retry after a lost answer, because the
// receipt of a released job is no longer valid.
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
			t.e.Settings.Logger.Warn("jobs of a caller that has left stay leased until their leases end", "jobs",
				len(outcomes), "error", err)
			return
		}
	}
}

// These constants are a reserve's answer about jobs that it did not deliver.
const (
	noMore int64 = iota
	moreSteps
	noRoom // the next job does not fit into this answer

	tickDue int64 = 4 // is added if a tick of a schedule is due
)

// errUnsent means that a caller left before its call was sent. Callers of the engine never see
// it.
var errUnsent = errors.New("redisengine: left before the call was sent")

// maxShared is the largest Max that shares a batch. A call for more jobs is sent alone, and does
// not wait for other calls.
const maxShared = 100

// join asks a shard together with other callers that want the same lease, in the order in which
// they came.
func (t *Reservation) join(ctx context.Context, q *catalog.Queue, s *catalog.Shard) error {
	t.share = share{room: t.room, hasJobs: len(t.Got) > 0, consumer: t.p.Consumer}
	c := newBatched(t.left)
	c.lease, c.share = codec.Micros(t.p.Lease), &t.share
	b := &t.e.Batchers(q, s).Reserve
	do := b.Do
	// A Reserve that already has jobs may return fewer bytes, so the limits of a batch don't fit
	// it.
	if t.left > maxShared || len(t.Got) > 0 {
		do = b.DoAlone
	}

	err := do(ctx, c)
	switch {
	case c.Answered():
		c.free()
	case err != nil && err == ctx.Err():
		// The sender had not started, so no job was leased for this caller.
		return errUnsent
	}
	return err
}

// roomOf returns how many jobs the calls of a batch want in total, and how many bytes. hasJobs is
// "1" if the caller already has jobs. Such a call is never batched with others.
func roomOf(calls []*Batched) (most, room int, hasJobs string) {
	for _, c := range calls {
		most += c.Items
	}
	if len(calls) > 1 {
		return most, duly.MaxBatchBytes, "0"
	}
	return most, calls[0].share.room, codec.Flag(calls[0].share.hasJobs)
}

// sendReserve returns the sender of batched reserves. It waits for the reply even if all callers
// leave, because the reply may contain leases.
func (e *Jobs) sendReserve(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		most, room, hasJobs := roomOf(calls)
		asked := e.Local().Mono()
		r, err := e.CallOnce(ctx, q, s, store.ScriptReserve, s.Limits,
			strconv.Itoa(most), strconv.FormatInt(calls[0].lease, 10), strconv.Itoa(room), hasJobs)
		if err != nil {
			// Damaged keys are repaired in the background, so the next call may succeed.
			e.repairer.Repair(catalog.ShardRef{Ref: q.Ref, Index: s.Index}, err)
			return err
		}

		h, more := codec.ReadDeliveries(r.Rest), codec.Integer(&r.Rest[0])
		due := more&tickDue != 0 && e.Ticks.Start(catalog.ShardRef{Ref: q.Ref, Index: s.Index})
		more &^= tickDue
		// An empty shard lets a new waiter skip its first poll.
		if h.N < most && more == noMore {
			s.Emptied.Store(int64(asked) + 1)
		}
		if at := h.FirstEnd(); at != 0 {
			e.hub.LeasesGranted(q, s, at, store.Reading{Now: h.Now * 1000, Sent: asked, Received: e.Local().Mono()})
		}
		if h.Misaligned {
			return e.misaligned(q)
		}
		// The remaining jobs were leased for callers that have left.
		if deal(calls, &h, more, due); h.N > 0 {
			e.Tasks.Go(func() { e.giveBack(q, s, h) })
		}

		return nil
	}
}

// misaligned logs and returns the error for an answer in which the numbers of jobs cannot be
// separated. The jobs stay leased, because a wrong number would give a job the ID of another job.
func (e *Jobs) misaligned(q *catalog.Queue) error {
	err := contract.Errorf(duly.CodeCorrupt, "queue %s has an entry that is no job: another program has written there; "+
		"the jobs that were reserved with it come again after their leases; run duly check --repair", q.Ref)
	e.Settings.Logger.Error("jobs can't be read; they stay leased until their leases end",
		"queue", q.Ref.String(), "error", err)
	return err
}

// deal distributes the jobs of an answer to the callers, in the order in which they came. The
// remaining jobs of the answer were leased for callers that have left.
func deal(calls []*Batched, h *codec.Deliveries, more int64, due bool) {
	for _, c := range calls {
		if c.Claim() {
			c.share.more, c.share.joint, c.share.tickDue = more, len(calls) > 1, due
			c.share.handed = h.Cut(c.Items)
		}
	}
}

// giveBack releases jobs that no caller has taken.
func (e *Jobs) giveBack(q *catalog.Queue, s *catalog.Shard, h codec.Deliveries) {
	t := NewReservation(e, duly.ReserveParams{Namespace: q.Ref.Namespace})
	t.share.handed = h
	if t.read(q, s); len(t.Got) > 0 {
		t.Release()
	}
}

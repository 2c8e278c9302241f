package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// instant is a reading of the monotonic clock and of the wall clock.
type instant struct {
	mono time.Duration
	wall time.Time
}

const never = time.Duration(math.MaxInt64)

// lease is what the worker knows about a lease. renewAt and holdEnd are readings of
// Clock.Mono.
type lease struct {
	length  time.Duration // length of an extension
	from    instant       // time before the call that granted the lease was sent
	trusted time.Duration // time after from during which the worker trusts the lease
	renewAt time.Duration
	holdEnd time.Duration // time at which MaxHold has passed

	released bool // whether the worker no longer extends the lease
	lost     bool // whether the lease is lost, or may be lost
	// suspect means that the engine has reported the job as removed. An Extend that is sent after
	// the report shows whether the job was removed. verifying means that this Extend is in flight.
	suspect, verifying bool
	// notified means that the handler's context was ended because of the lease.
	notified bool
}

// grant starts the lease again, after a call that was sent at the time from.
func (l *lease) grant(from instant, length, margin time.Duration) {
	l.from, l.trusted = from, length-margin
	l.renewAt = from.mono + length/3
}

// expired reports whether the lease may have ended. Either clock is enough: the monotonic
// clock does not notice that a machine slept, and the wall clock may be set back.
func (l *lease) expired(now instant) bool {
	return now.mono-l.from.mono >= l.trusted || now.wall.Sub(l.from.wall) >= l.trusted
}

// lose marks the lease as lost, and reports whether its handler must be notified.
func (l *lease) lose() (notify bool) {
	notify = !l.notified
	l.lost, l.released, l.notified = true, true, true
	return notify
}

// verified ends a suspicion after a successful Extend. A report that came after the Extend
// was sent makes the lease due at once.
func (l *lease) verified(now time.Duration) {
	if l.suspect = l.suspect && !l.verifying; l.suspect {
		l.renewAt = now
	}
	l.verifying = false
}

// nextCheck returns when the renewer must check the lease.
func (l *lease) nextCheck(extending bool) time.Duration {
	if l.lost {
		return never
	}
	at := l.from.mono + l.trusted
	if !l.released {
		at = min(at, l.holdEnd)
		// If an Extend is in flight, its end starts another check.
		if !extending {
			at = min(at, l.renewAt)
		}
	}
	return at
}

// leaseRenewer renews the leases of all running jobs with one goroutine and one timer. A job that
// ends before a third of its lease has passed causes no work.
type leaseRenewer struct {
	engine  duly.Engine
	cfg     *Config
	clock   duly.Clock
	log     *slog.Logger
	health  *engineHealth
	tracker *tracker
	fail    func(error)

	calls sync.WaitGroup // counts Extends in flight

	// tracker.mu guards these fields.

	extending bool // whether an Extend is in flight
	failures  int  // number of failed Extends in a row
}

func (r *leaseRenewer) now() instant { return instant{r.clock.Mono(), r.clock.Now()} }

// loop renews leases until ctx ends.
func (r *leaseRenewer) loop(ctx context.Context) {
	defer r.calls.Wait()
	r.calls.Go(func() { r.watchCancels(ctx) })
	timer := r.clock.NewTimer(time.Hour)
	// The timer needs a first time, which is never reached.
	timer.Stop() // the timer stays off until a job runs
	defer timer.Stop()

	for {
		select {
		case <-timer.C:
		case <-r.tracker.leaseDue:
		case <-ctx.Done():
			return
		}

		next, now := r.check(ctx)
		if next == never {
			timer.Stop()
			continue
		}
		timer.Reset(next - now)
	}
}

// check checks the leases of all running jobs: it ends the handlers whose leases are over,
// and sends the extensions that are due. It returns when to check again.
func (r *leaseRenewer) check(ctx context.Context) (next, checked time.Duration) {
	now := r.now()
	t := r.tracker
	t.mu.Lock()
	lost, held := r.endedLocked(now)
	due := r.dueLocked(now)
	next, renewing := never, false
	for _, j := range t.running {
		next = min(next, j.lease.nextCheck(r.extending))
		renewing = renewing || !j.lease.released
	}
	t.renewAt = next
	t.mu.Unlock()

	// No lease is renewed any more, so a failed extension no longer means that the store is lost.
	if !renewing {
		r.health.abandon(opExtend)
	}
	r.end(lost, ErrLeaseLost)
	r.end(held, ErrMaxHold)
	if len(due) > 0 {
		r.calls.Go(func() { r.extend(ctx, due) })
	}
	return next, now.mono
}

// endedLocked returns the jobs whose leases are lost, and those that were held for MaxHold.
func (r *leaseRenewer) endedLocked(now instant) (lost, held []*activeJob) {
	for _, j := range r.tracker.running {
		l := &j.lease
		switch {
		case l.lost:
		case l.expired(now):
			if l.lose() {
				lost = append(lost, j)
			}
		case now.mono >= l.holdEnd && !l.released:
			l.released, l.notified = true, true
			held = append(held, j)
		}
	}
	return lost, held
}

// dueLocked returns the jobs of the next Extend: none if no lease is due, otherwise those that are
// due and those that are due soon.
func (r *leaseRenewer) dueLocked(now instant) (due []*activeJob) {
	if r.extending || !r.anyDueLocked(now) {
		return nil
	}
	for _, j := range r.tracker.running {
		l := &j.lease
		if !l.released && l.renewAt <= now.mono+l.length/12 {
			due = append(due, j)
		}
	}

	// The leases of a failed call are due again soon. The other leases go first. Otherwise the
	// worker would try the same leases again and again.
	if len(due) > duly.MaxBatch {
		slices.SortFunc(due, func(a, b *activeJob) int { return cmp.Compare(a.lease.renewAt, b.lease.renewAt) })
		due = due[:duly.MaxBatch]
	}
	for _, j := range due {
		j.lease.verifying = j.lease.suspect
	}
	r.extending = true
	return due
}

func (r *leaseRenewer) anyDueLocked(now instant) bool {
	return slices.ContainsFunc(r.tracker.running, func(j *activeJob) bool {
		return !j.lease.released && j.lease.renewAt <= now.mono
	})
}

// watchCancels receives the engine's reports of removed jobs until ctx ends. Without
// reports, the next extension finds the lease lost.
func (r *leaseRenewer) watchCancels(ctx context.Context) {
	engine, ok := r.engine.(contract.CancelWatcher)
	if !ok {
		return
	}
	watch := contract.CancelWatch{
		// Reports before this moment were not received, so every job may have been removed.
		Ready: func() { r.tracker.verify(func(*activeJob) bool { return true }, r.clock.Mono()) },
		Canceled: func(c contract.Canceled) {
			named := func(j *activeJob) bool { return c.Names(j.delivery.Queue, j.delivery.ID) }
			r.tracker.verify(named, r.clock.Mono())
		},
	}

	// The watch ends with its connection. A missing namespace has no jobs that could be removed.
	for n := 1; ctx.Err() == nil; n++ {
		err := engine.WatchCancels(ctx, r.cfg.Namespace, watch)
		if ctx.Err() != nil || fatal(err) || errors.Is(err, duly.ErrNotFound) {
			return
		}
		r.health.pause(ctx, n, err)
	}
}

// end ends the contexts of handlers whose leases are over, and reports the loss.
func (r *leaseRenewer) end(jobs []*activeJob, cause error) {
	for _, j := range jobs {
		j.cancel(cause)
		d := &j.delivery
		r.log.Warn("a running handler has lost its lease",
			"queue", d.Queue, "job", d.ID, "attempt", d.Attempt, "cause", cause)
		if r.cfg.Observer.LeaseLost != nil {
			r.cfg.Observer.LeaseLost(d, cause)
		}
	}
}

// extend extends leases in one call. Until the answer arrives, the former ends of the leases count.
func (r *leaseRenewer) extend(ctx context.Context, due []*activeJob) {
	receipts := make([]duly.Receipt, len(due))
	timeout := r.cfg.CallTimeout
	for i, j := range due {
		receipts[i] = j.delivery.Receipt
		// A slow call must leave time for another call before the lease ends.
		timeout = min(timeout, j.lease.length/3)
	}

	sent := r.now()
	var answers []error
	err := r.health.call(ctx, opExtend, timeout, func(ctx context.Context) (err error) {
		answers, err = r.engine.Extend(ctx, r.cfg.Namespace, receipts, r.cfg.Lease)
		return checkAnswers(answers, len(receipts), err)
	})
	if err != nil {
		answers = slices.Repeat([]error{err}, len(due))
	}

	lost, canceled := r.apply(due, answers, sent, err)
	r.end(lost, ErrLeaseLost)
	r.end(canceled, duly.ErrCanceled)
	// While the worker stops, its own end may look like a closed engine.
	if fatal(err) && ctx.Err() == nil {
		r.fail(err)
	}
	r.tracker.leaseDue.notify()
}

// apply applies the answers of an Extend. It returns the jobs whose leases are lost, and
// separately the jobs that were canceled.
func (r *leaseRenewer) apply(due []*activeJob, answers []error, sent instant, err error) (lost, canceled []*activeJob) {
	t := r.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	r.extending = false
	r.failures++
	if err == nil {
		r.failures = 0
	}

	for i, j := range due {
		l := &j.lease
		switch {
		case j.index < 0 || l.lost: // the job was settled or its lease was lost since
		case answers[i] == nil:
			l.grant(sent, l.length, r.cfg.margin(l.length))
			l.verified(r.clock.Mono())
		case errors.Is(answers[i], duly.ErrLeaseLost):
			switch {
			case !l.lose():
			case l.suspect:
				canceled = append(canceled, j)
			default:
				lost = append(lost, j)
			}
		default:
			// A sixth of the lease leaves time for several tries before it ends.
			l.renewAt = r.clock.Mono() + min(r.health.backoff(max(r.failures, 1), answers[i]), l.length/6)
		}
	}
	return lost, canceled
}

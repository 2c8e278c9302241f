package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// keeper keeps the leases of everything that runs: one goroutine and one timer
// for all of them. A job that is done before a third of its lease has passed
// costs it nothing.
type keeper struct {
	engine duly.Engine
	cfg    *Config
	clock  duly.Clock
	log    *slog.Logger
	store  *store
	table  *table
	fail   func(error)

	calls sync.WaitGroup // Extends under way

	// What follows is guarded by table.mu.

	extending bool // an Extend is under way
	failures  int  // Extends in a row
}

func (k *keeper) now() moment { return moment{k.clock.Mono(), k.clock.Now()} }

// run keeps leases until ctx ends.
func (k *keeper) run(ctx context.Context) {
	defer k.calls.Wait()
	k.calls.Go(func() { k.watchCancels(ctx) })
	timer := k.clock.NewTimer(time.Hour)
	timer.Stop() // until there is something to keep
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-k.table.look:
		case <-ctx.Done():
			return
		}
		next, now := k.look(ctx)
		if next == never {
			timer.Stop()
			continue
		}
		timer.Reset(next - now)
	}
}

// look goes over the running flights: it ends handlers whose lease is over, sends the
// extensions that are due, and returns when to look again.
func (k *keeper) look(ctx context.Context) (at, looked time.Duration) {
	now := k.now()
	t := k.table
	t.mu.Lock()
	lost, held := k.overLocked(now)
	due := k.dueLocked(now)
	next, keeping := never, false
	for _, f := range t.running {
		next = min(next, f.lease.next(k.extending))
		keeping = keeping || !f.lease.letGo
	}
	t.lookAt = next
	t.mu.Unlock()

	if !keeping {
		k.store.leave(opExtend)
	}
	k.end(lost, ErrLeaseLost)
	k.end(held, ErrMaxHold)
	if len(due) > 0 {
		k.calls.Go(func() { k.extend(ctx, due) })
	}
	return next, now.mono
}

// overLocked finds the flights whose lease is lost, and those that were held
// for long enough.
func (k *keeper) overLocked(now moment) (lost, held []*flight) {
	for _, f := range k.table.running {
		l := &f.lease
		switch {
		case l.gone:
		case l.lost(now):
			if lose(l) {
				lost = append(lost, f)
			}
		case now.mono >= l.holdEnd && !l.letGo:
			l.letGo, l.notified = true, true
			held = append(held, f)
		}
	}
	return lost, held
}

// dueLocked takes the flights that the next Extend is for: none if none is
// due, else those too that will be soon.
func (k *keeper) dueLocked(now moment) (due []*flight) {
	if k.extending || !k.anyDueLocked(now) {
		return nil
	}
	for _, f := range k.table.running {
		l := &f.lease
		if !l.letGo && l.renewAt <= now.mono+l.length/12 {
			due = append(due, f)
		}
	}

	// The leases of a failed call are due again soon. The others go first, else
	// the same leases would be tried again without a pause.
	if len(due) > duly.MaxBatch {
		slices.SortFunc(due, func(a, b *flight) int { return cmp.Compare(a.lease.renewAt, b.lease.renewAt) })
		due = due[:duly.MaxBatch]
	}
	for _, f := range due {
		f.lease.asking = f.lease.doubted
	}
	k.extending = true
	return due
}

func (k *keeper) anyDueLocked(now moment) bool {
	return slices.ContainsFunc(k.table.running, func(f *flight) bool {
		return !f.lease.letGo && f.lease.renewAt <= now.mono
	})
}

// lose marks the lease as gone, and reports whether its handler must be notified.
func lose(l *lease) (notify bool) {
	notify = !l.notified
	l.gone, l.letGo, l.notified = true, true, true
	return notify
}

// settleDoubt ends the doubt after a successful Extend. A doubt that began after
// the Extend was sent stays, and the lease is due at once.
func (l *lease) settleDoubt(now time.Duration) {
	if l.doubted = l.doubted && !l.asking; l.doubted {
		l.renewAt = now
	}
	l.asking = false
}

// watchCancels receives the engine's reports of removed jobs until ctx ends. With
// an engine that makes none, the next extension finds the lease lost.
func (k *keeper) watchCancels(ctx context.Context) {
	engine, ok := k.engine.(contract.CancelWatcher)
	if !ok {
		return
	}
	watch := contract.CancelWatch{
		Ready: func() { k.table.doubt(func(*flight) bool { return true }, k.clock.Mono()) },
		Canceled: func(c contract.Canceled) {
			k.table.doubt(func(f *flight) bool { return c.Names(f.delivery.Queue, f.delivery.ID) }, k.clock.Mono())
		},
	}
	for n := 1; ctx.Err() == nil; n++ {
		err := engine.WatchCancels(ctx, k.cfg.Namespace, watch)
		if ctx.Err() != nil || fatal(err) || errors.Is(err, duly.ErrNotFound) {
			return
		}
		k.store.rest(ctx, n, err)
	}
}

// next is when the lease needs a look.
func (l *lease) next(extending bool) time.Duration {
	if l.gone {
		return never
	}
	at := l.from.mono + l.trusted
	if !l.letGo {
		at = min(at, l.holdEnd)
		if !extending {
			at = min(at, l.renewAt)
		}
	}
	return at
}

// end ends the contexts of handlers whose leases are over, and reports why.
func (k *keeper) end(flights []*flight, cause error) {
	for _, f := range flights {
		f.cancel(cause)
		d := &f.delivery
		k.log.Warn("a running handler has lost its lease", "queue", d.Queue, "job", d.ID, "attempt", d.Attempt, "cause", cause)
		if k.cfg.Observer.LeaseLost != nil {
			k.cfg.Observer.LeaseLost(d, cause)
		}
	}
}

// extend extends leases in one call. What they were before the call counts
// until its answer is there.
func (k *keeper) extend(ctx context.Context, due []*flight) {
	receipts := make([]duly.Receipt, len(due))
	timeout := k.cfg.CallTimeout
	for i, f := range due {
		receipts[i] = f.delivery.Receipt
		timeout = min(timeout, f.lease.length/3)
	}
	sent := k.now()
	var answers []error
	err := k.store.call(ctx, opExtend, timeout, func(ctx context.Context) (err error) {
		answers, err = k.engine.Extend(ctx, k.cfg.Namespace, receipts, k.cfg.Lease)
		return whole(answers, len(receipts), err)
	})
	if err != nil {
		answers = make([]error, len(due))
		for i := range answers {
			answers[i] = err
		}
	}
	lost, canceled := k.answered(due, answers, sent, err)
	k.end(lost, ErrLeaseLost)
	k.end(canceled, duly.ErrCanceled)
	if fatal(err) && ctx.Err() == nil {
		k.fail(err)
	}
	k.table.look.raise()
}

// answered applies the answers of an Extend. It returns the flights whose leases
// are lost, and separately those whose jobs were canceled. A failed extension is
// tried again soon, several times before the lease ends.
func (k *keeper) answered(due []*flight, answers []error, sent moment, err error) (lost, canceled []*flight) {
	t := k.table
	t.mu.Lock()
	defer t.mu.Unlock()
	k.extending = false
	k.failures++
	if err == nil {
		k.failures = 0
	}
	for i, f := range due {
		l := &f.lease
		switch {
		case f.place < 0 || l.gone: // settled, or given up, meanwhile
		case answers[i] == nil:
			l.give(sent, l.length, k.cfg.margin(l.length))
			l.settleDoubt(k.clock.Mono())
		case errors.Is(answers[i], duly.ErrLeaseLost):
			switch {
			case !lose(l):
			case l.doubted:
				canceled = append(canceled, f)
			default:
				lost = append(lost, f)
			}
		default:
			l.renewAt = k.clock.Mono() + min(k.store.pause(max(k.failures, 1), answers[i]), l.length/6)
		}
	}
	return lost, canceled
}

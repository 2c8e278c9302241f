package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// Handlers that were canceled have handlerGrace to return, and then settleGrace is left to settle
// the last outcomes. The sum is less than the second that Run may take beyond its drain limit.
const (
	handlerGrace = 400 * time.Millisecond
	settleGrace  = 500 * time.Millisecond
)

// run is the state of one Worker.Run. Its three loops share it: the fetcher, the settler
// and the leaseRenewer.
type run struct {
	engine duly.Engine
	cfg    *Config
	clock  duly.Clock
	log    *slog.Logger
	killed <-chan struct{}

	routes   map[string]*route
	every    *route // route of all queues that are not in routes; nil without HandleEvery
	order    order
	batchers map[string]*batcher // batchers by queue

	// values is the parent of the handlers' contexts: Run's context, without its end.
	values context.Context
	// base ends when every call to the engine must end.
	base    context.Context
	endBase context.CancelFunc
	// stop ends when no more jobs may be reserved. Its cause is errStop, or the error that
	// Run returns.
	stop    context.Context
	endStop context.CancelCauseFunc

	health  *engineHealth
	tracker *tracker
	limit   *slotLimit // nil if the worker has no Limiter
	settler *settler
	renewer *leaseRenewer
}

// errStop is the cause of an ordinary stop.
var errStop = &cause{"worker: stopping", context.Canceled}

func (w *Worker) newRun(ctx context.Context, routes []*route) *run {
	cfg := &w.cfg
	r := &run{
		engine: w.engine, cfg: cfg, clock: cfg.Clock, log: cfg.Logger, killed: w.killed,
		routes: make(map[string]*route, len(routes)), order: newOrder(routes, cfg.StrictOrder),
		values: context.WithoutCancel(ctx), tracker: newTracker(cfg.Concurrency), batchers: map[string]*batcher{},
	}
	for _, route := range routes {
		if route.every {
			r.every = route
			continue
		}
		r.routes[route.queue] = route
		if route.batch != nil {
			r.batchers[route.queue] = newBatcher(r, route.batch)
		}
	}

	// These contexts do not derive from ctx, because the worker still settles outcomes and renews
	// leases after the end of ctx.
	r.base, r.endBase = context.WithCancel(r.values)
	r.stop, r.endStop = context.WithCancelCause(r.values)
	r.health = newEngineHealth(r.clock, r.log, &cfg.Observer, w.random)
	r.limit = newSlotLimit(r)
	r.settler = &settler{
		engine: w.engine, namespace: cfg.Namespace, timeout: cfg.CallTimeout,
		log: r.log, observer: &cfg.Observer, health: r.health, tracker: r.tracker, fail: r.fail,
	}
	r.renewer = &leaseRenewer{
		engine: w.engine, cfg: cfg, clock: r.clock, log: r.log, health: r.health, tracker: r.tracker, fail: r.fail,
	}
	return r
}

// fail stops the worker with an error that a retry cannot fix.
func (r *run) fail(err error) { r.endStop(err) }

// untilStopped starts the loops, and drains after ctx has ended or after an error.
func (r *run) untilStopped(ctx context.Context) error {
	defer r.endBase()
	defer context.AfterFunc(ctx, func() { r.endStop(errStop) })()

	var loops sync.WaitGroup
	// A drain needs the settler and the renewer, so they run until base ends. The fetcher runs
	// until stop ends.
	loops.Go(func() { r.settler.loop(r.base) })
	loops.Go(func() { r.renewer.loop(r.base) })
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		if err := newFetcher(r).loop(r.stop); err != nil {
			r.fail(err)
		}
	}()

	queues := any(len(r.routes))
	if r.every != nil {
		queues = "all"
	}
	r.log.Info("worker started", "queues", queues, "concurrency", r.cfg.Concurrency)
	select {
	case <-r.stop.Done():
	case <-r.killed:
		r.endStop(errStop)
	}

	r.drain(fetched)
	r.endBase()
	<-fetched
	loops.Wait()
	if err := context.Cause(r.stop); err != errStop {
		return err
	}
	return nil
}

// drain waits for running handlers until the drain limit, cancels the remaining ones, and settles
// what it can.
func (r *run) drain(fetched <-chan struct{}) {
	r.tracker.stop()
	for _, b := range r.batchers {
		b.stop()
	}
	running, _ := r.tracker.counts()
	r.log.Info("worker stopping", "running", running, "limit", r.cfg.Drain)
	if r.cfg.Drain > 0 && r.await(r.cfg.Drain, r.killed, fetched, (*tracker).done) {
		return
	}

	// The drain limit has passed. Handlers that return soon still settle their jobs.
	r.tracker.cancelAll(ErrStopping)
	r.await(handlerGrace, nil, fetched, (*tracker).idle)
	if n := r.tracker.abandon(); n > 0 {
		r.log.Warn("handlers ignored their cancellation; releasing their jobs", "count", n)
	}
	// The releases above have to reach the store, which may be lost.
	if !r.await(settleGrace, nil, fetched, (*tracker).done) {
		_, unsettled := r.tracker.counts()
		r.log.Warn("outcomes were not settled; their jobs come back when their leases end", "count", unsettled)
	}
}

// await waits until the fetcher has ended and reached returns true. It returns false after
// the limit, or when interrupt is closed.
func (r *run) await(limit time.Duration, interrupt, fetched <-chan struct{}, reached func(*tracker) bool) bool {
	timer := r.clock.NewTimer(limit)
	defer timer.Stop()
	for {
		// A Reserve in flight can still bring jobs, so the fetcher must end first.
		if fetched == nil && reached(r.tracker) {
			return true
		}
		select {
		case <-fetched:
			fetched = nil
		case <-r.tracker.slotFree: // is also signaled after every Settle
		case <-timer.C:
			return false
		case <-interrupt:
			return false
		}
	}
}

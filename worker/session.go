package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// session is one Run.
type session struct {
	engine duly.Engine
	cfg    *Config
	clock  duly.Clock
	log    *slog.Logger
	killed <-chan struct{}
	routes map[string]*route
	every  *route // of all queues that are not in routes; nil: there is none
	order  order
	// gatherers are those of the queues with batches, by queue.
	gatherers map[string]*gatherer

	// values is what the handlers' contexts stand on: Run's, without its end.
	values context.Context
	// base ends when every call to the engine must end.
	base    context.Context
	endBase context.CancelFunc
	// stop ends when no more jobs are to be taken; its cause is the error
	// that Run returns, or errStop.
	stop    context.Context
	endStop context.CancelCauseFunc

	limit   *slotLimit // nil without a Limiter
	store   *store
	table   *table
	settler *settler
	keeper  *keeper
}

// errStop is the cause of an ordinary stop.
var errStop = &cause{"worker: stopping", context.Canceled}

func (w *Worker) newSession(ctx context.Context, routes []*route) *session {
	cfg := &w.cfg
	s := &session{
		engine: w.engine, cfg: cfg, clock: cfg.Clock, log: cfg.Logger, killed: w.killed,
		routes: make(map[string]*route, len(routes)), order: newOrder(routes, cfg.StrictOrder),
		values: context.WithoutCancel(ctx), table: newTable(cfg.Concurrency), gatherers: map[string]*gatherer{},
	}
	for _, r := range routes {
		if r.every {
			s.every = r
			continue
		}
		s.routes[r.queue] = r
		if r.batch != nil {
			s.gatherers[r.queue] = newGatherer(s, r.batch)
		}
	}
	s.base, s.endBase = context.WithCancel(s.values)
	s.stop, s.endStop = context.WithCancelCause(s.values)
	s.store = newStore(s.clock, s.log, &cfg.Observer, w.draw)
	s.settler = &settler{
		engine: w.engine, namespace: cfg.Namespace, timeout: cfg.CallTimeout,
		log: s.log, observer: &cfg.Observer, store: s.store, table: s.table, fail: s.fail,
	}
	s.limit = newSlotLimit(s)
	s.keeper = &keeper{
		engine: w.engine, cfg: cfg, clock: s.clock, log: s.log, store: s.store, table: s.table, fail: s.fail,
	}
	return s
}

// fail stops the worker with an error that will not pass.
func (s *session) fail(err error) { s.endStop(err) }

// run is Run once everything is known to be right.
func (s *session) run(ctx context.Context) error {
	defer s.endBase()
	defer context.AfterFunc(ctx, func() { s.endStop(errStop) })()

	var parts sync.WaitGroup
	parts.Go(func() { s.settler.run(s.base) })
	parts.Go(func() { s.keeper.run(s.base) })
	fetched := make(chan struct{})
	go func() {
		defer close(fetched)
		if err := newFetcher(s).run(s.stop); err != nil {
			s.fail(err)
		}
	}()
	queues := any(len(s.routes))
	if s.every != nil {
		queues = "all"
	}
	s.log.Info("worker started", "queues", queues, "concurrency", s.cfg.Concurrency)

	select {
	case <-s.stop.Done():
	case <-s.killed:
		s.endStop(errStop)
	}
	s.drain(fetched)
	s.endBase()
	<-fetched
	parts.Wait()
	if err := context.Cause(s.stop); err != errStop {
		return err
	}
	return nil
}

// drain lets what runs come to its end, for as long as it may.
func (s *session) drain(fetched <-chan struct{}) {
	s.table.stop()
	for _, g := range s.gatherers {
		g.stop()
	}
	running, _ := s.table.left()
	s.log.Info("worker stopping", "running", running, "limit", s.cfg.Drain)
	if s.cfg.Drain > 0 && s.await(s.cfg.Drain, s.killed, fetched, (*table).done) {
		return
	}
	s.table.cancelAll(ErrStopping)
	s.await(handlerGrace, nil, fetched, (*table).idle)
	if n := s.table.abandon(); n > 0 {
		s.log.Warn("handlers do not heed their contexts, their jobs are released", "count", n)
	}
	if !s.await(settleGrace, nil, fetched, (*table).done) {
		_, unsettled := s.table.left()
		s.log.Warn("outcomes not settled, their jobs come back when their leases end", "count", unsettled)
	}
}

// done: there is nothing left to do.
func (t *table) done() bool {
	running, unsettled := t.left()
	return running+unsettled == 0
}

// idle: no handler runs.
func (t *table) idle() bool {
	running, _ := t.left()
	return running == 0
}

// await waits until nothing is fetched any more and reached holds: true. It
// answers false after the limit, or when cut short.
func (s *session) await(limit time.Duration, short, fetched <-chan struct{}, reached func(*table) bool) bool {
	t := s.clock.NewTimer(limit)
	defer t.Stop()
	for {
		if fetched == nil && reached(s.table) {
			return true
		}
		select {
		case <-fetched:
			fetched = nil
		case <-s.table.freed:
		case <-t.C:
			return false
		case <-short:
			return false
		}
	}
}

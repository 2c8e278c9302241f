package pools

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// propagationTime is the time after which every server has seen a phase, and calls that
// began before it have ended.
const propagationTime = 10 * time.Second

// rereadInterval is how long the state of a queue in the old pool is reused.
const rereadInterval = 2 * time.Second

// phaseState is what this server knows about one phase of a move.
type phaseState struct {
	phase    contract.Placement
	since    time.Duration // monotonic time at which this server saw the phase
	draining bool
	clock    duly.Clock
	removal  removalLock

	mu           sync.Mutex
	queues       map[string]*oldQueue
	reversalDone bool  // whether completeReversal has finished
	noHoldsAt    int64 // the version at which no schedule of the new pool was held
}

// holdsEnded returns the version of the placement at which no schedule of the new pool was held.
func (s *phaseState) holdsEnded() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noHoldsAt
}

func (s *phaseState) setHoldsEnded(version int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noHoldsAt = version
}

// oldQueue is the state of a queue in the old pool.
type oldQueue struct {
	readAt time.Duration // monotonic time of the last read; 0 means never
	empty  bool          // whether no job waits or runs, and no schedule makes one
	// keysBlocked means that the queue has order keys, and this server does not know which of them
	// are free. In that case no job is reserved from the new pool.
	keysBlocked bool
	// keys has the first due time of each order key with jobs in the old pool. keysKnown means that
	// keys is complete.
	keys      map[string]time.Time
	keysKnown bool
}

// phaseState returns the state of a placement's phase.
func (r *Pools) phaseState(p *contract.Placement) *phaseState {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock.Mono()
	// The state of the queues that belongs to another phase is not valid in this one.
	s := r.phases[p.Namespace]
	if s == nil || !samePhase(&s.phase, p) {
		s = &phaseState{
			phase: *p, since: now, draining: p.Phase == contract.Draining, clock: r.cfg.Clock, queues: map[string]*oldQueue{},
		}
		r.phases[p.Namespace] = s
	}
	s.removal.observe(p.Version, now)
	return s
}

// samePhase reports whether two placements are in the same phase. Their versions may differ,
// because the removal lock increments the version.
func samePhase(a, b *contract.Placement) bool {
	return a.Pool == b.Pool && a.From == b.From && a.Phase == b.Phase && a.Since.Equal(b.Since)
}

// propagated reports whether every server has seen the phase.
func (s *phaseState) propagated() bool { return s.clock.Mono()-s.since >= propagationTime }

// queue returns the state of a queue. The caller holds s.mu.
func (s *phaseState) queue(name string) *oldQueue {
	q := s.queues[name]
	if q == nil {
		q = &oldQueue{}
		s.queues[name] = q
	}
	return q
}

// readOld returns the state of a queue in the old pool, and reads it if the last read is
// too old. A queue that cannot be read counts as not empty.
func (s *phaseState) readOld(ctx context.Context, old contract.Engine, q duly.QueueRef) oldQueue {
	now := s.clock.Mono()
	s.mu.Lock()
	state := s.queue(q.Name)
	next := *state
	s.mu.Unlock()
	if next.readAt != 0 && now-next.readAt < rereadInterval || !s.draining {
		return next
	}

	// Two callers may read at the same time. Either result is recent enough.
	stats, err := old.Stats(ctx, q)
	if err != nil {
		next.empty = false
		return next
	}
	// 0 would mean that the queue was never read.
	next.readAt, next.empty = max(now, 1), unfinished(&stats.Sizes) == 0 && stats.Schedules == 0
	if s.propagated() {
		next.updateKeys(ctx, old, q, &stats)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*state = next
	return next
}

// updateKeys finds out which order keys are free. While all jobs in the old pool are delayed, only
// their due times are read again. A job in another state may have any key, because it may be a dead
// job that was requeued, a job that another server promoted, or the run
// of a schedule.
func (d *oldQueue) updateKeys(ctx context.Context, old contract.Engine, q duly.QueueRef, stats *duly.Stats) {
	sizes := &stats.Sizes
	switch {
	case d.empty:
		d.keysBlocked, d.keysKnown, d.keys = false, false, nil
	case d.keysBlocked || len(d.keys) > 0 || d.keysKnown && (stats.Schedules > 0 || sizes.Delayed != unfinished(sizes)):
		d.keys, d.keysKnown = nil, false
		if stats.Schedules == 0 {
			d.keys, d.keysKnown = listKeys(ctx, old, q, *sizes)
		}
		d.keysBlocked = !d.keysKnown
		if d.keysBlocked {
			d.keys = nil
		}
	}
}

// unfinished returns how many jobs wait or run.
func unfinished(s *duly.Sizes) int64 { return s.Delayed + s.Ready + s.Blocked + s.Leased }

// mayRun reports whether a job of the new pool with an order key may be delivered: the old
// pool has no job of its key that could run before its lease ends.
func (s *phaseState) mayRun(ctx context.Context, old contract.Engine, job *duly.Delivery) bool {
	q := duly.QueueRef{Namespace: job.Namespace, Name: job.Queue}
	d := s.readOld(ctx, old, q)
	// After the propagation no server pushes to the old pool, so an empty queue stays empty.
	if d.empty && s.propagated() {
		return true
	}
	if d.keysKnown {
		due, left := d.keys[job.OrderKey]
		return !left || job.LeaseEnd.Before(due)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.queues[q.Name]; !d.keysBlocked {
		// The next read lists the keys.
		d.keysBlocked, d.readAt = true, 0
	}
	return false
}

// maxListed is the maximum number of delayed jobs that are listed to find their order keys.
const maxListed = 100_000

// listKeys lists the order keys of a queue in the old pool, with the first due time of
// each. This is possible while all its jobs are delayed: no job is pushed to the old pool,
// so the list does not change. Jobs that run would change it during the calls.
func listKeys(
	ctx context.Context, old contract.Engine, q duly.QueueRef, before duly.Sizes,
) (keys map[string]time.Time, ok bool) {
	if before.Delayed != unfinished(&before) || before.Delayed > maxListed {
		return nil, false
	}

	keys = map[string]time.Time{}
	p := duly.ListParams{State: duly.StateDelayed, PageParams: duly.PageParams{Limit: duly.MaxBatch}}
	for {
		page, err := old.List(ctx, q, p)
		if err != nil {
			return nil, false
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if due, listed := keys[j.OrderKey]; j.OrderKey != "" && (!listed || j.Due.Before(due)) {
				keys[j.OrderKey] = j.Due
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}

	// A job that became due or was promoted during the calls may be missing in the list.
	after, err := old.Stats(ctx, q)
	return keys, err == nil && after.Sizes == before
}

package pools

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// moving is what this server knows of a namespace in one phase of its move.
type moving struct {
	phase    contract.Placement
	since    time.Duration // monotonic: when this server heard of the phase
	draining bool
	clock    duly.Clock
	claim    claim

	mu     sync.Mutex
	queues map[string]*drained
	opened bool // no fence is left in the pool that jobs are pushed to, and no setting in the other alone
}

// drained is what is left of a queue in the old pool.
type drained struct {
	at    time.Duration // monotonic, of the look; 0: never
	empty bool          // nothing waits or runs
	// held: the queue has order keys, and it is not known which of them are free,
	// so nothing is taken from the new pool.
	held bool
	// keys has when the first job of an order key is due that is left; known: it
	// is all of them.
	keys  map[string]time.Time
	known bool
}

// settle is how long every server has had to hear of a phase, and calls that
// began before it to end.
const settle = 10 * time.Second

// lookAgain is how long it is relied upon what was seen in the old pool.
const lookAgain = 2 * time.Second

// stateOf is what is known of a placement's phase.
func (r *Pools) stateOf(p *contract.Placement) *moving {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock.Mono()
	s := r.states[p.Namespace]
	if s == nil || !samePhase(&s.phase, p) {
		s = &moving{phase: *p, since: now, draining: p.Phase == contract.Draining, clock: r.cfg.Clock, queues: map[string]*drained{}}
		r.states[p.Namespace] = s
	}
	s.claim.hear(p.Version, now)
	return s
}

// samePhase tells whether two placements are of one phase. It may have been
// claimed in between, which changes the version alone.
func samePhase(a, b *contract.Placement) bool {
	return a.Pool == b.Pool && a.From == b.From && a.Phase == b.Phase && a.Since.Equal(b.Since)
}

// settled tells whether nobody can go by the phase before any more.
func (s *moving) settled() bool { return s.clock.Mono()-s.since >= settle }

// of is what is known of a queue, under the lock.
func (s *moving) of(queue string) *drained {
	d := s.queues[queue]
	if d == nil {
		d = &drained{}
		s.queues[queue] = d
	}
	return d
}

// look tells what is left of a queue in the old pool. What can't be found out
// is not empty.
func (s *moving) look(ctx context.Context, old contract.Engine, q duly.QueueRef) drained {
	now := s.clock.Mono()
	s.mu.Lock()
	d := s.of(q.Name)
	seen := *d
	s.mu.Unlock()
	if seen.at != 0 && now-seen.at < lookAgain || !s.draining {
		return seen
	}
	left, err := old.Stats(ctx, q)
	if err != nil {
		seen.empty = false
		return seen
	}
	next := seen
	next.at, next.empty = max(now, 1), waits(&left.Sizes) == 0
	if s.settled() {
		next.judge(ctx, old, q, &left.Sizes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*d = next
	return next
}

// judge finds out which order keys are free. What was known of them holds while
// all that is left is delayed and its due moments are read again; once anything
// else is there it may be of any key: a dead job that was requeued, or one that
// was promoted through another server.
func (d *drained) judge(ctx context.Context, old contract.Engine, q duly.QueueRef, left *duly.Sizes) {
	switch {
	case d.empty:
		d.held, d.known, d.keys = false, false, nil
	case d.held || len(d.keys) > 0 || d.known && left.Delayed != waits(left):
		d.keys, d.known = keysLeft(ctx, old, q, *left)
		d.held = !d.known
		if d.held {
			d.keys = nil
		}
	}
}

// waits is how many jobs wait or run.
func waits(s *duly.Sizes) int64 { return s.Delayed + s.Ready + s.Blocked + s.Leased }

// mayRun judges a job of the new pool with an order key: no job of the key may
// be left in the old one that could run before this one's lease ends.
func (s *moving) mayRun(ctx context.Context, old contract.Engine, job *duly.Delivery) bool {
	q := duly.QueueRef{Namespace: job.Namespace, Name: job.Queue}
	d := s.look(ctx, old, q)
	if d.empty && s.settled() {
		return true
	}
	if d.known {
		due, left := d.keys[job.OrderKey]
		return !left || job.LeaseEnd.Before(due)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.queues[q.Name]; !d.held {
		d.held, d.at = true, 0 // the next look asks which keys are left
	}
	return false
}

// mostLeft is how many delayed jobs are walked over for their order keys.
const mostLeft = 100_000

// keysLeft lists the order keys of a queue in the old pool, with their first due
// moments. That is possible while all its jobs are delayed, for nothing is
// pushed there any more: what runs moves about in a list while it is read.
func keysLeft(ctx context.Context, old contract.Engine, q duly.QueueRef, before duly.Sizes) (keys map[string]time.Time, ok bool) {
	if before.Delayed != waits(&before) || before.Delayed > mostLeft {
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
			if due, there := keys[j.OrderKey]; j.OrderKey != "" && (!there || j.Due.Before(due)) {
				keys[j.OrderKey] = j.Due
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	after, err := old.Stats(ctx, q)
	return keys, err == nil && after.Sizes == before
}

package schedules

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/schedule"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Passes fire the due ticks of this process. It implements catalog.Ticks.
type Passes struct {
	store  *store.Store
	firing *schedule.Firing
	// run runs a function on a goroutine that ends before the engine does.
	run func(func())

	mu     sync.Mutex
	closed bool
	// Shards with a running pass; true if a tick was reported since its last round began.
	running map[catalog.ShardRef]bool
	timers  map[catalog.ShardRef]*tickTimer
	// held has the time, on the monotonic clock, until which a shard's due ticks are not fired.
	held map[catalog.ShardRef]time.Duration
	// ahead has when the first tick comes that is not due yet, of the shards with a pass under way.
	ahead map[catalog.ShardRef]time.Duration
}

// tickTimer starts a pass when a tick is due.
type tickTimer struct {
	fires time.Duration // on the monotonic clock
	timer clock.Timer
}

// New returns the schedules of a catalog, and the passes that fire them. run runs a function on a
// goroutine that ends before the engine does.
func New(c *catalog.Catalog, run func(func())) (*Schedules, *Passes) {
	p := &Passes{
		store: c.Store, run: run,
		running: map[catalog.ShardRef]bool{}, timers: map[catalog.ShardRef]*tickTimer{},
		held: map[catalog.ShardRef]time.Duration{}, ahead: map[catalog.ShardRef]time.Duration{},
	}
	e := &Schedules{Catalog: c, passes: p}
	p.firing = schedule.NewFiring(e, c.Local(), c.Settings.Logger)
	c.Ticks = p
	return e, p
}

// Close ends the timers and waits for the pass under way.
func (p *Passes) Close() {
	p.mu.Lock()
	p.closed = true
	for _, t := range p.timers {
		if t.timer != nil {
			t.timer.Stop()
		}
	}
	p.mu.Unlock()
	// A pass under way needs the lock to end, so Close waits for it without the lock.
	p.firing.Close()
}

// ObserveFire implements contract.FireObserver.
func (e *Schedules) ObserveFire(f contract.Firing) { e.passes.firing.ObserveFire(f) }

// Start implements catalog.Ticks.
func (p *Passes) Start(at catalog.ShardRef) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.held[at] > p.store.Local().Mono() {
		return false
	}
	if _, running := p.running[at]; running {
		p.running[at] = true // the last read of the pass may be older than the tick
		return true
	}
	p.running[at] = false
	p.run(func() { p.pass(at) })
	return true
}

// round fires due ticks once. If a tick cannot fire now, round pauses the shard's ticks for some
// time.
func (p *Passes) round(ctx context.Context, at catalog.ShardRef) (schedule.Outcome, error) {
	o, err := p.firing.Round(ctx, at.Ref, at.Index)
	if err != nil {
		// Without a pause, each report of the tick would start a pass that fails again.
		o = schedule.Outcome{Pause: contract.FullPause}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, at)
	if o.Pause > 0 && !o.More {
		p.held[at] = p.store.Local().Mono() + o.Pause
		// Another schedule may tick before the pause ends.
		if ahead, ok := p.ahead[at]; ok {
			p.held[at] = min(p.held[at], ahead)
		}
	}
	delete(p.ahead, at)
	return o, err
}

// pass fires the ticks of a shard until none is due, or none can fire now. In the second case
// another pass starts two seconds later, from a timer or from the poll of a process with waiters.
func (p *Passes) pass(at catalog.ShardRef) {
	for {
		o, err := p.round(p.store.Quit, at)
		if !o.More && p.ended(at, o, err) {
			return
		}
	}
}

// ended removes a pass after its last round, unless a tick was reported since then.
func (p *Passes) ended(at catalog.ShardRef, o schedule.Outcome, err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[at] && err == nil {
		p.running[at] = false
		return false
	}

	delete(p.running, at)
	// Ticks that could not fire stay due, so a timer must start the next pass.
	if o.Pause > 0 && p.timers[at] != nil && !p.closed {
		p.setTimer(at, p.store.Local().Mono()+o.Pause)
	}
	return true
}

// Round implements catalog.Ticks.
func (p *Passes) Round(ctx context.Context, at catalog.ShardRef) (more bool, err error) {
	o, err := p.round(ctx, at)
	return o.More, err
}

// Keep implements catalog.Ticks.
func (p *Passes) Keep(at catalog.ShardRef, tick int64, r store.Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.store.Settings.Manual {
		return
	}
	if p.timers[at] == nil {
		p.timers[at] = &tickTimer{}
	}
	fires := p.store.Until(tick, r)
	if held, ok := p.held[at]; ok {
		p.held[at] = min(held, fires)
	}
	p.setTimer(at, fires)
}

// noteNext sets the timer of a shard whose ticks this process fires. tick is the time of the next
// tick, or 0 if there is none. If the tick is due already, a pass handles it.
func (p *Passes) noteNext(at catalog.ShardRef, tick int64, r store.Reading) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tick > r.Milli() {
		p.ahead[at] = p.store.Until(tick, r)
	}
	if p.timers[at] == nil || p.closed {
		return
	}
	if tick == 0 {
		if t := p.timers[at].timer; t != nil {
			t.Stop()
		}
		delete(p.timers, at)
		return
	}
	if tick > r.Milli() {
		p.setTimer(at, p.store.Until(tick, r))
	}
}

// setTimer sets the timer of a shard, unless it fires sooner: the pass that follows finds the
// next tick. The caller holds the lock.
func (p *Passes) setTimer(at catalog.ShardRef, fires time.Duration) {
	t := p.timers[at]
	if t.timer != nil && t.fires <= fires {
		return
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	// tickTimerFired recognizes a replaced timer by its old value.
	set := &tickTimer{fires: fires}
	p.timers[at] = set
	set.timer = p.store.Local().At(fires, func() { p.tickTimerFired(at, set) })
}

// tickTimerFired starts a pass. If the tick is not yet due by the server's clock, the pass finds
// nothing due and sets the timer again.
func (p *Passes) tickTimerFired(at catalog.ShardRef, t *tickTimer) {
	p.mu.Lock()
	current := p.timers[at] == t
	if current {
		// The entry stays, because noteNext sets timers only for shards that have an entry.
		p.timers[at] = &tickTimer{}
	}
	p.mu.Unlock()
	if current {
		p.Start(at)
	}
}

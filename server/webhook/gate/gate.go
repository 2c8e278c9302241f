package gate

import (
	"container/list"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/aimd"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/webhook/outcome"
)

// The defaults and bounds of gates.
const (
	// DefaultSlots is the number of tries in flight over all hosts.
	DefaultSlots = 256
	// DefaultHosts is the number of hosts that are remembered.
	DefaultHosts = 10_000
	// DefaultConcurrency bounds the tries in flight at one host.
	DefaultConcurrency = 64
	// StartLimit is the limit of a host that is new.
	StartLimit = 4

	// FirstClosure is the length of a closure without Retry-After. It doubles
	// each time up to LongestClosure.
	FirstClosure   = 5 * time.Second
	LongestClosure = 5 * time.Minute

	// ShortestHold and LongestHold bound the wait for a turn.
	ShortestHold = 50 * time.Millisecond
	LongestHold  = 5 * time.Minute
	// GuessedHold bounds the wait for a turn at an open gate while no answer of the host
	// is known.
	GuessedHold = 200 * time.Millisecond
)

// Config is how gates behave. Its zero value works.
type Config struct {
	// Slots is how many tries the dispatcher has in flight. Default 256.
	Slots int
	// Hosts is how many hosts are remembered. Default 10 000.
	Hosts int
	// Changed is called when a gate opens or closes, without a lock. Default:
	// not at all.
	Changed func(Change)
	// Clock is for tests. Default the system's.
	Clock duly.Clock
}

// Change reports a gate that opened or closed.
type Change struct {
	Host string
	Open bool
	// For is the length of the closure.
	For time.Duration
}

// Bounds are the settings of a target.
type Bounds struct {
	// Concurrency bounds the tries in flight. Default 64.
	Concurrency int
	// Rate bounds the tries per second. Default: no bound.
	Rate duly.Rate
}

// Result is how a try ended.
type Result struct {
	Health outcome.Health
	// Closes closes the gate, for CloseFor, or for its own time if that is nil.
	Closes   bool
	CloseFor *time.Duration
}

// Gates has a gate for each host. It is safe for concurrent use.
type Gates struct {
	cfg Config

	mu       sync.Mutex
	hosts    map[string]*host
	recent   list.List // of *host, the one that was used last in front
	inFlight int
}

// New returns gates without hosts.
func New(cfg Config) *Gates {
	if cfg.Slots == 0 {
		cfg.Slots = DefaultSlots
	}
	if cfg.Hosts == 0 {
		cfg.Hosts = DefaultHosts
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	return &Gates{cfg: cfg, hosts: map[string]*host{}}
}

// Pass is the permission for one try. Call Done when the try has ended.
type Pass struct {
	gates *Gates
	host  *host
	began time.Duration
	epoch uint64
	probe bool
	done  bool
}

// Enter returns a pass for one try, or the time for which to release the job.
// returning is true for a job that a gate has held back before.
func (g *Gates) Enter(name string, b Bounds, returning bool) (*Pass, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.cfg.Clock.Mono()
	h := g.use(name, b)
	h.drainLine(now)
	if returning {
		h.held = max(h.heldBack(now)-1, 0)
	}

	if !h.admits(now, returning) || !g.hasSlot(h) {
		return nil, h.hold(now)
	}
	p := &Pass{gates: g, host: h, began: now, epoch: h.epoch}
	if h.state != open {
		h.state, h.probe, p.probe = probing, p, true
	}
	h.bucket = h.bucket.Take(1)
	h.inFlight++
	g.inFlight++
	return p, 0
}

// Hold returns the time for which to release a job whose try was throttled
// without a Retry-After. The job takes a place in the line.
func (g *Gates) Hold(name string, b Bounds) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.cfg.Clock.Mono()
	h := g.use(name, b)
	h.drainLine(now)
	return h.hold(now)
}

// Restart lets a host begin again with a limit of 1, as after a closure.
func (g *Gates) Restart(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.hosts[name]; h != nil {
		h.limiter.Restart()
	}
}

// Done ends a try. A second call does nothing.
func (p *Pass) Done(r Result) {
	g := p.gates
	g.mu.Lock()
	if p.done {
		g.mu.Unlock()
		return
	}
	p.done = true
	now := g.cfg.Clock.Mono()
	h := p.host
	h.drainLine(now)
	h.inFlight--
	g.inFlight--
	h.ended = now
	g.recent.MoveToFront(h.place)

	change, changed := h.settle(p, r, now)
	g.mu.Unlock()
	if changed && g.cfg.Changed != nil {
		g.cfg.Changed(change)
	}
}

// use returns the gate of a host, which is then the one that was used last.
func (g *Gates) use(name string, b Bounds) *host {
	h := g.hosts[name]
	if h == nil {
		if len(g.hosts) >= g.cfg.Hosts {
			g.forget()
		}
		h = &host{name: name, limiter: aimd.New(StartLimit, DefaultConcurrency)}
		h.place = g.recent.PushFront(h)
		g.hosts[name] = h
	}
	g.recent.MoveToFront(h.place)

	if b.Concurrency == 0 {
		b.Concurrency = DefaultConcurrency
	}
	h.limiter.Bound(b.Concurrency)
	h.rate = b.Rate
	return h
}

// forget removes the host that has been idle longest.
func (g *Gates) forget() {
	for e := g.recent.Back(); e != nil; e = e.Prev() {
		if h := e.Value.(*host); h.inFlight == 0 {
			g.recent.Remove(e)
			delete(g.hosts, h.name)
			return
		}
	}
}

// hasSlot reports whether the host may use one more slot: one of its quarter, or
// of its half while a quarter of all slots stays free.
func (g *Gates) hasSlot(h *host) bool {
	slots := g.cfg.Slots
	quarter := max(slots/4, 1)
	switch {
	case g.inFlight >= slots:
		return false
	case h.inFlight < quarter:
		return true
	}
	return h.inFlight < slots/2 && g.inFlight < slots-quarter
}

// State is what a gate is like now.
type State struct {
	Host string
	// Open is true unless the gate is closed or probing.
	Open bool
	// Closed is how long the closure still lasts; 0 while the gate probes.
	Closed   time.Duration
	Limit    int
	InFlight int
	// HeldBack is about how many jobs wait for their turn.
	HeldBack int
	Usual    time.Duration
}

// States returns the state of every remembered host, the one that was used last
// first.
func (g *Gates) States() []State {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.cfg.Clock.Mono()
	states := make([]State, 0, len(g.hosts))
	for e := g.recent.Front(); e != nil; e = e.Next() {
		h := e.Value.(*host)
		h.drainLine(now)
		s := State{Host: h.name, Open: h.state == open, Limit: h.limiter.Limit(), InFlight: h.inFlight,
			HeldBack: h.heldBack(now), Usual: h.limiter.Usual()}
		if h.state == closed {
			s.Closed = max(h.until-now, 0)
		}
		states = append(states, s)
	}
	return states
}

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

// The defaults and limits of gates.
const (
	// DefaultSlots is the default of Config.Slots: the number of tries in flight over all hosts.
	DefaultSlots = 256
	// DefaultHosts is the maximum number of hosts.
	DefaultHosts = 10_000
	// DefaultConcurrency is the default number of tries in flight at one host.
	DefaultConcurrency = 64
	// StartLimit is the limit of a new host.
	StartLimit = 4

	// FirstClosure is the length of a closure without Retry-After. It doubles
	// each time up to LongestClosure.
	FirstClosure   = 5 * time.Second
	LongestClosure = 5 * time.Minute

	// MinHold and MaxHold bound the wait for a turn.
	MinHold = 50 * time.Millisecond
	MaxHold = 5 * time.Minute
	// GuessedHold bounds the wait for a turn at an open gate before the first answer of the
	// host.
	GuessedHold = 200 * time.Millisecond
)

// Config has the settings of gates. Its zero value has the defaults.
type Config struct {
	// Slots is the maximum number of tries in flight over all hosts. Default 256.
	Slots int
	// Hosts is the maximum number of hosts. Default 10 000.
	Hosts int
	// Changed, if set, is called when a gate opens or closes, without a lock.
	Changed func(Change)
	// Clock is for tests. Default the system's.
	Clock duly.Clock
}

// Change reports a gate that opened or closed.
type Change struct {
	Host string
	Open bool
	// For is the duration of the closure.
	For time.Duration
}

// Bounds are the settings of a target.
type Bounds struct {
	// Concurrency is the maximum number of tries in flight. Default 64.
	Concurrency int
	// Rate bounds the tries per second. Default: no bound.
	Rate duly.Rate
}

// Result is the result of a try.
type Result struct {
	Health outcome.Health
	// Closes closes the gate for CloseFor; nil: for the gate's next closure.
	Closes   bool
	CloseFor *time.Duration
}

// Gates has a gate for each host. It is safe for concurrent use.
type Gates struct {
	cfg Config

	mu       sync.Mutex
	hosts    map[string]*host
	recent   list.List // values of type *host, the most recently used first
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

// Permit is the permission for one try. Call Done when the try has ended.
type Permit struct {
	gates *Gates
	host  *host
	start time.Duration
	epoch uint64
	probe bool
	done  bool
}

// Admit returns a permit for one try, or the time for which to release the job.
// returning is true for a job that a gate has held back before.
func (g *Gates) Admit(name string, b Bounds, returning bool) (*Permit, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.cfg.Clock.Mono()
	// The line gets shorter with time, because jobs that were held back come again at their time.
	h := g.get(name, b)
	h.drainLine(now)
	// The job was in the line, and leaves it now.
	if returning {
		h.held = max(h.heldBack(now)-1, 0)
	}

	if !h.admits(now, returning) || !g.hasSlot(h) {
		return nil, h.holdBack(now)
	}

	p := &Permit{gates: g, host: h, start: now, epoch: h.epoch}
	// A gate that is not open admits one try at a time. The result of that try decides whether the
	// gate opens.
	if h.state != open {
		h.state, h.probe, p.probe = probing, p, true
	}
	h.bucket = h.bucket.Take(1)
	h.inFlight++
	g.inFlight++
	return p, 0
}

// HoldBack returns the time for which to release a job whose try was throttled
// without a Retry-After. The job joins the line.
func (g *Gates) HoldBack(name string, b Bounds) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.cfg.Clock.Mono()
	h := g.get(name, b)
	h.drainLine(now)
	return h.holdBack(now)
}

// Restart sets the limit of a host to 1, like a closure does.
func (g *Gates) Restart(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h := g.hosts[name]; h != nil {
		h.limiter.Restart()
	}
}

// Done ends a try. A second call does nothing.
func (p *Permit) Done(r Result) {
	g := p.gates
	g.mu.Lock()
	// The sender ends the try early if it needs the closed gate, and again when it returns.
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
	h.lastEnd = now
	// A host is in use until its last try ends.
	g.recent.MoveToFront(h.element)

	change, changed := h.finish(p, r, now)
	g.mu.Unlock()
	// The function may call the gates, so the lock is released before.
	if changed && g.cfg.Changed != nil {
		g.cfg.Changed(change)
	}
}

// get returns the gate of a host, and makes it the most recently used one.
func (g *Gates) get(name string, b Bounds) *host {
	h := g.hosts[name]
	if h == nil {
		// Producers choose the hosts, so the number of hosts needs a limit.
		if len(g.hosts) >= g.cfg.Hosts {
			g.evict()
		}
		h = &host{name: name, limiter: aimd.New(StartLimit, DefaultConcurrency)}
		h.element = g.recent.PushFront(h)
		g.hosts[name] = h
	}
	g.recent.MoveToFront(h.element)

	if b.Concurrency == 0 {
		b.Concurrency = DefaultConcurrency
	}
	// The settings of a target may have changed since the last job.
	h.limiter.Bound(b.Concurrency)
	h.rate = b.Rate
	return h
}

// evict removes the host that has been idle longest.
func (g *Gates) evict() {
	for e := g.recent.Back(); e != nil; e = e.Prev() {
		// A permit in flight still needs its host, so such a host is not removed.
		if h := e.Value.(*host); h.inFlight == 0 {
			g.recent.Remove(e)
			delete(g.hosts, h.name)
			return
		}
	}
}

// hasSlot reports whether the host may use one more slot: up to a quarter of all slots, and
// up to a half while a quarter of all slots stays free.
func (g *Gates) hasSlot(h *host) bool {
	slots := g.cfg.Slots
	quarter := max(slots/4, 1)
	switch {
	case g.inFlight >= slots:
		return false
	case h.inFlight < quarter:
		return true
	}
	// A quarter of the slots stays free, so that a slow host never delays the others.
	return h.inFlight < slots/2 && g.inFlight < slots-quarter
}

// State is the current state of a gate.
type State struct {
	Host string
	// Open is true unless the gate is closed or probing.
	Open bool
	// Closed is the remaining time of the closure; 0 while the gate probes.
	Closed   time.Duration
	Limit    int
	InFlight int
	// HeldBack is the approximate number of jobs that the gate holds back.
	HeldBack int
	Usual    time.Duration
}

// States returns the states of all hosts, the most recently used first.
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

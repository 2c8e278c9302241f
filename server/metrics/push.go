package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly/internal/clock"
)

// mostDestinations is how many destinations of HTTP push have series of their own.
// Producers choose callback URLs, so their number has no bound.
const mostDestinations = 100

// With all six classes, these would have 600 series of requests. ownClasses is how many
// classes of a destination have series in any case, and spareClasses is how many more there
// are of all destinations together. The requests of other classes count as _other.
const (
	ownClasses   = 2
	spareClasses = 40
)

// What the dispatcher of this process has done.
var (
	pushRequests  = define("push_requests_total", counter, "Requests of HTTP push by class of the answer: 2xx to 5xx, or none without an answer. destination is target:NAME, or scheme, name and port of a host; the 100 busiest have series of their own, for two classes or more.", "namespace", "destination", "class")
	pushSeconds   = define("push_request_seconds_total", counter, "How long these requests took, together.", "namespace", "destination")
	pushBytes     = define("push_bytes_total", counter, "Bytes of the bodies of these requests.", "namespace", "destination")
	pushHeld      = define("push_held_back_total", counter, "Jobs that were released because the gate of their host was closed or full.", "namespace", "destination")
	pushDuration  = define("push_request_duration_seconds", histogram, "How long requests of HTTP push took.")
	pushLateness  = define("push_first_try_lateness_seconds", histogram, "The moment at which a job was reserved for its first try minus the moment that it was due.")
	pushWaits     = define("push_waits_total", counter, "Jobs that were released because they cannot be sent now, by reason: disabled, unreadable or unknown.", "reason")
	pushDisabled  = define("push_targets_disabled_total", counter, "Targets that were disabled because they answered 410.")
	pushNotices   = define("push_notices_failed_total", counter, "Notices that could not be stored; their jobs were released.")
	pushClosures  = define("push_gate_closures_total", counter, "Gates that were closed because their host failed or throttled.")
	pushClock     = define("push_clock_difference_seconds", gauge, "How far the clock of this server is ahead of the engine's. Beyond 60 s, receivers may refuse signatures.")
	pushMemory    = define("push_memory_bytes", gauge, "Bytes of the bodies that are sent now.")
	pushGateOpen  = define("push_gate_open", gauge, "1 if the gate of a host is open, else 0. The 100 busiest hosts have series of their own.", "host")
	pushGateLimit = define("push_gate_limit", gauge, "How many requests the gate of a host admits at once.", "host")
	pushInFlight  = define("push_in_flight", gauge, "Requests that are under way now.", "host")
	pushHeldBack  = define("push_held_back", gauge, "Jobs that wait for their turn at a host, about.", "host")
)

// PushRequest is one request of HTTP push.
type PushRequest struct {
	Namespace   string
	Destination string // target:NAME or a host
	Status      int    // 0 without an answer
	Took        time.Duration
	Bytes       int
	// First is true for the first try of a job, and Late is how late that was.
	First bool
	Late  time.Duration
}

// PushGate is the gate of one host.
type PushGate struct {
	Host                      string
	Open                      bool
	Limit, InFlight, HeldBack int
}

// Push counts what a dispatcher does. It is a prometheus.Collector, and safe for
// concurrent use.
type Push struct {
	// gates and memory are read for each answer.
	gates  func() []PushGate
	memory func() int64

	destinations   *busiest[[2]string, sent]
	other          sent // of the destinations and classes without series
	spare          int  // of spareClasses, how many are free; destinations guards it
	took, late     *durations
	mu             sync.Mutex
	waits          map[string]int64
	disabled       atomic.Int64
	noticesFailed  atomic.Int64
	closures       atomic.Int64
	clockDifferent atomic.Int64
}

// sent is what was sent to one destination. busiest guards it.
type sent struct {
	classes     [6]int64 // by the first digit of the status
	took        time.Duration
	bytes, held int64
}

// NewPush returns metrics of a dispatcher with these gates.
func NewPush(c clock.Clock, gates func() []PushGate, memory func() int64) *Push {
	p := &Push{gates: gates, memory: memory, took: newDurations(requestBounds), late: newDurations(latenessBounds), waits: map[string]int64{}, spare: spareClasses}
	p.destinations = newBusiest[[2]string](mostDestinations, c.Mono, func(from *sent) {
		p.other.add(from)
		p.spare += max(from.answered()-ownClasses, 0)
	})
	return p
}

func (s *sent) add(from *sent) {
	for i := range s.classes {
		s.classes[i] += from.classes[i]
	}
	s.took += from.took
	s.bytes += from.bytes
	s.held += from.held
}

// answered is how many classes of answers there were.
func (s *sent) answered() (n int) {
	for _, requests := range s.classes {
		if requests > 0 {
			n++
		}
	}
	return n
}

// Requested counts a request.
func (p *Push) Requested(r PushRequest) {
	class := r.Status / 100
	if class < 1 || class > 5 {
		class = 0
	}
	p.count(r.Namespace, r.Destination, func(s *sent) {
		p.withSeries(s, class).classes[class]++
		s.took += r.Took
		s.bytes += int64(r.Bytes)
	})
	p.took.observe(r.Took)
	if r.First {
		p.late.observe(r.Late)
	}
}

// withSeries returns s if it has a series for a class, or gets one, and else the others.
// The lock of destinations is held.
func (p *Push) withSeries(s *sent, class int) *sent {
	switch {
	case s == &p.other, s.classes[class] > 0, s.answered() < ownClasses:
		return s
	case p.spare > 0:
		p.spare--
		return s
	}
	return &p.other
}

// HeldBack counts a job that was released because of its gate.
func (p *Push) HeldBack(namespace, destination string) {
	p.count(namespace, destination, func(s *sent) { s.held++ })
}

func (p *Push) count(namespace, destination string, do func(*sent)) {
	p.destinations.use([2]string{namespace, destination}, func(s *sent) {
		if s == nil {
			s = &p.other // which the lock of destinations guards too
		}
		do(s)
	})
}

// Waits counts a job that cannot be sent now.
func (p *Push) Waits(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits[reason]++
}

// Disabled counts a target that was disabled by a 410.
func (p *Push) Disabled() { p.disabled.Add(1) }

// NoticeFailed counts a notice that could not be stored.
func (p *Push) NoticeFailed() { p.noticesFailed.Add(1) }

// Closed counts a gate that was closed.
func (p *Push) Closed() { p.closures.Add(1) }

// ClockDiffers notes how far the clock of this process is ahead of the engine's.
func (p *Push) ClockDiffers(by time.Duration) { p.clockDifferent.Store(int64(by)) }

// Describe implements prometheus.Collector.
func (p *Push) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*defined{
		pushRequests, pushSeconds, pushBytes, pushHeld, pushDuration, pushLateness, pushWaits, pushDisabled, pushNotices, pushClosures,
		pushClock, pushMemory, pushGateOpen, pushGateLimit, pushInFlight, pushHeldBack,
	} {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (p *Push) Collect(ch chan<- prometheus.Metric) {
	all := map[[2]string]sent{}
	p.destinations.each(func(key [2]string, s *sent) { all[key] = *s })
	p.destinations.mu.Lock()
	all[[2]string{otherName, otherName}] = p.other
	p.destinations.mu.Unlock()
	for key, s := range all {
		s.tell(ch, key[0], key[1])
	}

	p.took.tell(ch, pushDuration)
	p.late.tell(ch, pushLateness)
	p.mu.Lock()
	for reason, n := range p.waits {
		count(ch, pushWaits, n, reason)
	}
	p.mu.Unlock()
	count(ch, pushDisabled, p.disabled.Load())
	count(ch, pushNotices, p.noticesFailed.Load())
	count(ch, pushClosures, p.closures.Load())
	measure(ch, pushClock, time.Duration(p.clockDifferent.Load()).Seconds())
	measure(ch, pushMemory, float64(p.memory()))
	p.tellGates(ch)
}

// tell leaves out what has not happened.
func (s *sent) tell(ch chan<- prometheus.Metric, labels ...string) {
	requests := int64(0)
	for class, n := range s.classes {
		requests += n
		if n > 0 {
			name := "none"
			if class > 0 {
				name = strconv.Itoa(class) + "xx"
			}
			count(ch, pushRequests, n, append(slices.Clone(labels), name)...)
		}
	}
	if requests > 0 {
		ch <- prometheus.MustNewConstMetric(pushSeconds.desc, prometheus.CounterValue, s.took.Seconds(), labels...)
		count(ch, pushBytes, s.bytes, labels...)
	}
	if s.held > 0 {
		count(ch, pushHeld, s.held, labels...)
	}
}

// tellGates tells the gates of the busiest hosts, and the sums of all others.
func (p *Push) tellGates(ch chan<- prometheus.Metric) {
	gates := p.gates()
	slices.SortStableFunc(gates, func(a, b PushGate) int { return cmp.Compare(b.InFlight+b.HeldBack, a.InFlight+a.HeldBack) })
	other := PushGate{Host: otherName}
	for i, g := range gates {
		if i >= mostDestinations {
			other.InFlight += g.InFlight
			other.HeldBack += g.HeldBack
			continue
		}
		open := 0.0
		if g.Open {
			open = 1
		}
		measure(ch, pushGateOpen, open, g.Host)
		measure(ch, pushGateLimit, float64(g.Limit), g.Host)
		measure(ch, pushInFlight, float64(g.InFlight), g.Host)
		measure(ch, pushHeldBack, float64(g.HeldBack), g.Host)
	}
	if len(gates) > mostDestinations {
		measure(ch, pushInFlight, float64(other.InFlight), other.Host)
		measure(ch, pushHeldBack, float64(other.HeldBack), other.Host)
	}
}

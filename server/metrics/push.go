package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
)

// maxDestinations is the number of destinations of HTTP push that have separate series. Producers
// choose callback URLs, so the number of destinations is not bounded.
const maxDestinations = 100

// With all six classes, these destinations would have 600 series of requests. So each destination
// has series for ownClasses classes, and all destinations share spareClasses more. The requests of
// further classes count as _other.
const (
	ownClasses   = 2
	spareClasses = 40
)

// The metrics of this process's dispatcher of HTTP push.
var (
	pushRequests = define("push_requests_total", counter,
		"Requests of HTTP push by class of the answer: 2xx to 5xx, or none without an answer. destination is target:NAME, "+
			"or the scheme, name and port of a host. The 100 busiest have series of their own, for two classes or more.",
		"namespace", "destination", "class")
	pushSeconds = define("push_request_seconds_total", counter,
		"The total duration of these requests.", "namespace", "destination")
	pushBytes = define("push_bytes_total", counter,
		"Bytes of the bodies of these requests.", "namespace", "destination")
	pushHeld = define("push_held_back_total", counter,
		"Jobs that were released because the gate of their host was closed or full.", "namespace", "destination")
	pushDuration = define("push_request_duration_seconds", histogram, "The duration of requests of HTTP push.")
	pushLateness = define("push_first_try_lateness_seconds", histogram,
		"The time at which a job was reserved for its first try minus its due time.")
	pushWaits = define("push_waits_total", counter,
		"Jobs that were released because they cannot be sent now, by reason: disabled, unreadable or unknown.", "reason")
	pushDisabled = define("push_targets_disabled_total", counter,
		"Targets that were disabled because they answered 410.")
	pushNotices = define("push_notices_failed_total", counter,
		"Notices that could not be stored; their jobs were released.")
	pushClosures = define("push_gate_closures_total", counter,
		"Gates that were closed because their host failed or throttled.")
	pushClock = define("push_clock_difference_seconds", gauge,
		"How far the clock of this server is ahead of the engine's. Beyond 60 s, receivers may refuse signatures.")
	pushMemory   = define("push_memory_bytes", gauge, "Bytes of the bodies that are being sent.")
	pushGateOpen = define("push_gate_open", gauge,
		"1 if the gate of a host is open, else 0. The 100 busiest hosts have series of their own.", "host")
	pushGateLimit = define("push_gate_limit", gauge,
		"The number of concurrent requests that a host's gate admits.", "host")
	pushInFlight = define("push_in_flight", gauge, "Requests in flight.", "host")
	pushHeldBack = define("push_held_back", gauge, "Approximate number of jobs that wait for a host.", "host")
)

// PushRequest is one request of HTTP push.
type PushRequest struct {
	Namespace   string
	Destination string // target:NAME or a host
	Status      int    // status of the answer, or 0 without an answer
	Took        time.Duration
	Bytes       int
	// First is true for the first try of a job. Late is set only in that case.
	First bool
	Late  time.Duration
}

// PushGate is the state of a host's gate.
type PushGate struct {
	Host                      string
	Open                      bool
	Limit, InFlight, HeldBack int
}

// Push counts the requests and jobs of a dispatcher. It is a prometheus.Collector, and safe for
// concurrent use.
type Push struct {
	// gates and memory are called for each scrape.
	gates  func() []PushGate
	memory func() int64

	destinations *busiest[[2]string, destinationCounters]
	// Counters of all destinations without separate series; guarded by destinations.mu.
	other          destinationCounters
	spare          int // free ones of the spareClasses; guarded by destinations.mu
	took, late     *durations
	mu             sync.Mutex
	waits          map[string]int64
	disabled       atomic.Int64
	noticesFailed  atomic.Int64
	closures       atomic.Int64
	clockDifferent atomic.Int64
}

// destinationCounters count the requests to one destination. The mutex of
// Push.destinations guards them.
type destinationCounters struct {
	classes     [6]int64 // number of requests by the first digit of the status
	duration    time.Duration
	bytes, held int64
}

// NewPush returns the metrics of a dispatcher.
func NewPush(c duly.Clock, gates func() []PushGate, memory func() int64) *Push {
	p := &Push{
		gates: gates, memory: memory, waits: map[string]int64{}, spare: spareClasses,
		took: newDurations(requestBounds), late: newDurations(latenessBounds),
	}
	p.destinations = newBusiest[[2]string](maxDestinations, c.Mono, func(from *destinationCounters) {
		p.other.add(from)
		// The classes of an evicted destination are free again.
		p.spare += max(from.usedClasses()-ownClasses, 0)
	})
	return p
}

func (s *destinationCounters) add(from *destinationCounters) {
	for i := range s.classes {
		s.classes[i] += from.classes[i]
	}
	s.duration += from.duration
	s.bytes += from.bytes
	s.held += from.held
}

// usedClasses returns how many classes have requests.
func (s *destinationCounters) usedClasses() (n int) {
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
	// Class 0 has the requests without an answer.
	if class < 1 || class > 5 {
		class = 0
	}
	p.count(r.Namespace, r.Destination, func(s *destinationCounters) {
		p.withSeries(s, class).classes[class]++
		s.duration += r.Took
		s.bytes += int64(r.Bytes)
	})
	p.took.observe(r.Took)
	if r.First {
		p.late.observe(r.Late)
	}
}

// withSeries returns s if s has a series for the class or gets one now. Otherwise it returns the
// common counters. The caller holds destinations.mu.
func (p *Push) withSeries(s *destinationCounters, class int) *destinationCounters {
	switch {
	case s == &p.other, s.classes[class] > 0, s.usedClasses() < ownClasses:
		return s
	case p.spare > 0:
		p.spare--
		return s
	}
	return &p.other
}

// HeldBack counts a job that was released because the gate of its host was closed.
func (p *Push) HeldBack(namespace, destination string) {
	p.count(namespace, destination, func(s *destinationCounters) { s.held++ })
}

func (p *Push) count(namespace, destination string, do func(*destinationCounters)) {
	p.destinations.use([2]string{namespace, destination}, func(s *destinationCounters) {
		// The destination has no series of its own.
		if s == nil {
			s = &p.other
		}
		do(s)
	})
}

// Waits counts a job that was released because it cannot be sent now.
func (p *Push) Waits(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits[reason]++
}

// Disabled counts a target that was disabled by a 410.
func (p *Push) Disabled() { p.disabled.Add(1) }

// NoticeFailed counts a notice that could not be stored.
func (p *Push) NoticeFailed() { p.noticesFailed.Add(1) }

// Closed counts that a gate was closed.
func (p *Push) Closed() { p.closures.Add(1) }

// ClockDiffers records by how much the clock of this process is ahead of the engine's clock.
func (p *Push) ClockDiffers(by time.Duration) { p.clockDifferent.Store(int64(by)) }

// Describe implements prometheus.Collector.
func (p *Push) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*definition{
		pushRequests, pushSeconds, pushBytes, pushHeld, pushDuration, pushLateness, pushWaits, pushDisabled,
		pushNotices, pushClosures, pushClock, pushMemory, pushGateOpen, pushGateLimit, pushInFlight, pushHeldBack,
	} {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (p *Push) Collect(ch chan<- prometheus.Metric) {
	all := map[[2]string]destinationCounters{}
	p.destinations.each(func(key [2]string, s *destinationCounters) { all[key] = *s })
	// Counting happens under the same lock.
	p.destinations.mu.Lock()
	all[[2]string{otherName, otherName}] = p.other
	p.destinations.mu.Unlock()
	for key, s := range all {
		s.collect(ch, key[0], key[1])
	}

	p.took.collect(ch, pushDuration)
	p.late.collect(ch, pushLateness)
	p.mu.Lock()
	for reason, n := range p.waits {
		counterValue(ch, pushWaits, n, reason)
	}
	p.mu.Unlock()

	counterValue(ch, pushDisabled, p.disabled.Load())
	counterValue(ch, pushNotices, p.noticesFailed.Load())
	counterValue(ch, pushClosures, p.closures.Load())
	gaugeValue(ch, pushClock, time.Duration(p.clockDifferent.Load()).Seconds())
	gaugeValue(ch, pushMemory, float64(p.memory()))
	p.collectGates(ch)
}

// collect omits counters that are zero.
func (s *destinationCounters) collect(ch chan<- prometheus.Metric, labels ...string) {
	requests := int64(0)
	for class, n := range s.classes {
		requests += n
		if n > 0 {
			name := "none"
			if class > 0 {
				name = strconv.Itoa(class) + "xx"
			}
			counterValue(ch, pushRequests, n, append(slices.Clone(labels), name)...)
		}
	}

	if requests > 0 {
		ch <- prometheus.MustNewConstMetric(pushSeconds.desc, prometheus.CounterValue, s.duration.Seconds(), labels...)
		counterValue(ch, pushBytes, s.bytes, labels...)
	}
	if s.held > 0 {
		counterValue(ch, pushHeld, s.held, labels...)
	}
}

// collectGates collects the gates of the busiest hosts, and the sum of all others.
func (p *Push) collectGates(ch chan<- prometheus.Metric) {
	gates := p.gates()
	// Gates with equal use keep their order: the most recently used one comes first.
	slices.SortStableFunc(gates, func(a, b PushGate) int {
		return cmp.Compare(b.InFlight+b.HeldBack, a.InFlight+a.HeldBack)
	})

	other := PushGate{Host: otherName}
	// The limits of several hosts cannot be added, so the common series has no limits.
	for i, g := range gates {
		if i >= maxDestinations {
			other.InFlight += g.InFlight
			other.HeldBack += g.HeldBack
			continue
		}
		gaugeValue(ch, pushGateOpen, boolValue(g.Open), g.Host)
		gaugeValue(ch, pushGateLimit, float64(g.Limit), g.Host)
		gaugeValue(ch, pushInFlight, float64(g.InFlight), g.Host)
		gaugeValue(ch, pushHeldBack, float64(g.HeldBack), g.Host)
	}
	if len(gates) > maxDestinations {
		gaugeValue(ch, pushInFlight, float64(other.InFlight), other.Host)
		gaugeValue(ch, pushHeldBack, float64(other.HeldBack), other.Host)
	}
}

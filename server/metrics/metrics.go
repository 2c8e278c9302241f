package metrics

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/dulymq/duly"
)

// DefaultQueues is the default of Config.Queues: the number of queues that have separate series.
const DefaultQueues = 1000

const (
	// maxHistograms is the number of queues that have a separate histogram. A histogram is more
	// than a dozen series.
	maxHistograms = 100
	// maxCalls is the number of different calls to a store that have separate series.
	maxCalls = 200
)

// Config configures Metrics. The zero value works.
type Config struct {
	// Queues is the number of queues that have separate series in each metric. The other queues
	// share a series. Default DefaultQueues.
	Queues int
	// Version is a label of duly_build_info.
	Version string
}

// Metrics counts the operations of one process. It is safe for concurrent use.
type Metrics struct {
	cfg     Config
	queues  *counterSet
	waiting atomic.Int64

	jobsRefused, publishRefused, settlesRefused, tokensRefused codes

	limited atomic.Int64

	mu     sync.Mutex // held while a route or a call is added
	routes map[[2]string]*requests
	calls  atomic.Pointer[map[[2]string]*durations]
}

// New returns Metrics with all counts zero.
func New(cfg Config) *Metrics {
	if cfg.Queues <= 0 {
		cfg.Queues = DefaultQueues
	}
	m := &Metrics{
		cfg: cfg, queues: newCounterSet(cfg.Queues), routes: map[[2]string]*requests{},
		jobsRefused: newCodes(), publishRefused: newCodes(), settlesRefused: newCodes(), tokensRefused: newCodes(),
	}
	m.calls.Store(&map[[2]string]*durations{})
	return m
}

// Gatherer returns a gatherer of these metrics, the survey, the Go runtime, the process, and the
// given collectors.
func (m *Metrics) Gatherer(survey *Survey, others ...prometheus.Collector) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	r.MustRegister(m, survey, collectors.NewGoCollector(), process)
	r.MustRegister(others...)
	return r
}

// Queues returns how many queues have separate series.
func (m *Metrics) Queues() int { return m.cfg.Queues }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*definition{
		jobsPushed, published, jobsDelivered, jobsSettled, jobsRefused, publishRefused, settlesRefused, jobLateness,
		ticks, tickLateness,
		longPolls, httpRequests, httpDuration, tokensRefused, callsLimited, engineCalls, buildInfo,
	} {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.queues.collect(ch)
	m.jobsRefused.collect(ch, jobsRefused)
	m.publishRefused.collect(ch, publishRefused)
	m.settlesRefused.collect(ch, settlesRefused)
	m.tokensRefused.collect(ch, tokensRefused)
	counterValue(ch, callsLimited, m.limited.Load())
	gaugeValue(ch, longPolls, float64(m.waiting.Load()))
	gaugeValue(ch, buildInfo, 1, m.cfg.Version, runtime.Version())

	// The lock is not held while series are sent, which may wait for the receiver.
	m.mu.Lock()
	routes := make([]*requests, 0, len(m.routes))
	for _, r := range m.routes {
		routes = append(routes, r)
	}
	m.mu.Unlock()
	for _, r := range routes {
		r.collect(ch)
	}
	for name, took := range *m.calls.Load() {
		took.collect(ch, engineCalls, name[0], name[1])
	}
}

// Called counts a call of an engine to its store. The names of the engine and the call
// come from the program, not from a caller.
func (m *Metrics) Called(engine, call string, took time.Duration) {
	name := [2]string{engine, call}
	// Every call to an engine comes here, so the common case takes no lock.
	h := (*m.calls.Load())[name]
	if h == nil {
		h = m.addCall(name)
	}
	h.observe(took)
}

func (m *Metrics) addCall(name [2]string) *durations {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := *m.calls.Load()
	// The names come from the program, but a later engine may have many.
	if len(calls) >= maxCalls {
		name = [2]string{otherName, otherName}
	}
	if h := calls[name]; h != nil {
		return h
	}

	// Readers take no lock, so the map is replaced.
	more := make(map[[2]string]*durations, len(calls)+1)
	for n, h := range calls {
		more[n] = h
	}
	more[name] = newDurations(callBounds)
	m.calls.Store(&more)
	return more[name]
}

// Refused counts a request that was not admitted.
func (m *Metrics) Refused(code duly.Code) { m.tokensRefused.add(code) }

// Limited counts a call beyond its token's limit.
func (m *Metrics) Limited() { m.limited.Add(1) }

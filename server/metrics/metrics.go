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

// DefaultQueues is how many queues have series of their own.
const DefaultQueues = 1000

const (
	// mostHistograms is how many of them have a histogram of their own, which is
	// a dozen series and more.
	mostHistograms = 100
	// mostCalls bounds the kinds of calls to a store that are told apart.
	mostCalls = 200
)

// Config is how metrics are kept. Its zero value works.
type Config struct {
	// Queues is how many queues have series of their own in each metric; the
	// others are told together. Default DefaultQueues.
	Queues int
	// Version is told by duly_build_info.
	Version string
}

// Metrics counts what one process does. It is safe for concurrent use.
type Metrics struct {
	cfg     Config
	tallies *tallies
	waiting atomic.Int64

	jobsRefused, publishRefused, settlesRefused, tokensRefused codes

	limited atomic.Int64

	mu     sync.Mutex // held to add a route or a call
	routes map[[2]string]*requests
	calls  atomic.Pointer[map[[2]string]*durations]
}

// New returns metrics that have counted nothing.
func New(cfg Config) *Metrics {
	if cfg.Queues <= 0 {
		cfg.Queues = DefaultQueues
	}
	m := &Metrics{
		cfg: cfg, tallies: newTallies(cfg.Queues), jobsRefused: newCodes(), publishRefused: newCodes(), settlesRefused: newCodes(), tokensRefused: newCodes(),
		routes: map[[2]string]*requests{},
	}
	m.calls.Store(&map[[2]string]*durations{})
	return m
}

// Gatherer has everything that is counted, what the survey sees, and the Go
// runtime and the process. What is given besides is told beside it.
func (m *Metrics) Gatherer(survey *Survey, besides ...prometheus.Collector) prometheus.Gatherer {
	r := prometheus.NewRegistry()
	r.MustRegister(m, survey, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.MustRegister(besides...)
	return r
}

// Queues is how many queues have series of their own.
func (m *Metrics) Queues() int { return m.cfg.Queues }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*defined{
		jobsPushed, published, jobsDelivered, jobsSettled, jobsRefused, publishRefused, settlesRefused, jobLateness, longPolls, httpRequests, httpDuration,
		tokensRefused, callsLimited, engineCalls, buildInfo,
	} {
		ch <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.tallies.tell(ch)
	m.jobsRefused.tell(ch, jobsRefused)
	m.publishRefused.tell(ch, publishRefused)
	m.settlesRefused.tell(ch, settlesRefused)
	m.tokensRefused.tell(ch, tokensRefused)
	count(ch, callsLimited, m.limited.Load())
	measure(ch, longPolls, float64(m.waiting.Load()))
	measure(ch, buildInfo, 1, m.cfg.Version, runtime.Version())
	m.mu.Lock()
	routes := make([]*requests, 0, len(m.routes))
	for _, r := range m.routes {
		routes = append(routes, r)
	}
	m.mu.Unlock()
	for _, r := range routes {
		r.tell(ch)
	}
	for name, took := range *m.calls.Load() {
		took.tell(ch, engineCalls, name[0], name[1])
	}
}

// Called is told by an engine how long its store took to answer a call: the
// engine's kind and the call are names from the program, not from a caller.
func (m *Metrics) Called(engine, call string, took time.Duration) {
	name := [2]string{engine, call}
	h := (*m.calls.Load())[name]
	if h == nil {
		h = m.addCall(name)
	}
	h.observe(took)
}

func (m *Metrics) addCall(name [2]string) *durations {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.calls.Load()
	if len(known) >= mostCalls {
		name = [2]string{otherName, otherName}
	}
	if h := known[name]; h != nil {
		return h
	}
	more := make(map[[2]string]*durations, len(known)+1)
	for n, h := range known {
		more[n] = h
	}
	more[name] = newDurations(callBounds)
	m.calls.Store(&more)
	return more[name]
}

// Refused is told that a request was not let in.
func (m *Metrics) Refused(code duly.Code) { m.tokensRefused.add(code) }

// Limited is told that a call was over its token's limit.
func (m *Metrics) Limited() { m.limited.Add(1) }

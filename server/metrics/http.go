package metrics

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dulymq/duly/server/route"
)

// requests are those of one route.
type requests struct {
	method, path string
	classes      [6]atomic.Int64 // by the status' first digit
	took         *durations
}

// Route implements route.Meter. Routes of the same method and pattern, as on
// two addresses, are counted together.
func (m *Metrics) Route(method, path string) func(status int, took time.Duration) {
	if method == "" {
		method = "any"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := [2]string{method, path}
	r := m.routes[name]
	if r == nil {
		r = &requests{method: method, path: path, took: newDurations(requestBounds)}
		m.routes[name] = r
	}
	return r.answered
}

func (r *requests) answered(status int, took time.Duration) {
	class := status / 100
	if class < 1 || class > 5 { // it was cut off before it was answered
		class = 5
	}
	r.classes[class].Add(1)
	r.took.observe(took)
}

func (r *requests) tell(ch chan<- prometheus.Metric) {
	for class := range r.classes {
		if n := r.classes[class].Load(); n > 0 {
			count(ch, httpRequests, n, r.method, r.path, string(rune('0'+class))+"xx")
		}
	}
	r.took.tell(ch, httpDuration, r.method, r.path)
}

// Panics tells how many handlers have panicked.
func Panics(n func() int64) prometheus.Collector { return panics(n) }

type panics func() int64

// Describe implements prometheus.Collector.
func (p panics) Describe(ch chan<- *prometheus.Desc) { ch <- httpPanics.desc }

// Collect implements prometheus.Collector.
func (p panics) Collect(ch chan<- prometheus.Metric) { count(ch, httpPanics, p()) }

// Serve answers what Prometheus asks.
func Serve(g prometheus.Gatherer, c *route.Call) error {
	p := &page{header: http.Header{}, status: http.StatusOK}
	promhttp.HandlerFor(g, promhttp.HandlerOpts{DisableCompression: true, ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(p, c.R)
	return c.ReplyAs(p.status, p.header.Get("Content-Type"), p.Bytes())
}

// page is an answer before it is sent.
type page struct {
	bytes.Buffer
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (p *page) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *page) WriteHeader(status int) { p.status = status }

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

// requests counts the requests of one route.
type requests struct {
	method, path string
	classes      [6]atomic.Int64 // number of answers by the first digit of the status
	took         *durations
}

// Route implements route.Meter. Routes with the same method and pattern, for example on
// two addresses, share their counts.
func (m *Metrics) Route(method, path string) func(status int, took time.Duration) {
	// A pattern without a method serves all methods.
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
	// An aborted connection has no status. Its caller saw a fault of the server.
	if class < 1 || class > 5 {
		class = 5
	}
	r.classes[class].Add(1)
	r.took.observe(took)
}

func (r *requests) collect(ch chan<- prometheus.Metric) {
	for class := range r.classes {
		if n := r.classes[class].Load(); n > 0 {
			counterValue(ch, httpRequests, n, r.method, r.path, string(rune('0'+class))+"xx")
		}
	}
	r.took.collect(ch, httpDuration, r.method, r.path)
}

// Panics returns a collector of the number of panics in handlers.
func Panics(n func() int64) prometheus.Collector { return total{httpPanics, n} }

// LostAuditLines returns a collector of the number of lines that the audit log could not write.
func LostAuditLines(n func() int64) prometheus.Collector { return total{auditLost, n} }

// total is a counter that another package keeps.
type total struct {
	metric *definition
	value  func() int64
}

// Describe implements prometheus.Collector.
func (t total) Describe(ch chan<- *prometheus.Desc) { ch <- t.metric.desc }

// Collect implements prometheus.Collector.
func (t total) Collect(ch chan<- prometheus.Metric) { counterValue(ch, t.metric, t.value()) }

// Serve writes the metrics of a gatherer in the format of Prometheus.
func Serve(g prometheus.Gatherer, c *route.Call) error {
	p := &response{header: http.Header{}, status: http.StatusOK}
	// One metric that cannot be read must not hide the other metrics.
	options := promhttp.HandlerOpts{DisableCompression: true, ErrorHandling: promhttp.ContinueOnError}
	promhttp.HandlerFor(g, options).ServeHTTP(p, c.R)
	return c.ReplyAs(p.status, p.header.Get("Content-Type"), p.Bytes())
}

// response buffers an answer.
type response struct {
	bytes.Buffer
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (p *response) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *response) WriteHeader(status int) { p.status = status }

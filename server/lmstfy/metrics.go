package lmstfy

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	own "github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// metrics counts the calls of the API under lmstfy's names, so that its dashboards keep working.
// No label has a text of a caller that was not admitted.
type metrics struct {
	pools *pools.Pools
	slots *own.Slots[slotKey, *queueSeries]
	other *queueSeries // series of queues without a slot
	whole map[string]poolSeries

	latency        *prometheus.HistogramVec
	codes, limited *prometheus.CounterVec

	published, consumed, deleted *prometheus.CounterVec
	into, from                   *prometheus.CounterVec // per queue
	elapsed, ackElapsed          *prometheus.HistogramVec
}

func newMetrics(in *pools.Pools) *metrics {
	request := []string{"pool", "namespace", "api", "method"}
	ofPool := []string{"pool"}
	inQueue := []string{"pool", "namespace", "queue"}
	jobTimes := prometheus.ExponentialBuckets(15, 3.5, 7)
	httpTimes := prometheus.ExponentialBuckets(15, 2.5, 9)

	m := &metrics{
		pools: in, whole: map[string]poolSeries{},
		latency: histogram("http_latency_milliseconds", "The duration of a successful request.", httpTimes, request...),
		codes:   counter("http_http_codes", "Requests by the status of their answers.", append(request, "code")...),
		limited: counter("http_rate_limit", "Calls over the limit of their token.",
			"pool", "namespace", "token", "action"),

		published: counter("redis_publish_jobs", "Jobs published.", ofPool...),
		consumed:  counter("redis_consume_multi_jobs", "Jobs consumed.", ofPool...),
		deleted:   counter("redis_pool_delete_jobs", "Jobs acked.", ofPool...),
		into:      counter("redis_publish_queue_jobs", "Jobs published into a queue.", inQueue...),
		from:      counter("redis_consume_queue_jobs", "Jobs consumed from a queue.", inQueue...),
		elapsed:   histogram("redis_job_elapsed_ms", "From the publish of a job to its consume.", jobTimes, inQueue...),
		ackElapsed: histogram("redis_job_ack_elapsed_ms", "From the publish of a job to its ack.",
			jobTimes, inQueue...),
	}

	m.slots, m.other = newSlots(m), newQueueSeries(m, contract.DefaultPool, "", "")
	for _, pool := range in.Names() {
		m.whole[pool] = newPoolSeries(m, pool)
	}
	return m
}

const metricPrefix = "infra_lmstfy_"

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Name: metricPrefix + name, Help: help, Buckets: buckets}
	return prometheus.NewHistogramVec(opts, labels)
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.latency, m.codes, m.limited, m.published, m.consumed, m.deleted, m.into, m.from, m.elapsed, m.ackElapsed,
	}
}

// requests counts the requests of one route.
type requests struct {
	m      *metrics
	api    string
	mu     sync.RWMutex
	series map[requestLabels]*requestSeries
}

// requestLabels are the labels of one series.
type requestLabels struct {
	pool, namespace, method string
	status                  int
}

type requestSeries struct {
	count prometheus.Counter
	took  prometheus.Observer // set only for requests that succeeded
}

// apiLabel converts a pattern of this server to the label that lmstfy uses.
var apiLabel = strings.NewReplacer("{id}", ":job_id", "{", ":", "}", "")

// route returns the counter of a pattern.
func (m *metrics) route(pattern string) *requests {
	return &requests{m: m, api: apiLabel.Replace(pattern), series: map[requestLabels]*requestSeries{}}
}

// answered counts a request at its end.
func (r *requests) answered(c *route.Call, status int, took time.Duration) {
	labels := requestLabels{pool: contract.DefaultPool, method: c.Method(), status: status}
	// Without a token, the namespace in a request can be any text, so it must not become a label.
	if c.Authenticated() {
		q := r.m.queue(c.Namespace, "")
		labels.pool, labels.namespace = q.pool, q.namespace
	}
	s := r.find(labels)
	s.count.Inc()
	if s.took != nil {
		s.took.Observe(millis(took))
	}
}

// find returns a series, and creates it if necessary.
func (r *requests) find(l requestLabels) *requestSeries {
	r.mu.RLock()
	s := r.series[l]
	r.mu.RUnlock()
	if s != nil {
		return s
	}

	// Two goroutines may do this concurrently. Both get the same series.
	count := r.m.codes.WithLabelValues(l.pool, l.namespace, r.api, l.method, strconv.Itoa(l.status))
	s = &requestSeries{count: count}
	// lmstfy measures the duration of successful requests only.
	if l.status < 300 {
		s.took = r.m.latency.WithLabelValues(l.pool, l.namespace, r.api, l.method)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.series[l] = s
	return s
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (m *metrics) overLimit(c *route.Call, action string) {
	p := m.queue(c.Namespace, "")
	m.limited.WithLabelValues(p.pool, p.namespace, c.Caller(), action).Inc()
}

func (m *metrics) publishedJobs(jobs []duly.Job) {
	m.pool(jobs[0].Namespace).published().Add(float64(len(jobs)))
	m.queue(jobs[0].Namespace, jobs[0].Queue).into().Add(float64(len(jobs)))
}

func (m *metrics) consumedJobs(jobs []job) {
	m.pool(jobs[0].namespace).consumed().Add(float64(len(jobs)))
	for i := range jobs {
		q := m.queue(jobs[i].namespace, jobs[i].queue)
		q.from().Inc()
		q.elapsed().Observe(float64(jobs[i].elapsedMS))
	}
}

// ackedJob counts an ack that has found its job. The ID of the job contains the time of the
// publish.
func (m *metrics) ackedJob(q duly.QueueRef, id string, now time.Time) {
	m.pool(q.Namespace).deleted().Inc()
	if at, ok := createdAt(id); ok {
		// The clock of the server that made the ID may be ahead of this server's clock.
		m.queue(q.Namespace, q.Name).acked().Observe(max(0, millis(now.Sub(at))))
	}
}

// maxSlots is the largest number of namespaces, and of queues, with separate series. All others
// share one series without a name.
const maxSlots = 1000

type slotKey struct {
	pool string
	duly.QueueRef
}

// queueSeries are the series of a queue, or of a namespace if the name is empty. Each is created
// at its first use.
type queueSeries struct {
	pool, namespace, queue string
	into, from             func() prometheus.Counter
	elapsed, acked         func() prometheus.Observer
}

func newQueueSeries(m *metrics, pool, namespace, queue string) *queueSeries {
	count := func(v *prometheus.CounterVec) func() prometheus.Counter {
		return sync.OnceValue(func() prometheus.Counter { return v.WithLabelValues(pool, namespace, queue) })
	}
	observe := func(v *prometheus.HistogramVec) func() prometheus.Observer {
		return sync.OnceValue(func() prometheus.Observer { return v.WithLabelValues(pool, namespace, queue) })
	}
	return &queueSeries{pool, namespace, queue, count(m.into), count(m.from), observe(m.elapsed), observe(m.ackElapsed)}
}

// poolSeries are the series of a whole pool.
type poolSeries struct {
	published, consumed, deleted func() prometheus.Counter
}

func newPoolSeries(m *metrics, pool string) poolSeries {
	count := func(v *prometheus.CounterVec) func() prometheus.Counter {
		return sync.OnceValue(func() prometheus.Counter { return v.WithLabelValues(pool) })
	}
	return poolSeries{count(m.published), count(m.consumed), count(m.deleted)}
}

// pool returns the series of a namespace's pool.
func (m *metrics) pool(namespace string) poolSeries {
	if w, ok := m.whole[m.pools.Label(namespace)]; ok {
		return w
	}
	return m.whole[contract.DefaultPool]
}

// queue returns the series of a queue, or of a namespace if the name is empty.
func (m *metrics) queue(namespace, queue string) *queueSeries {
	key := slotKey{m.pools.Label(namespace), duly.QueueRef{Namespace: namespace, Name: queue}}
	if q, ok := m.slots.Get(key); ok {
		return q
	}
	return m.other
}

// newSlots returns slots that the namespaces share fairly. A queue that loses its slot loses its
// series. Its namespace keeps its own.
func newSlots(m *metrics) *own.Slots[slotKey, *queueSeries] {
	return own.NewSlots(own.SlotsConfig[slotKey, *queueSeries]{
		Max:  maxSlots,
		Name: func(k slotKey) (string, string) { return k.Namespace, k.Name },
		New: func(k slotKey, _ map[slotKey]*queueSeries) *queueSeries {
			return newQueueSeries(m, k.pool, k.Namespace, k.Name)
		},
		Evict: func(k slotKey, _ *queueSeries) {
			// Otherwise the series of every queue ever used would stay in memory.
			labels := []string{k.pool, k.Namespace, k.Name}
			m.into.DeleteLabelValues(labels...)
			m.from.DeleteLabelValues(labels...)
			m.elapsed.DeleteLabelValues(labels...)
			m.ackElapsed.DeleteLabelValues(labels...)
		},
	})
}

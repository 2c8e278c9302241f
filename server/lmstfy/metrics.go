package lmstfy

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	own "github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// metrics counts what goes through the API under lmstfy's names, so that its
// dashboards go on. No label holds what a caller has sent who was not let in.
type metrics struct {
	pools  *pools.Pools
	places *own.Slots[placeKey, *place]
	other  *place // of those without a place
	whole  map[string]wholePool

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
	m := &metrics{
		pools: in, whole: map[string]wholePool{},
		latency: histogram("http_latency_milliseconds", "How long a request took that went well.", prometheus.ExponentialBuckets(15, 2.5, 9), request...),
		codes:   counter("http_http_codes", "Requests by the status of their answers.", append(request, "code")...),
		limited: counter("http_rate_limit", "Calls over the limit of their token.", "pool", "namespace", "token", "action"),

		published:  counter("redis_publish_jobs", "Jobs published.", ofPool...),
		consumed:   counter("redis_consume_multi_jobs", "Jobs consumed.", ofPool...),
		deleted:    counter("redis_pool_delete_jobs", "Jobs acked.", ofPool...),
		into:       counter("redis_publish_queue_jobs", "Jobs published into a queue.", inQueue...),
		from:       counter("redis_consume_queue_jobs", "Jobs consumed from a queue.", inQueue...),
		elapsed:    histogram("redis_job_elapsed_ms", "From the publish of a job to its consume.", jobTimes, inQueue...),
		ackElapsed: histogram("redis_job_ack_elapsed_ms", "From the publish of a job to its ack.", jobTimes, inQueue...),
	}
	m.places, m.other = newPlaces(m), newPlace(m, duly.DefaultPool, "", "")
	for _, pool := range in.Names() {
		m.whole[pool] = newWholePool(m, pool)
	}
	return m
}

const metricPrefix = "infra_lmstfy_"

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: metricPrefix + name, Help: help, Buckets: buckets}, labels)
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.latency, m.codes, m.limited, m.published, m.consumed, m.deleted, m.into, m.from, m.elapsed, m.ackElapsed}
}

// requests counts those of one route.
type requests struct {
	m    *metrics
	api  string
	mu   sync.RWMutex
	seen map[outcome]*series
}

// outcome is what the requests of one series have in common.
type outcome struct {
	pool, namespace, method string
	status                  int
}

type series struct {
	count prometheus.Counter
	took  prometheus.Observer // nil but for success
}

// apiLabel turns a pattern of this server into one of lmstfy's.
var apiLabel = strings.NewReplacer("{id}", ":job_id", "{", ":", "}", "")

// route counts the requests of a pattern.
func (m *metrics) route(pattern string) *requests {
	return &requests{m: m, api: apiLabel.Replace(pattern), seen: map[outcome]*series{}}
}

// answered counts a request that is over.
func (r *requests) answered(c *route.Call, status int, took time.Duration) {
	o := outcome{pool: duly.DefaultPool, method: c.Method(), status: status}
	if c.Authenticated() {
		p := r.m.placeOf(c.Namespace, "")
		o.pool, o.namespace = p.pool, p.namespace
	}
	s := r.of(o)
	s.count.Inc()
	if s.took != nil {
		s.took.Observe(millis(took))
	}
}

// of finds a series, or makes it.
func (r *requests) of(o outcome) *series {
	r.mu.RLock()
	s := r.seen[o]
	r.mu.RUnlock()
	if s != nil {
		return s
	}
	s = &series{count: r.m.codes.WithLabelValues(o.pool, o.namespace, r.api, o.method, strconv.Itoa(o.status))}
	if o.status < 300 {
		s.took = r.m.latency.WithLabelValues(o.pool, o.namespace, r.api, o.method)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[o] = s
	return s
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (m *metrics) overLimit(c *route.Call, action string) {
	p := m.placeOf(c.Namespace, "")
	m.limited.WithLabelValues(p.pool, p.namespace, c.Caller(), action).Inc()
}

func (m *metrics) publishedJobs(jobs []duly.Job) {
	m.wholeOf(jobs[0].Namespace).published().Add(float64(len(jobs)))
	m.placeOf(jobs[0].Namespace, jobs[0].Queue).into().Add(float64(len(jobs)))
}

func (m *metrics) consumedJobs(jobs []job) {
	m.wholeOf(jobs[0].namespace).consumed().Add(float64(len(jobs)))
	for i := range jobs {
		p := m.placeOf(jobs[i].namespace, jobs[i].queue)
		p.from().Inc()
		p.elapsed().Observe(float64(jobs[i].elapsedMS))
	}
}

// ackedJob counts an ack that has found its job. Its ID tells when it was
// published.
func (m *metrics) ackedJob(q duly.QueueRef, id string, now time.Time) {
	m.wholeOf(q.Namespace).deleted().Inc()
	if at, ok := madeAt(id); ok {
		m.placeOf(q.Namespace, q.Name).acked().Observe(max(0, millis(now.Sub(at))))
	}
}

// mostPlaces bounds the namespaces and queues that have series of their own. The
// others share one without a name.
const mostPlaces = 1000

type placeKey struct {
	pool string
	duly.QueueRef
}

// place is a queue, or with an empty name a namespace, and its series, each of
// which is made when it is first needed.
type place struct {
	pool, namespace, queue string
	into, from             func() prometheus.Counter
	elapsed, acked         func() prometheus.Observer
}

func newPlace(m *metrics, pool, namespace, queue string) *place {
	count := func(v *prometheus.CounterVec) func() prometheus.Counter {
		return sync.OnceValue(func() prometheus.Counter { return v.WithLabelValues(pool, namespace, queue) })
	}
	observe := func(v *prometheus.HistogramVec) func() prometheus.Observer {
		return sync.OnceValue(func() prometheus.Observer { return v.WithLabelValues(pool, namespace, queue) })
	}
	return &place{pool, namespace, queue, count(m.into), count(m.from), observe(m.elapsed), observe(m.ackElapsed)}
}

// wholePool are the series of the pool as a whole.
type wholePool struct {
	published, consumed, deleted func() prometheus.Counter
}

func newWholePool(m *metrics, pool string) wholePool {
	count := func(v *prometheus.CounterVec) func() prometheus.Counter {
		return sync.OnceValue(func() prometheus.Counter { return v.WithLabelValues(pool) })
	}
	return wholePool{count(m.published), count(m.consumed), count(m.deleted)}
}

// wholeOf are those of a namespace's pool.
func (m *metrics) wholeOf(namespace string) wholePool {
	if w, ok := m.whole[m.pools.Label(namespace)]; ok {
		return w
	}
	return m.whole[duly.DefaultPool]
}

// placeOf returns the series of a queue, or with an empty name of a namespace.
func (m *metrics) placeOf(namespace, queue string) *place {
	key := placeKey{m.pools.Label(namespace), duly.QueueRef{Namespace: namespace, Name: queue}}
	if p, ok := m.places.Get(key); ok {
		return p
	}
	return m.other
}

// newPlaces returns places that the namespaces share fairly. A queue that loses
// its place loses its series, too; its namespace keeps its own.
func newPlaces(m *metrics) *own.Slots[placeKey, *place] {
	return own.NewSlots(own.SlotsConfig[placeKey, *place]{
		Max:  mostPlaces,
		Name: func(k placeKey) (string, string) { return k.Namespace, k.Name },
		New:  func(k placeKey, _ map[placeKey]*place) *place { return newPlace(m, k.pool, k.Namespace, k.Name) },
		Evict: func(k placeKey, _ *place) {
			labels := []string{k.pool, k.Namespace, k.Name}
			m.into.DeleteLabelValues(labels...)
			m.from.DeleteLabelValues(labels...)
			m.elapsed.DeleteLabelValues(labels...)
			m.ackElapsed.DeleteLabelValues(labels...)
		},
	})
}

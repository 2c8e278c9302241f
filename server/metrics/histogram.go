package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// mostBounds is how many bounds a histogram has at most.
const mostBounds = 12

// The bounds of the histograms' buckets. What is beyond the last one is in the
// bucket without a bound, which each of them has too.
var (
	latenessBounds = []time.Duration{
		time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
		250 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute, time.Hour,
	}
	requestBounds = []time.Duration{
		500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second,
	}
	callBounds = []time.Duration{
		50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
		5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second,
	}
)

// durations is a histogram that costs two atomic additions a time.
type durations struct {
	bounds []time.Duration
	counts []atomic.Uint64 // one more than bounds
	sum    atomic.Int64    // in microseconds: of an hour each, two billion fit
}

func newDurations(bounds []time.Duration) *durations {
	return &durations{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

func (h *durations) observe(d time.Duration) {
	h.counts[bucket(h.bounds, d)].Add(1)
	h.sum.Add(int64(d / time.Microsecond))
}

func bucket(bounds []time.Duration, d time.Duration) (i int) {
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	return i
}

// observations are some that were not added yet.
type observations struct {
	counts [mostBounds + 1]uint64
	total  int64
	sum    int64
}

func (o *observations) note(bounds []time.Duration, d time.Duration) {
	o.counts[bucket(bounds, d)]++
	o.total++
	o.sum += int64(d / time.Microsecond)
}

// add takes observations over, and empties them.
func (h *durations) add(o *observations) {
	for i := range h.counts {
		if o.counts[i] > 0 {
			h.counts[i].Add(o.counts[i])
		}
	}
	h.sum.Add(o.sum)
	*o = observations{}
}

// take moves what another one has counted into this one.
func (h *durations) take(from *durations) {
	for i := range h.counts {
		h.counts[i].Add(from.counts[i].Swap(0))
	}
	h.sum.Add(from.sum.Swap(0))
}

// tell writes it down, unless it is empty. The parts of what is observed
// meanwhile may be in it or not.
func (h *durations) tell(ch chan<- prometheus.Metric, m *defined, labels ...string) {
	buckets := make(map[float64]uint64, len(h.bounds))
	total := uint64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
		if i < len(h.bounds) {
			buckets[h.bounds[i].Seconds()] = total
		}
	}
	if total > 0 {
		ch <- prometheus.MustNewConstHistogram(m.desc, total, float64(h.sum.Load())/1e6, buckets, labels...)
	}
}

func count(ch chan<- prometheus.Metric, m *defined, n int64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(n), labels...)
}

func measure(ch chan<- prometheus.Metric, m *defined, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, value, labels...)
}

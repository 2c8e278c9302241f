package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxBounds is the largest number of bucket bounds of a histogram.
const maxBounds = 12

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// The bounds of the histograms' buckets. Each histogram also has a bucket for longer
// durations.
var (
	latenessBounds = []time.Duration{
		1 * ms, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms,
		time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute, time.Hour,
	}
	requestBounds = []time.Duration{
		500 * us, 1 * ms, 2500 * us, 5 * ms, 10 * ms, 25 * ms, 50 * ms, 100 * ms, 250 * ms,
		time.Second, 5 * time.Second, 30 * time.Second,
	}
	callBounds = []time.Duration{
		50 * us, 100 * us, 250 * us, 500 * us, 1 * ms, 2500 * us, 5 * ms, 10 * ms, 25 * ms, 100 * ms, 500 * ms,
		2 * time.Second,
	}
)

// durations is a histogram. An observation costs two atomic additions.
type durations struct {
	bounds []time.Duration
	counts []atomic.Uint64 // counts per bucket, one more than bounds
	sum    atomic.Int64    // sum in microseconds; an int64 is enough for two billion hours
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

// observations collects observations for a histogram, without atomic operations.
type observations struct {
	counts [maxBounds + 1]uint64
	total  int64
	sum    int64
}

func (o *observations) note(bounds []time.Duration, d time.Duration) {
	o.counts[bucket(bounds, d)]++
	o.total++
	o.sum += int64(d / time.Microsecond)
}

// add adds observations to the histogram, and resets the observations.
func (h *durations) add(o *observations) {
	for i := range h.counts {
		if o.counts[i] > 0 {
			h.counts[i].Add(o.counts[i])
		}
	}
	h.sum.Add(o.sum)
	*o = observations{}
}

// absorb moves the counts of another histogram into h.
func (h *durations) absorb(from *durations) {
	for i := range h.counts {
		h.counts[i].Add(from.counts[i].Swap(0))
	}
	h.sum.Add(from.sum.Swap(0))
}

// collect skips an empty histogram. A concurrent observation may be counted in part.
func (h *durations) collect(ch chan<- prometheus.Metric, m *definition, labels ...string) {
	buckets := make(map[float64]uint64, len(h.bounds))
	// Prometheus expects cumulative buckets.
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

func counterValue(ch chan<- prometheus.Metric, m *definition, n int64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(n), labels...)
}

func gaugeValue(ch chan<- prometheus.Metric, m *definition, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(m.desc, prometheus.GaugeValue, value, labels...)
}

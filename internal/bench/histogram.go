package bench

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Each power of two of nanoseconds has subBuckets buckets, so the error of a value is at most
// 1/64. Values below subBuckets are exact.
const (
	subBits    = 6
	subBuckets = 1 << subBits
	buckets    = (64 - subBits) * subBuckets
)

// Histogram counts durations in fixed buckets of 1.6 % width, from a nanosecond to 292 years.
// Recording takes no lock and allocates no memory. The zero value is empty. It is safe for
// concurrent use, and must not be copied.
type Histogram struct {
	counts   [buckets]atomic.Int64
	negative atomic.Int64 // counts of values below zero, for which percentiles return min
	min, max atomic.Int64 // in the order of raise; min is stored as its complement
	n        atomic.Int64
}

// Record adds a duration.
func (h *Histogram) Record(d time.Duration) {
	v := int64(d)
	if v < 0 {
		h.negative.Add(1)
	} else {
		h.counts[bucketOf(v)].Add(1)
	}
	// min and max start at 0, which means that there is no value. ordered(v) rises with v, and is 0
	// only for math.MinInt64.
	raise(&h.max, ordered(v))
	raise(&h.min, ordered(^v))
	h.n.Add(1)
}

// ordered maps v so that unsigned comparison orders the results like v.
func ordered(v int64) int64 { return v ^ math.MinInt64 }

func raise(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if uint64(v) <= uint64(old) || a.CompareAndSwap(old, v) {
			return
		}
	}
}

// bucketOf returns the bucket of v ≥ 0.
func bucketOf(v int64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - subBits - 1
	return shift*subBuckets + int(v>>shift)
}

// upper returns the largest value of a bucket.
func upper(bucket int) int64 {
	if bucket < 2*subBuckets {
		return int64(bucket)
	}
	shift := bucket/subBuckets - 1
	low := int64(bucket-shift*subBuckets) << shift
	return low + (1<<shift - 1)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() int64 { return h.n.Load() }

// Min returns the exact smallest duration, or 0 if nothing was recorded.
func (h *Histogram) Min() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(^ordered(h.min.Load()))
}

// Max returns the exact largest duration, or 0 if nothing was recorded.
func (h *Histogram) Max() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(ordered(h.max.Load()))
}

// Percentile returns the smallest duration that at least p % (0–100) of the recorded ones do not
// exceed, rounded up by at most 1.6 %. It returns 0 if nothing was recorded. If the result would be
// negative, it returns Min.
func (h *Histogram) Percentile(p float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	rank := max(1, int64(math.Ceil(p/100*float64(h.Count()))))
	seen := h.negative.Load()
	if rank <= seen {
		return h.Min()
	}
	for b := range h.counts {
		seen += h.counts[b].Load()
		if seen >= rank {
			return min(time.Duration(upper(b)), h.Max())
		}
	}
	return h.Max()
}

// Add adds all durations of another histogram.
func (h *Histogram) Add(other *Histogram) {
	if other.Count() == 0 {
		return
	}
	for b := range h.counts {
		if c := other.counts[b].Load(); c != 0 {
			h.counts[b].Add(c)
		}
	}
	h.negative.Add(other.negative.Load())
	raise(&h.max, other.max.Load())
	raise(&h.min, other.min.Load())
	h.n.Add(other.n.Load())
}

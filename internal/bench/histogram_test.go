package bench

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAnEmptyHistogramReturnsZero(t *testing.T) {
	t.Parallel()
	var h Histogram
	if h.Count() != 0 || h.Min() != 0 || h.Max() != 0 || h.Percentile(50) != 0 || h.Percentile(0) != 0 {
		t.Errorf("count %d, min %v, max %v, p50 %v", h.Count(), h.Min(), h.Max(), h.Percentile(50))
	}
}

func TestPercentilesAreExactToOneBucket(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 1, 300).Draw(t, "values")
		p := rapid.Float64Range(0, 100).Draw(t, "p")
		var h Histogram
		for _, v := range values {
			h.Record(time.Duration(v))
		}
		slices.Sort(values)
		want := values[max(0, int(math.Ceil(p/100*float64(len(values))))-1)]
		got := int64(h.Percentile(p))
		if got < want || float64(got-want) > float64(want)/subBuckets {
			t.Fatalf("p%g of %v is %d, want %d", p, values, got, want)
		}
		if int64(h.Min()) != values[0] || int64(h.Max()) != values[len(values)-1] {
			t.Fatalf("min %d, max %d of %v", h.Min(), h.Max(), values)
		}
	})
}

func TestNegativeDurationsCountInMinAndPercentiles(t *testing.T) {
	t.Parallel()
	var h Histogram
	for _, d := range []time.Duration{-3, -time.Millisecond, 5, 7} {
		h.Record(d)
	}
	if h.Min() != -time.Millisecond || h.Max() != 7 || h.Count() != 4 {
		t.Errorf("min %v, max %v, count %d", h.Min(), h.Max(), h.Count())
	}
	if got := h.Percentile(50); got != -time.Millisecond {
		t.Errorf("p50 is %v, want the min", got)
	}
	if got := h.Percentile(75); got != 5 {
		t.Errorf("p75 is %v, want 5ns", got)
	}
}

func TestOnlyNegativeDurationsHaveANegativeMax(t *testing.T) {
	t.Parallel()
	var h Histogram
	h.Record(-4)
	h.Record(-2)
	if h.Min() != -4 || h.Max() != -2 {
		t.Errorf("min %v, max %v, want -4ns and -2ns", h.Min(), h.Max())
	}
}

func TestAddedHistogramsEqualOneWithAllValues(t *testing.T) {
	t.Parallel()
	var a, b, sum Histogram
	for i := range 1000 {
		d := time.Duration(i*i) - 5
		sum.Record(d)
		if i%3 == 0 {
			a.Record(d)
		} else {
			b.Record(d)
		}
	}

	var empty Histogram
	a.Add(&b)
	a.Add(&empty)
	for _, p := range []float64{0, 1, 50, 90, 99, 100} {
		if a.Percentile(p) != sum.Percentile(p) {
			t.Errorf("p%g is %v, want %v", p, a.Percentile(p), sum.Percentile(p))
		}
	}

	if a.Count() != sum.Count() || a.Min() != sum.Min() || a.Max() != sum.Max() {
		t.Errorf("count %d, min %v, max %v", a.Count(), a.Min(), a.Max())
	}
}

func TestConcurrentRecordingCountsEveryValue(t *testing.T) {
	t.Parallel()
	var h Histogram
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				h.Record(time.Duration(g*1000 + i))
			}
		})
	}
	wg.Wait()
	if h.Count() != 8000 || h.Min() != 0 || h.Max() != 7999 {
		t.Errorf("count %d, min %v, max %v", h.Count(), h.Min(), h.Max())
	}
}

func TestRecordingDoesNotAllocate(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Record(time.Millisecond) }); n != 0 {
		t.Errorf("Record allocates %v times", n)
	}
}

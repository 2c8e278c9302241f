package history

import (
	"math"
	"time"
)

// Range is a length of time that a chart shows.
type Range struct {
	Name string
	Span time.Duration
	// ring is the index of the ring with the steps. merge steps become one point.
	ring, merge int
}

// Ranges are all ranges, at most 180 points each. Only namespaces have the last one.
var Ranges = []Range{
	{"15min", 15 * time.Minute, 0, 1}, {"1h", time.Hour, 1, 1}, {"6h", 6 * time.Hour, 1, 2},
	{"24h", 24 * time.Hour, 2, 1}, {"3d", 3 * 24 * time.Hour, 2, 3}, {"7d", 7 * 24 * time.Hour, 2, 6},
}

// Step returns the time between two points.
func (r Range) Step() time.Duration { return steps[r.ring] * time.Duration(r.merge) }

// Point is one point of a chart.
type Point struct {
	At time.Time
	// Seen is false in a gap, where the other fields are zero.
	Seen bool
	// Pushed, Acked, Failed and Stalled are per second.
	Pushed, Acked, Failed, Stalled float64
	Ready                          float64
	// Oldest is the largest age of the oldest ready job, in seconds.
	Oldest float64
	// P50 and P99 are percentiles of the lateness of deliveries, in seconds. They are NaN without a delivery, and in
	// the chart of a queue.
	P50, P99 float64
}

// Chart is what a chart shows. The last point is unfinished.
type Chart struct {
	Points []Point
	Marks  []Mark
	// Dropped is the number of queues whose series the bound of the memory has removed.
	Dropped int
}

// Chart returns the points of a namespace, or of one of its queues.
func (h *History) Chart(name, queue string, r Range) (c Chart) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, series := h.find(name, queue)
	if n == nil {
		return c
	}
	if queue == "" {
		series = n.Total
	}

	now := h.cfg.Clock.Now()
	points := int64(r.Span / r.Step())
	last := now.UnixMilli() / r.Step().Milliseconds()
	for i := last - points + 1; i <= last; i++ {
		c.Points = append(c.Points, h.point(n, series, r, i*int64(r.merge)))
	}
	for _, m := range n.Marks {
		if now.Sub(m.At) < r.Span {
			c.Marks = append(c.Marks, m)
		}
	}
	c.Dropped = h.dropped
	return c
}

// point merges the steps from a first one. A nil series had no events.
func (h *History) point(n *namespace, s *series, r Range, first int64) Point {
	total := &n.Total.Rings[r.ring]
	p := Point{At: total.start(first), P50: math.NaN(), P99: math.NaN()}
	seconds, sums := 0.0, [columns]float64{}
	var late []float32
	for step := first; step < first+int64(r.merge); step++ {
		if total.get(step) == nil {
			continue
		}
		p.Seen = true
		seconds += n.covered(total.start(step), total.start(step+1))
		p.Ready = 0
		if s == nil {
			continue
		}
		values := s.Rings[r.ring].get(step)
		if values == nil {
			continue
		}
		addValues(&sums, values)
		p.Ready, p.Oldest = float64(values[Ready]), max(p.Oldest, float64(values[Oldest]))
		if late == nil {
			late = make([]float32, len(values)-int(columns))
		}
		for i, count := range values[columns:] {
			late[i] += count
		}
	}

	if seconds > 0 {
		p.Pushed, p.Acked = sums[Pushed]/seconds, sums[Acked]/seconds
		p.Failed, p.Stalled = sums[Failed]/seconds, sums[Stalled]/seconds
	}
	if len(late) > 0 {
		p.P50, p.P99 = Quantile(0.5, late, h.cfg.Bounds), Quantile(0.99, late, h.cfg.Bounds)
	}
	return p
}

// sparkPoints is the number of points of a spark, one per minute.
const sparkPoints = 20

// Spark returns the ready jobs of a queue in the last minutes, nil if it had none.
func (h *History) Spark(namespace, name string) []float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, series := h.find(namespace, name)
	if series == nil {
		return nil
	}
	r := &series.Rings[1]
	list, some := make([]float64, sparkPoints), false
	last := r.number(n.at)
	for i := range list {
		if values := r.get(last - sparkPoints + 1 + int64(i)); values != nil {
			list[i] = float64(values[Ready])
			some = some || values[Ready] > 0
		}
	}
	if !some {
		return nil
	}
	return list
}

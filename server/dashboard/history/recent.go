package history

import (
	"time"

	"github.com/dulymq/duly/contract"
)

// Recent is what the history knows of a queue at the last look.
type Recent struct {
	// Rates are per second, over the last minute.
	Rates Rates `json:"-"`
	// Waiting is since when the queue has ready jobs and no delivery. Full is since when its leases are at their limit.
	// Paused is since when it is paused. They are zero otherwise.
	Waiting, Full, Paused time.Time
	// Died and Dropped are when the dead and the dropped jobs last rose, zero if the history did not see it.
	Died, Dropped time.Time
}

// Rates are events per second.
type Rates struct {
	// Known is set if the history covers some time.
	Known           bool
	In, Out, Failed float64
}

// note updates the times of a queue. The counters of the last look are still those of q.
func (q *queue) note(look *contract.QueueStats, now time.Time) {
	s, t, r := &look.Stats, look.Throttle, &q.Recent
	was := q.counters
	if s.Sizes.Ready == 0 || s.Counters.Delivered != was.Delivered {
		r.Waiting = time.Time{}
	}
	begin(&r.Waiting, s.Sizes.Ready > 0, now)
	begin(&r.Full, t.MaxLeased > 0 && s.Sizes.Leased >= int64(t.MaxLeased), now)
	begin(&r.Paused, t.Paused, now)
	if s.Counters.Dead > was.Dead {
		r.Died = now
	}
	if s.Counters.Dropped > was.Dropped {
		r.Dropped = now
	}
}

// begin sets the time at which a condition began, and clears it when the condition ends.
func begin(since *time.Time, holds bool, now time.Time) {
	switch {
	case !holds:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// rates returns the events per second of the last minute. A nil series had none.
func (n *namespace) rates(s *series) Rates {
	minute := &n.Total.Rings[0]
	last := minute.number(n.at)
	var sums [columns]float64
	seconds := 0.0
	for step := last - int64(time.Minute/minute.step); step <= last; step++ {
		if minute.get(step) == nil {
			continue
		}
		seconds += n.covered(minute.start(step), minute.start(step+1))
		if s != nil {
			addValues(&sums, s.Rings[0].get(step))
		}
	}
	if seconds < 1 {
		return Rates{}
	}
	return Rates{Known: true, In: sums[Pushed] / seconds, Out: sums[Acked] / seconds, Failed: sums[Failed] / seconds}
}

// covered returns how many seconds of a step lie between the begin of the looks and the last one.
func (n *namespace) covered(from, to time.Time) float64 {
	if from.Before(n.begin) && n.begin.Before(to) {
		from = n.begin
	}
	if to.After(n.at) {
		to = n.at
	}
	return to.Sub(from).Seconds()
}

// addValues adds the events of a step.
func addValues(sums *[columns]float64, values []float32) {
	if values == nil {
		return
	}
	for c := Pushed; c < Ready; c++ {
		sums[c] += float64(values[c])
	}
}

// Queue returns what is known of a queue, nothing if no look has seen it.
func (h *History) Queue(namespace, name string) (r Recent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.namespaces[namespace]; n != nil && n.queues[name] != nil {
		return n.queues[name].Recent
	}
	return r
}

// Rates returns the rates of a whole namespace.
func (h *History) Rates(namespace string) Rates {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := h.namespaces[namespace]; n != nil && n.known {
		return n.rates(n.Total)
	}
	return Rates{}
}

// Sum returns the events of a queue in a time until now, at most half an hour.
func (h *History) Sum(namespace, name string, c Column, within time.Duration) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, series := h.find(namespace, name)
	if series == nil {
		return 0
	}
	r, sum := &series.Rings[0], 0.0
	last := r.number(n.at)
	for step := last - int64(within/r.step) + 1; step <= last; step++ {
		if values := r.get(step); values != nil {
			sum += float64(values[c])
		}
	}
	return sum
}

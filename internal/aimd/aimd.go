package aimd

import "time"

const (
	slowFactor   = 3
	raiseFactor  = 2
	halvePause   = time.Second
	learnShare   = 4 // the usual latency changes by a quarter of the difference
	unknownTook  = 100 * time.Millisecond
	aloneSamples = 3 // number of calls from which a window at a limit of 1 is evaluated
	queueShare   = 4 // a call that is a quarter slower than usual counts as queued by the other party
)

// Limiter is an adaptive limit. Create one with [New].
type Limiter struct {
	limit, max int
	goods      int // number of good calls since the limit changed
	halvedAt   time.Duration
	halved     bool // whether halvedAt is set
	usual      time.Duration
	mean       time.Duration // mean latency of the last window
	throughput float64       // throughput of the last full window
	window     window
}

// New returns a limiter that starts at start and never exceeds most.
func New(start, most int) Limiter {
	l := Limiter{limit: start}
	l.Bound(most)
	return l
}

// Limit returns the number of calls that may be in flight.
func (l *Limiter) Limit() int { return l.limit }

// Usual returns the usual latency, or 0 while it is unknown.
func (l *Limiter) Usual() time.Duration { return l.usual }

// Known reports whether Rate is based on a measurement.
func (l *Limiter) Known() bool { return l.mean > 0 }

// Bound sets the highest limit, at least 1.
func (l *Limiter) Bound(most int) {
	l.max = max(most, 1)
	l.limit = min(max(l.limit, 1), l.max)
}

// Restart sets the limit to 1. The usual latency stays known.
func (l *Limiter) Restart() {
	l.limit, l.goods, l.throughput, l.window = 1, 0, 0, window{}
}

// Rate returns how many calls per second end if the given number is in flight. It uses the mean
// latency of the last window, or a guess if there is none.
func (l *Limiter) Rate(limit int) float64 {
	took := l.mean
	if took <= 0 {
		took = unknownTook
	}
	return float64(limit) / took.Seconds()
}

// Throughput returns how many good calls per second the other party can handle, or 0 if that is
// unknown. It is the rate of the last full window since a restart, provided that its calls took on
// average a quarter longer than usual: because faster calls only show how many calls were made. A
// window is full if nine in ten of its calls ended while the limit was reached.
func (l *Limiter) Throughput() float64 { return l.throughput }

// Good records a good call and its duration. full reports whether the limit was reached until the
// call ended.
func (l *Limiter) Good(now, took time.Duration, full bool) {
	// The window ended between two calls.
	if l.window.open && now-l.window.from > windowMost {
		l.closeWindow(now)
	}
	l.window.begin(now, l.limit == 1)
	l.window.add(now, took, full)
	if l.window.ended(now, l.usual == 0) {
		l.closeWindow(now)
	}

	// A slow call doesn't count towards a higher limit.
	if l.over(raiseFactor, took) {
		return
	}
	if l.goods++; l.goods >= l.limit && l.limit < l.max {
		l.limit++
		l.goods = 0
	}
}

// Bad records a bad call.
func (l *Limiter) Bad(now time.Duration) { l.halve(now) }

// over reports whether a latency is more than factor times the usual latency.
func (l *Limiter) over(factor, took time.Duration) bool { return l.usual > 0 && took > factor*l.usual }

func (l *Limiter) halve(now time.Duration) {
	// Calls that were in flight at a halving can't show the effect of the halving yet.
	if l.halved && now-l.halvedAt < halvePause {
		return
	}
	l.halved, l.halvedAt = true, now
	l.limit, l.goods = max(l.limit/2, 1), 0
}

// closeWindow evaluates a window and starts the next one.
func (l *Limiter) closeWindow(now time.Duration) {
	w := &l.window
	l.mean = w.mean()
	if lasted := w.last - w.from; lasted > 0 && w.full*10 >= w.count*9 {
		l.throughput = 0
		if l.usual > 0 && l.mean > l.usual+l.usual/queueShare {
			l.throughput = float64(w.count-1) / lasted.Seconds()
		}
	}
	decides := w.count >= windowSamples
	if p90 := w.p90(); decides || w.alone && w.count >= aloneSamples {
		if decides && l.over(slowFactor, p90) {
			l.halve(now)
		}
		switch {
		case l.usual == 0 && decides:
			l.usual = p90
		// At any other limit, the calls themselves may have made the window slower.
		case l.usual > 0 && (p90 < l.usual || w.alone):
			l.usual += (p90 - l.usual) / learnShare
		}
	}
	*w = window{}
}

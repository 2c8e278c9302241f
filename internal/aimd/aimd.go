package aimd

import "time"

const (
	slowFactor   = 3
	raiseFactor  = 2
	halvePause   = time.Second
	learnShare   = 4 // the usual latency moves by a quarter of the difference
	unknownTook  = 100 * time.Millisecond
	aloneSamples = 3 // are enough for learning at a limit of 1
	queueShare   = 4 // calls that take a quarter longer than usual wait for each other
)

// Limiter is an adaptive limit. Make one with [New].
type Limiter struct {
	limit, max int
	goods      int // since the limit changed
	halvedAt   time.Duration
	halved     bool // halvedAt means something
	usual      time.Duration
	mean       time.Duration // of the last window
	throughput float64       // of the last full window
	window     window
}

// New returns a limiter that begins at start and never exceeds most.
func New(start, most int) Limiter {
	l := Limiter{limit: start}
	l.Bound(most)
	return l
}

// Limit returns how many calls may be in flight.
func (l *Limiter) Limit() int { return l.limit }

// Usual returns the usual latency, and 0 while it is unknown.
func (l *Limiter) Usual() time.Duration { return l.usual }

// Known reports whether Rate is more than a guess.
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

// Rate returns how many calls per second end at a limit: by the mean latency of
// the last window, or a guess while that is unknown.
func (l *Limiter) Rate(limit int) float64 {
	took := l.mean
	if took <= 0 {
		took = unknownTook
	}
	return float64(limit) / took.Seconds()
}

// Throughput returns how many good calls per second the other party can take: how many
// ended in the last full window since a restart, if they took a quarter longer than
// usual on average. It returns 0 if that is unknown. A window is full if nine in ten of
// its calls ended at the limit. Other windows, and calls as fast as usual, say how many
// calls there were.
func (l *Limiter) Throughput() float64 { return l.throughput }

// Good notes a good call that took so long. full reports whether as many calls as
// the limit says were in flight until it ended.
func (l *Limiter) Good(now, took time.Duration, full bool) {
	if l.window.open && now-l.window.from > windowMost { // it ended between two calls
		l.closeWindow(now)
	}
	l.window.begin(now, l.limit == 1)
	l.window.add(now, took, full)
	if l.window.ended(now, l.usual == 0) {
		l.closeWindow(now)
	}

	if l.over(raiseFactor, took) {
		return
	}
	if l.goods++; l.goods >= l.limit && l.limit < l.max {
		l.limit++
		l.goods = 0
	}
}

// Bad notes a bad call.
func (l *Limiter) Bad(now time.Duration) { l.halve(now) }

// over reports whether a latency is more than so many times the usual one.
func (l *Limiter) over(factor, took time.Duration) bool { return l.usual > 0 && took > factor*l.usual }

func (l *Limiter) halve(now time.Duration) {
	if l.halved && now-l.halvedAt < halvePause {
		return
	}
	l.halved, l.halvedAt = true, now
	l.limit, l.goods = max(l.limit/2, 1), 0
}

// closeWindow learns from a window and begins the next one.
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
		case l.usual > 0 && (p90 < l.usual || w.alone):
			l.usual += (p90 - l.usual) / learnShare
		}
	}
	*w = window{}
}

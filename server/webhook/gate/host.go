package gate

import (
	"container/list"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/aimd"
	"github.com/dulymq/duly/server/webhook/outcome"
)

type state uint8

const (
	open state = iota
	closed
	probing
)

// host is the gate of one host. Gates.mu guards it.
type host struct {
	name    string
	element *list.Element // element in Gates.recent
	limiter aimd.Limiter
	rate    duly.Rate
	bucket  contract.Bucket

	inFlight int
	lastEnd  time.Duration // time at which the last try ended

	state   state
	until   time.Duration // time at which the closure ends
	length  time.Duration // length of the last closure without Retry-After; 0 after a good probe
	epoch   uint64        // number of closures so far
	probe   *Permit
	history tryHistory

	// line is the number of jobs that come before a new one. It decreases at the rate of answers. A
	// closure starts a new line, which every job that was held back joins once.
	line   float64
	lineAt time.Duration

	held     int           // number of jobs that wait for their turn
	lastTurn time.Duration // the latest of the turns of these jobs
}

// admits reports whether the state, the limit, the rate and the line permit one
// more try.
func (h *host) admits(now time.Duration, returning bool) bool {
	// The rate of the target holds for every try, also for a probe.
	h.bucket = h.bucket.Fill(h.rate, now.Milliseconds())
	if h.rate.Limited() && h.bucket.Free(h.rate) < 1 {
		return false
	}
	if h.state != open {
		// A single try decides whether the host answers again.
		return now >= h.until && h.probe == nil
	}
	if h.inFlight >= h.limiter.Limit() {
		return false
	}
	// A new job must not overtake the jobs of the line.
	return returning || h.line < 1 || !h.isReserved(now)
}

// isReserved reports whether the free place is kept for a job of the line. Such a job comes back
// only about once per answer, so new jobs would take every free place first.
func (h *host) isReserved(now time.Duration) bool {
	// An idle host is free once a job of the line had the time to come back.
	if h.inFlight == 0 {
		return now-h.lastEnd < h.interval()
	}
	return h.inFlight >= h.limiter.Limit()-1
}

// interval returns the time between two answers of the host at its limit.
func (h *host) interval() time.Duration {
	return time.Duration(float64(time.Second) / h.answerRate())
}

// answerRate returns the tries per second that end at the host. For a closed gate, it
// assumes StartLimit, because the limit of 1 rises within a few answers.
func (h *host) answerRate() float64 {
	limit := h.limiter.Limit()
	// A closed gate has the limit 1, which says nothing about the host's rate.
	if h.state != open {
		limit = max(limit, StartLimit)
	}
	rate := h.limiter.Rate(limit)

	// At the limit, the measured throughput is the better estimate, because a rising limit changes
	// the latency only one window later.
	if got := h.limiter.Throughput(); h.line >= 1 && got > 0 {
		rate = min(rate, got)
	}
	// The target's configured rate may be lower than the rate that the host can handle.
	if h.rate.Limited() {
		rate = min(rate, h.rate.PerSecond)
	}
	return rate
}

// drainLine shortens the line by the answers of the host since the last call.
func (h *host) drainLine(now time.Duration) {
	// While the gate is closed no try is answered, so the line keeps its length.
	if h.state == open {
		h.line = max(h.line-(now-h.lineAt).Seconds()*h.answerRate(), 0)
	}
	h.lineAt = now
}

// heldBack returns the number of jobs that wait. A job that was deleted, or that another server has
// reserved, still counts until the latest turn.
func (h *host) heldBack(now time.Duration) int {
	// All jobs have had their turns. Jobs that did not come back no longer exist here.
	if now > h.lastTurn+MinHold {
		h.held = 0
	}
	return h.held
}

// holdBack adds a job to the line and returns the time until its turn.
func (h *host) holdBack(now time.Duration) time.Duration {
	// The bound comes before the conversion, which could overflow.
	turn := time.Duration(min(h.line/h.answerRate(), MaxHold.Seconds()) * float64(time.Second))
	if h.state == open && !h.limiter.Known() {
		turn = min(turn, GuessedHold) // after that time, the rate is known better
	}
	h.line++

	wait := max(h.opensAt(now)-now+turn, MinHold)
	h.held++
	h.lastTurn = max(h.lastTurn, now+wait)
	return wait
}

// opensAt returns the time at which the gate can open. While the gate probes, that is the end of
// the next closure, because after a failed probe the job would otherwise come back too early.
func (h *host) opensAt(now time.Duration) time.Duration {
	switch {
	case h.state == closed:
		return max(h.until, now)
	case h.state == probing:
		return now + h.nextClosure()
	}
	return now
}

// nextClosure returns the length of the next closure without Retry-After.
func (h *host) nextClosure() time.Duration {
	return min(max(2*h.length, FirstClosure), LongestClosure)
}

// finish records the end of a try, and opens or closes the gate.
func (h *host) finish(p *Permit, r Result, now time.Duration) (change Change, changed bool) {
	// The next probe may begin, whatever the result of this one is.
	if p.probe && h.probe == p {
		h.probe = nil
	}
	// A try of an earlier epoch says nothing about the host's present state. Its Retry-After is
	// still valid.
	stale := p.epoch != h.epoch
	switch {
	case r.Closes && (r.CloseFor != nil || !stale):
		return h.close(now, r.CloseFor)
	case r.Health == outcome.Unknown || stale:
		return Change{}, false
	}

	// The result of a probe decides alone, because the history is empty after a closure.
	good := r.Health == outcome.Good
	if p.probe {
		if good {
			return h.open(), true
		}
		return h.close(now, nil)
	}
	// One bad try says little, so the history of tries decides.
	h.history.add(now, p.start, good)
	if good {
		guessed := !h.limiter.Known()
		h.limiter.Good(now, now-p.start, h.inFlight+1 >= h.limiter.Limit())
		if guessed && h.limiter.Known() {
			h.line = 0 // jobs have joined the line once per GuessedHold, and come back
		}
		return Change{}, false
	}
	h.limiter.Bad(now)
	if h.history.failing(now) {
		return h.close(now, nil)
	}
	return Change{}, false
}

// close closes the gate for a length; nil: for the next closure. It never makes a
// closure shorter.
func (h *host) close(now time.Duration, length *time.Duration) (Change, bool) {
	if h.state == closed && now < h.until {
		// A receiver may ask for more time, but never for less.
		if length != nil {
			h.until = max(h.until, now+*length)
		}
		return Change{}, false
	}

	var d time.Duration
	if length != nil {
		d = *length
	} else {
		h.length = h.nextClosure()
		d = h.length
	}
	h.state, h.until, h.probe = closed, now+d, nil
	// Tries in flight began before the closure, so they must neither open nor close the gate.
	h.epoch++
	h.history, h.line = tryHistory{}, 0
	h.limiter.Restart()
	return Change{Host: h.name, For: d}, true
}

// open opens the gate after a good probe.
func (h *host) open() Change {
	h.state, h.length = open, 0
	h.history = tryHistory{}
	return Change{Host: h.name, Open: true}
}

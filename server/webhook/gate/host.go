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
	element *list.Element // in Gates.recent
	limiter aimd.Limiter
	rate    duly.Rate
	bucket  contract.Bucket

	inFlight int
	lastEnd  time.Duration // the end of the last try

	state   state
	until   time.Duration // the end of the closure
	length  time.Duration // of the last closure without Retry-After; 0 after a good probe
	epoch   uint64        // counts the closures
	probe   *Permit
	history tryHistory

	// line is the number of jobs before a new one. The rate shortens it. A closure
	// starts a new line, which every job that was held back joins once.
	line   float64
	lineAt time.Duration

	held     int           // the jobs that wait for their turn
	lastTurn time.Duration // the latest of their turns
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
		// One try decides whether the host answers again.
		return now >= h.until && h.probe == nil
	}
	if h.inFlight >= h.limiter.Limit() {
		return false
	}
	// A new job must not overtake those of the line.
	return returning || h.line < 1 || !h.isReserved(now)
}

// isReserved reports whether the free place is for a job of the line. Such a job
// comes back about once per answer, and new jobs would take every free place before
// it.
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
	// A closed gate has the limit 1, which says nothing about the host.
	if h.state != open {
		limit = max(limit, StartLimit)
	}
	rate := h.limiter.Rate(limit)

	// At the limit, the throughput is the better estimate: a rising limit changes the
	// latency a window later.
	if got := h.limiter.Throughput(); h.line >= 1 && got > 0 {
		rate = min(rate, got)
	}
	// The target's own rate may be lower than what the host can do.
	if h.rate.Limited() {
		rate = min(rate, h.rate.PerSecond)
	}
	return rate
}

// drainLine shortens the line by the answers of the host since the last call.
func (h *host) drainLine(now time.Duration) {
	// Nothing is answered while the gate is closed, so the line keeps its length.
	if h.state == open {
		h.line = max(h.line-(now-h.lineAt).Seconds()*h.answerRate(), 0)
	}
	h.lineAt = now
}

// heldBack returns the number of jobs that wait. A job that was deleted, or that
// another server has reserved, counts until the latest turn.
func (h *host) heldBack(now time.Duration) int {
	// All jobs have had their turns, so those that did not come are gone.
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
		turn = min(turn, GuessedHold) // the rate is better known then
	}
	h.line++

	wait := max(h.opensAt(now)-now+turn, MinHold)
	h.held++
	h.lastTurn = max(h.lastTurn, now+wait)
	return wait
}

// opensAt returns the time at which the gate can open. While it probes, that is the
// end of the next closure: if the probe fails, the job would come back too early.
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
	// The next probe may begin, whatever this one has found.
	if p.probe && h.probe == p {
		h.probe = nil
	}
	// A try of an earlier epoch says nothing about the host now. Its Retry-After is
	// still valid.
	stale := p.epoch != h.epoch
	switch {
	case r.Closes && (r.CloseFor != nil || !stale):
		return h.close(now, r.CloseFor)
	case r.Health == outcome.Unknown || stale:
		return Change{}, false
	}

	// A probe decides alone. The history has nothing after a closure.
	good := r.Health == outcome.Good
	if p.probe {
		if good {
			return h.open(), true
		}
		return h.close(now, nil)
	}
	// One bad try says little, so the history decides.
	h.history.add(now, p.start, good)
	if good {
		guessed := !h.limiter.Known()
		h.limiter.Good(now, now-p.start, h.inFlight+1 >= h.limiter.Limit())
		if guessed && h.limiter.Known() {
			h.line = 0 // jobs have joined it once per GuessedHold, and come back
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
	// Tries in flight began before the closure, and must not open or close the gate.
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

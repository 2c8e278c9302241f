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
	place   *list.Element // in Gates.recent
	limiter aimd.Limiter
	rate    duly.Rate
	bucket  contract.Bucket

	inFlight int
	ended    time.Duration // when the last try ended

	state  state
	until  time.Duration // the end of the closure
	length time.Duration // of the last closure without Retry-After; 0 after a good probe
	epoch  uint64        // counts the closures
	probe  *Pass
	record record

	// line counts the held jobs that are before a new one. The rate shortens it,
	// and a closure begins a new one, which every held job joins once.
	line   float64
	lineAt time.Duration

	held     int           // jobs that wait for their turn
	lastTurn time.Duration // of all of them
}

// admits reports whether the state, the limit, the rate and the line let one
// more try through.
func (h *host) admits(now time.Duration, returning bool) bool {
	h.bucket = h.bucket.Fill(h.rate, now.Milliseconds())
	if h.rate.Limited() && h.bucket.Free(h.rate) < 1 {
		return false
	}
	if h.state != open {
		return now >= h.until && h.probe == nil
	}
	if h.inFlight >= h.limiter.Limit() {
		return false
	}
	return returning || h.line < 1 || !h.keptFree(now)
}

// keptFree reports whether the place that is free is for a job of the line. Such
// a job comes about once in the time of one answer, and a new job would take
// every free place before it.
func (h *host) keptFree(now time.Duration) bool {
	if h.inFlight == 0 {
		return now-h.ended < h.interval()
	}
	return h.inFlight >= h.limiter.Limit()-1
}

// interval is the time between two answers of the host at its limit.
func (h *host) interval() time.Duration {
	return time.Duration(float64(time.Second) / h.answers())
}

// answers is how many tries per second end at the host. A closed gate opens with
// a limit of 1, which rises within a few answers.
func (h *host) answers() float64 {
	limit := h.limiter.Limit()
	if h.state != open {
		limit = max(limit, StartLimit)
	}
	rate := h.limiter.Rate(limit)
	// At the limit, what the host answers in fact is the better guess: a limit that
	// rises shows in the latency a window later.
	if got := h.limiter.Throughput(); h.line >= 1 && got > 0 {
		rate = min(rate, got)
	}
	if h.rate.Limited() {
		rate = min(rate, h.rate.PerSecond)
	}
	return rate
}

// drainLine shortens the line by what the host has answered since the last call.
func (h *host) drainLine(now time.Duration) {
	if h.state == open {
		h.line = max(h.line-(now-h.lineAt).Seconds()*h.answers(), 0)
	}
	h.lineAt = now
}

// heldBack returns how many jobs wait. Jobs that were deleted, or that another
// server has reserved, count until the last turn has come.
func (h *host) heldBack(now time.Duration) int {
	if now > h.lastTurn+ShortestHold {
		h.held = 0
	}
	return h.held
}

// hold puts a job at the end of the line and returns the time until its turn.
func (h *host) hold(now time.Duration) time.Duration {
	turn := time.Duration(min(h.line/h.answers(), LongestHold.Seconds()) * float64(time.Second))
	if h.state == open && !h.limiter.Known() {
		turn = min(turn, GuessedHold) // the first answers say more
	}
	h.line++
	wait := max(h.opens(now)-now+turn, ShortestHold)
	h.held++
	h.lastTurn = max(h.lastTurn, now+wait)
	return wait
}

// opens is when the gate can open. While it probes, the job waits as if the
// probe fails: else it would come back during the next closure.
func (h *host) opens(now time.Duration) time.Duration {
	switch {
	case h.state == closed:
		return max(h.until, now)
	case h.state == probing:
		return now + h.nextClosure()
	}
	return now
}

func (h *host) nextClosure() time.Duration {
	return min(max(2*h.length, FirstClosure), LongestClosure)
}

// settle notes the end of a try.
func (h *host) settle(p *Pass, r Result, now time.Duration) (change Change, changed bool) {
	if p.probe && h.probe == p {
		h.probe = nil
	}
	// A try of before the last closure says nothing about the host after it. What
	// it names is a time that still holds.
	stale := p.epoch != h.epoch
	switch {
	case r.Closes && (r.CloseFor != nil || !stale):
		return h.close(now, r.CloseFor)
	case r.Health == outcome.Unknown || stale:
		return Change{}, false
	}

	good := r.Health == outcome.Good
	if p.probe {
		if good {
			return h.open(), true
		}
		return h.close(now, nil)
	}
	h.record.add(now, p.began, good)
	if good {
		guessed := !h.limiter.Known()
		h.limiter.Good(now, now-p.began, h.inFlight+1 >= h.limiter.Limit())
		if guessed && h.limiter.Known() {
			h.line = 0 // jobs joined it each GuessedHold, and come back once more
		}
		return Change{}, false
	}
	h.limiter.Bad(now)
	if h.record.failing(now) {
		return h.close(now, nil)
	}
	return Change{}, false
}

// close closes the gate for a time, or for its own. It makes no closure shorter.
func (h *host) close(now time.Duration, length *time.Duration) (Change, bool) {
	if h.state == closed && now < h.until {
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
	h.epoch++
	h.record, h.line = record{}, 0
	h.limiter.Restart()
	return Change{Host: h.name, For: d}, true
}

// open opens the gate after a good probe.
func (h *host) open() Change {
	h.state, h.length = open, 0
	h.record = record{}
	return Change{Host: h.name, Open: true}
}

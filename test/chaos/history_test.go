package chaos

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// history combines the diaries of all clients.
type history struct {
	jobs   map[string]*pushed // jobs by ID
	lives  map[lifeKey]*life
	gaps   int // calls or processes that may have leased jobs and ended without an answer
	faults []string
	lines  []string // all diaries, for the report of a fault
}

// pushed is what the producer knows of a job.
type pushed struct {
	queue, sum string
	priority   int64
	delay      int64 // in µs
	sent       int64 // time of the first push, in µs
	answered   int64 // time of the answer, in µs; 0 if there was none
	repeated   bool
	acked      bool // an ack was sent, and may have been executed
	dead       bool
}

// lifeKey is a job from its push to its end. A push that is repeated after the end begins another
// life.
type lifeKey struct {
	queue  string
	number duly.Number
}

type life struct {
	id         string
	deliveries []*delivery // sorted in the engine's order by judge
}

type delivery struct {
	n             uint64
	sent, at      int64 // in µs
	due, now, end int64 // in ms
	priority      int64
	sum           string
	settles       []*try
	extends       []*try
}

// try is a settle or an extend.
type try struct {
	as       string
	lease    int64
	sent, at int64 // at is 0 if the call has no answer
	verdict  string
}

func (t *try) ok() bool    { return t.verdict == "ok" }
func (t *try) maybe() bool { return t.ok() || t.verdict == "" }

func newHistory() *history {
	return &history{jobs: map[string]*pushed{}, lives: map[lifeKey]*life{}}
}

func (h *history) fault(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// read adds the diary of one process.
func (h *history) read(lines []string) {
	h.lines = append(h.lines, lines...)
	for _, line := range lines {
		f := fields(strings.Fields(line))
		switch f.text(0) {
		case "p":
			h.readPush(f)
		case "P":
			if j := h.jobs[f.text(2)]; j != nil && j.answered == 0 {
				j.answered = f.number(1)
			}
		case "D":
			h.readDelivery(f)
		case "U":
			h.gaps++
		case "s", "x":
			h.readTry(f)
		case "S", "X":
			h.readVerdict(f)
		case "error":
			h.fault("%s", line)
		}
	}
}

// fields are the words of a diary line.
type fields []string

func (f fields) text(i int) string {
	if i >= len(f) {
		return ""
	}
	return f[i]
}

func (f fields) number(i int) int64 {
	n, err := strconv.ParseInt(f.text(i), 10, 64)
	if err != nil {
		return math.MinInt64 // no valid time or number of a test
	}
	return n
}

// story returns the lines about a job that a fault names.
func (h *history) story(fault string) (lines []string) {
	for key, l := range h.lives {
		number := key.number.String()
		if !strings.Contains(fault, l.id) && !strings.Contains(fault, number) {
			continue
		}
		for _, line := range h.lines {
			if strings.Contains(line, l.id) || strings.Contains(line, number) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	return nil
}

func (h *history) readPush(f fields) {
	if j := h.jobs[f.text(2)]; j != nil {
		j.repeated = true
		return
	}
	h.jobs[f.text(2)] = &pushed{queue: f.text(3), delay: f.number(4), priority: f.number(5), sum: f.text(6),
		sent: f.number(1)}
}

func (h *history) readDelivery(f fields) {
	parts, ok := contract.ParseReceipt(duly.Receipt(f.text(3)))
	if !ok {
		h.fault("a receipt is none: %v", f)
		return
	}
	key := lifeKey{parts.Queue, parts.Number}
	l := h.lives[key]
	if l == nil {
		l = &life{id: f.text(4)}
		h.lives[key] = l
	}
	if l.id != f.text(4) {
		h.fault("I10: the number of %s was given to %s: %v", l.id, f.text(4), f)
	}
	l.deliveries = append(l.deliveries, &delivery{
		n: parts.Delivery, sent: f.number(1), at: f.number(2), due: f.number(5), now: f.number(6), end: f.number(7),
		priority: f.number(8), sum: f.text(9),
	})
}

// find returns the delivery of a call: the one with its receipt and lease end, or the latest one
// with its receipt. If two primaries hand out a job in the same millisecond, the two deliveries
// differ only in their calls. find then prefers a delivery that awaits the call.
func (h *history) find(f fields, awaits func(*delivery) bool) *delivery {
	parts, ok := contract.ParseReceipt(duly.Receipt(f.text(2)))
	l := h.lives[lifeKey{parts.Queue, parts.Number}]
	if !ok || l == nil {
		h.fault("a receipt was never handed out: %v", f)
		return nil
	}

	var found *delivery
	for _, d := range slices.Backward(l.deliveries) {
		if d.n != parts.Delivery || f.text(4) != "" && d.end != f.number(4) {
			continue
		}
		if awaits(d) {
			return d
		}
		if found == nil {
			found = d
		}
	}
	if found == nil {
		h.fault("a delivery was never handed out: %v", f)
	}
	return found
}

// last returns the last try, or nil.
func last(tries []*try) *try {
	if len(tries) == 0 {
		return nil
	}
	return tries[len(tries)-1]
}

func (h *history) readTry(f fields) {
	extends := f.text(0) == "x"
	d := h.find(f, func(d *delivery) bool { return extends || len(d.settles) == 0 })
	switch {
	case d == nil:
	case extends:
		d.extends = append(d.extends, &try{sent: f.number(1), lease: f.number(3)})
	default:
		d.settles = append(d.settles, &try{sent: f.number(1), as: f.text(3)})
	}
}

// readVerdict stores the result of the last call of a delivery.
func (h *history) readVerdict(f fields) {
	tries := func(d *delivery) []*try {
		if f.text(0) == "X" {
			return d.extends
		}
		return d.settles
	}
	d := h.find(f, func(d *delivery) bool {
		t := last(tries(d))
		return t != nil && t.at == 0
	})
	if d == nil {
		return
	}

	t := last(tries(d))
	if t == nil {
		h.fault("answered and never sent: %v", f)
		return
	}
	t.at, t.verdict = f.number(1), f.text(3)
}

// until returns the earliest end of a delivery's lease in ms, as far as the diaries know.
func (l *life) until(d *delivery) int64 {
	end := d.end
	for _, twin := range l.twins(d) {
		for _, x := range twin.extends {
			switch to := (x.sent + x.lease) / 1000; {
			case !x.reached(d):
			case x.ok() && twin == d:
				end = to
			case x.maybe():
				end = min(end, to)
			}
		}
	}
	return end
}

// ended reports whether a settle that returns the job may have ended a delivery by this time.
func (l *life) ended(d *delivery, by int64) bool {
	return slices.ContainsFunc(l.twins(d), func(twin *delivery) bool {
		return slices.ContainsFunc(twin.settles, func(s *try) bool {
			return s.maybe() && s.reached(d) && s.sent <= by && (s.as == "nack" || s.as == "release")
		})
	})
}

// twins returns the deliveries with one receipt. A crash may undo a delivery without its consumer
// knowing, and the next one gets the same receipt.
func (l *life) twins(d *delivery) (list []*delivery) {
	for _, other := range l.deliveries {
		if other.n == d.n {
			list = append(list, other)
		}
	}
	return list
}

// reached reports whether a call with the delivery's receipt may have affected this delivery.
func (t *try) reached(d *delivery) bool { return t.at == 0 || t.at >= d.sent }

// finished returns an accepted settle after which the job is not delivered again.
func (d *delivery) finished() *try {
	for _, s := range d.settles {
		if s.ok() && (s.as == "ack" || s.as == "bury") {
			return s
		}
	}
	return nil
}

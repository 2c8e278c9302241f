package redisengine

import (
	"strings"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// handed is what a reserve has answered. Of plain jobs on their first try the
// records stand in one text, packed; else each stands for itself, with the
// rules, run states and lease ends beside it.
type handed struct {
	now, usual        int64 // the clock, and when a lease ends that has its usual length
	n                 int
	numbers           string // one behind the other
	packed            unpacker
	records           []rueidis.RedisMessage
	rules, runs, ends []rueidis.RedisMessage
}

func readHanded(r []rueidis.RedisMessage) handed {
	h := handed{now: integer(&r[1]), usual: integer(&r[2]), numbers: text(&r[3])}
	if len(r) > 5 {
		h.records, h.rules, h.runs, h.ends = elements(&r[4]), elements(&r[5]), elements(&r[6]), elements(&r[7])
	} else {
		h.packed.rest = text(&r[4])
		h.packed.array()
	}
	h.n = len(h.numbers) / numberSize
	return h
}

// cut takes off the first jobs, so many as have a record.
func (h *handed) cut(jobs int) handed {
	first := *h
	n := 0
	for ; n < h.n && jobs > 0; n++ {
		if _, _, there := h.next(n); there {
			jobs--
		}
	}
	first.n = n
	h.n -= n
	h.numbers = h.numbers[n*numberSize:]
	for _, list := range []*[]rueidis.RedisMessage{&h.records, &h.rules, &h.runs, &h.ends} {
		*list = (*list)[min(n, len(*list)):]
	}
	return first
}

// ending is when the first of the leases ends; 0 if there is none.
func (h *handed) ending() int64 {
	if h.n == 0 || len(h.ends) == 0 {
		return h.usual * int64(min(h.n, 1))
	}
	first := h.end(0)
	for i := range h.n {
		first = min(first, h.end(i))
	}
	return first
}

// next is the i-th job, read one after the other; there: it has a record.
func (h *handed) next(i int) (number, record string, there bool) {
	number = h.numbers[i*numberSize : (i+1)*numberSize]
	if h.records == nil {
		record, there = h.packed.textOrNo()
		return number, record, there
	}
	return number, text(&h.records[i]), !h.records[i].IsNil()
}

func (h *handed) end(i int) int64 {
	if len(h.ends) > 0 {
		return integer(&h.ends[i])
	}
	return h.usual
}

func textAt(list []rueidis.RedisMessage, i int) string {
	if i >= len(list) {
		return ""
	}
	return text(&list[i])
}

// writing puts the deliveries of one answer together. Their receipts share one
// piece of memory, and so do small bodies.
type writing struct {
	ref      duly.QueueRef
	shard    int
	now      int64
	left     int    // deliveries to come
	receipts []byte // with room for all
	bodies   []byte
}

// write fills in a delivery; false if the job can't be read.
func (w *writing) write(d *duly.Delivery, number, record, rules, run string, end int64) bool {
	w.left--
	if rules != "" || run != "" {
		var j stored
		if j.read(w.ref, number, record, rules, run) != nil || !j.whole() {
			return false
		}
		j.deliver(d)
		w.name(d, j.number, j.ended+1)
		if j.ownID != "" {
			d.ID = j.ownID
		}
	} else {
		pushed, due, headers, body, ok := readRecord(record)
		if !ok {
			return false
		}
		plainJob(&d.Job, w.ref)
		d.Headers, d.Body, d.Due = headers, w.body(body), clock.FromMilli(due)
		d.Attempt, d.PushedAt = 1, clock.FromMilli(pushed)
		w.name(d, duly.Number([]byte(number)), 1)
	}
	d.LeaseEnd, d.Now = clock.FromMilli(end), clock.FromMilli(w.now)
	if d.Due.After(d.Now) { // the clock has stepped back
		d.Now = d.Due
	}
	return true
}

// name gives a delivery its receipt, and as its ID the number that stands in
// it.
func (w *writing) name(d *duly.Delivery, n duly.Number, delivery uint64) {
	at := len(w.receipts)
	p := duly.ReceiptParts{Queue: w.ref.Name, Shard: w.shard, Number: n, Delivery: delivery}
	w.receipts = p.Append(w.receipts)
	d.Receipt = duly.Receipt(rueidis.BinaryString(w.receipts[at:]))
	_, rest, _ := strings.Cut(string(d.Receipt[len(w.ref.Name)+1:]), ":")
	d.ID, _, _ = strings.Cut(rest, ":")
}

// Bodies of up to sharedBody bytes are put into pieces of up to bodyPiece, so
// that who keeps one of them keeps no more than that.
const sharedBody, bodyPiece = 1 << 10, 16 << 10

func (w *writing) body(text string) []byte {
	if len(text) > sharedBody {
		return []byte(text)
	}
	if cap(w.bodies)-len(w.bodies) < len(text) {
		w.bodies = make([]byte, 0, min(bodyPiece, (w.left+1)*len(text)))
	}
	at := len(w.bodies)
	w.bodies = append(w.bodies, text...)
	return w.bodies[at:len(w.bodies):len(w.bodies)]
}

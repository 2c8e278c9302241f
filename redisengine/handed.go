package redisengine

import (
	"strings"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// handed is what a reserve has answered. The records stand in one text, packed.
// Where a job has options or a run state, the policies that the records name, the
// run states, the lease ends and the large bodies follow.
type handed struct {
	now, usual int64 // the clock, and when a lease ends that has its usual length
	n          int
	numbers    string // one behind the other
	packed     unpacker
	policies   map[byte]policy
	runs, ends []rueidis.RedisMessage
	bodies     map[int]string // by the places of their jobs in the answer
	first      int            // the place of the first job
}

func readHanded(r []rueidis.RedisMessage) handed {
	h := handed{now: integer(&r[1]), usual: integer(&r[2]), numbers: text(&r[3])}
	h.packed.rest = text(&r[4])
	h.packed.array()
	h.n = len(h.numbers) / numberSize
	if len(r) < 9 {
		return h
	}

	texts := elements(&r[5])
	h.policies = make(map[byte]policy, len(texts)/2)
	for i := 0; i+1 < len(texts); i += 2 {
		p, ok := readPolicy(text(&texts[i+1]))
		if !ok {
			p = barePolicy // Check names it
		}
		h.policies[byte(integer(&texts[i]))] = p
	}
	h.runs, h.ends = elements(&r[6]), elements(&r[7])
	large := elements(&r[8])
	for i := 0; i+1 < len(large); i += 2 {
		if h.bodies == nil {
			h.bodies = map[int]string{}
		}
		h.bodies[int(integer(&large[i]))-1] = text(&large[i+1])
	}
	return h
}

// cut takes off the first jobs, so many as have a record.
func (h *handed) cut(jobs int) handed {
	first := *h
	n := 0
	for rest := h.packed; n < h.n && jobs > 0; n++ {
		if _, there := rest.textOrNo(); there {
			jobs--
		}
		h.packed = rest
	}
	first.n = n
	h.n -= n
	h.first += n
	h.numbers = h.numbers[n*numberSize:]
	for _, list := range []*[]rueidis.RedisMessage{&h.runs, &h.ends} {
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
	record, there = h.packed.textOrNo()
	return number, record, there
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
func (w *writing) write(d *duly.Delivery, h *handed, i int, number, record string) bool {
	w.left--
	run := textAt(h.runs, i)
	if len(record) < recordHead {
		return false
	}
	if record[6] != placeBare || run != "" {
		var j stored
		p, known := h.policies[record[6]]
		if !known { // the shard has lost all policies
			p = barePolicy
		}
		if j.readWith(w.ref, number, record+h.bodies[h.first+i], p, run) != nil || !j.whole() {
			return false
		}
		j.deliver(d)
		w.name(d, j.number, j.ended+1)
		if j.ownID != "" {
			d.ID = j.ownID
		}
	} else if !w.bare(d, number, record) {
		return false
	}
	d.LeaseEnd, d.Now = clock.FromMilli(h.end(i)), clock.FromMilli(w.now)
	if d.Due.After(d.Now) { // the clock has stepped back
		d.Now = d.Due
	}
	return true
}

// bare fills in the first delivery of a bare job.
func (w *writing) bare(d *duly.Delivery, number, record string) bool {
	u := unpacker{rest: record}
	pushed := int64(u.number(6))
	due, flags := pushed, record[7]
	u.take(2)
	if flags&hasDue != 0 {
		due = int64(u.number(6))
	}
	plainJob(&d.Job, w.ref)
	ok := true
	if flags&hasHeaders != 0 {
		d.Headers, ok = unpackHeaders(strings.Clone(u.take(int(u.number(2)))))
	}
	d.Body, d.Due = w.body(u.rest), clock.FromMilli(due)
	d.Attempt, d.PushedAt = 1, clock.FromMilli(pushed)
	w.name(d, duly.Number([]byte(number)), 1)
	return ok && !u.bad && flags&^(hasDue|hasHeaders) == 0
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

package codec

import (
	"strings"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Deliveries is the answer of a reserve. The records are packed in one text. If a job has options
// or a run state, the answer also has the policies that the records name, the run states, the
// lease ends and the large bodies.
type Deliveries struct {
	Now, DefaultEnd int64 // the server's time, and the end of a lease of the default length
	N               int
	Numbers         string // numbers of all jobs, concatenated
	Misaligned      bool   // another program's entry has another size than a number, so no number can be read
	Packed          Unpacker
	policies        map[byte]policy
	Runs, Ends      []rueidis.RedisMessage
	bodies          map[int]string // large bodies by the index of their jobs in the answer
	First           int            // index of the first job
}

// ReadDeliveries reads the answer of the reserve script.
func ReadDeliveries(r []rueidis.RedisMessage) Deliveries {
	h := Deliveries{Now: Integer(&r[1]), DefaultEnd: Integer(&r[2]), Numbers: Text(&r[3])}
	h.Packed.Rest = Text(&r[4])
	h.N = h.Packed.Array()
	h.Misaligned = h.Packed.Bad || len(h.Numbers) != h.N*NumberSize
	// A short answer has only bare jobs, which need none of the following parts.
	if len(r) < 9 {
		return h
	}

	texts := Elements(&r[5])
	h.policies = make(map[byte]policy, len(texts)/2)
	for i := 0; i+1 < len(texts); i += 2 {
		p, ok := readPolicy(Text(&texts[i+1]))
		if !ok {
			// Check reports the damaged policy; the job is delivered with defaults.
			p = barePolicy
		}
		h.policies[byte(Integer(&texts[i]))] = p
	}
	h.Runs, h.Ends = Elements(&r[6]), Elements(&r[7])
	large := Elements(&r[8])
	for i := 0; i+1 < len(large); i += 2 {
		if h.bodies == nil {
			h.bodies = map[int]string{}
		}
		h.bodies[int(Integer(&large[i]))-1] = Text(&large[i+1])
	}
	return h
}

// Cut removes and returns the first jobs, up to this number of jobs with a record.
func (h *Deliveries) Cut(jobs int) Deliveries {
	first := *h
	n := 0
	for rest := h.Packed; n < h.N && jobs > 0; n++ {
		// A number whose record is lost is skipped, and does not count as a job.
		if _, there := rest.textOrNo(); there {
			jobs--
		}
		h.Packed = rest
	}
	first.N = n
	h.N -= n
	h.First += n
	h.Numbers = h.Numbers[n*NumberSize:]
	for _, list := range []*[]rueidis.RedisMessage{&h.Runs, &h.Ends} {
		*list = (*list)[min(n, len(*list)):]
	}
	return first
}

// FirstEnd returns the end of the first lease, or 0 if there is none.
func (h *Deliveries) FirstEnd() int64 {
	if h.N == 0 || len(h.Ends) == 0 {
		return h.DefaultEnd * int64(min(h.N, 1))
	}
	first := h.end(0)
	for i := range h.N {
		first = min(first, h.end(i))
	}
	return first
}

// Next reads the i-th job; jobs are read in order. there reports whether the job has a record.
func (h *Deliveries) Next(i int) (number, record string, there bool) {
	number = h.Numbers[i*NumberSize : (i+1)*NumberSize]
	record, there = h.Packed.textOrNo()
	return number, record, there
}

func (h *Deliveries) end(i int) int64 {
	if len(h.Ends) > 0 {
		return Integer(&h.Ends[i])
	}
	return h.DefaultEnd
}

func textAt(list []rueidis.RedisMessage, i int) string {
	if i >= len(list) {
		return ""
	}
	return Text(&list[i])
}

// DeliveryWriter builds the deliveries of one answer. Their receipts share one buffer, and so do
// small bodies.
type DeliveryWriter struct {
	Ref      duly.QueueRef
	Shard    int
	Now      int64
	Left     int    // number of deliveries still to write
	Receipts []byte // a buffer with capacity for all receipts
	bodies   []byte
}

// Write fills in a delivery. It returns false if the job can't be read.
func (w *DeliveryWriter) Write(d *duly.Delivery, h *Deliveries, i int, number, record string) bool {
	w.Left--
	run := textAt(h.Runs, i)
	if len(record) < recordHead {
		return false
	}

	if record[6] != PlaceBare || run != "" {
		var j Job
		p, known := h.policies[record[6]]
		// The shard has lost its policies.
		if !known {
			p = barePolicy
		}
		if j.readWith(w.Ref, number, record+h.bodies[h.First+i], p, run) != nil || !j.whole() {
			return false
		}
		j.deliver(d)
		// The receipt has the delivery's count, so an older receipt fails.
		w.name(d, j.Number, j.ended+1)
		if j.OwnID != "" {
			d.ID = j.OwnID
		}
	} else if !w.bare(d, number, record) {
		return false
	}

	d.LeaseEnd, d.Now = clock.FromMilli(h.end(i)), clock.FromMilli(w.Now)
	// The server's clock went back, and a job must not seem early.
	if d.Due.After(d.Now) {
		d.Now = d.Due
	}

	return true
}

// bare fills in the first delivery of a bare job.
func (w *DeliveryWriter) bare(d *duly.Delivery, number, record string) bool {
	u := Unpacker{Rest: record}
	pushed := int64(u.number(6))
	due, flags := pushed, record[7]
	u.take(2)
	if flags&HasDue != 0 {
		due = int64(u.number(6))
	}
	setDefaults(&d.Job, w.Ref)
	ok := true
	if flags&hasHeaders != 0 {
		// The clone lets the large answer be collected while a handler keeps the headers.
		ok = unpackHeaders(strings.Clone(u.take(int(u.number(2)))), &d.Job)
	}
	d.Body, d.Due = w.body(u.Rest), clock.FromMilli(due)
	d.Attempt, d.PushedAt = 1, clock.FromMilli(pushed)
	w.name(d, duly.Number([]byte(number)), 1)
	// Another flag means that the record is damaged, because a bare job has no other parts.
	return ok && !u.Bad && flags&^(HasDue|hasHeaders) == 0
}

// name sets a delivery's receipt, and its ID from the number in the receipt.
func (w *DeliveryWriter) name(d *duly.Delivery, n duly.Number, delivery uint64) {
	at := len(w.Receipts)
	p := contract.ReceiptParts{Queue: w.Ref.Name, Shard: w.Shard, Number: n, Delivery: delivery}
	w.Receipts = p.Append(w.Receipts)
	d.Receipt = duly.Receipt(rueidis.BinaryString(w.Receipts[at:]))
	// The ID is a part of the receipt, so it needs no memory of its own.
	_, rest, _ := strings.Cut(string(d.Receipt[len(w.Ref.Name)+1:]), ":")
	d.ID, _, _ = strings.Cut(rest, ":")
}

// Bodies of up to sharedBody bytes share buffers of up to bodyPiece bytes. A caller that keeps
// one body keeps no more than one buffer in memory.
const sharedBody, bodyPiece = 1 << 10, 16 << 10

func (w *DeliveryWriter) body(text string) []byte {
	if len(text) > sharedBody {
		return []byte(text)
	}
	// The buffer holds the remaining bodies if they are as long as this one.
	if cap(w.bodies)-len(w.bodies) < len(text) {
		w.bodies = make([]byte, 0, min(bodyPiece, (w.Left+1)*len(text)))
	}
	at := len(w.bodies)
	w.bodies = append(w.bodies, text...)
	// The capacity is cut, so appending to one body can't overwrite the next.
	return w.bodies[at:len(w.bodies):len(w.bodies)]
}

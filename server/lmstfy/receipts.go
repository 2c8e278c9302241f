package lmstfy

import (
	"strings"
	"sync"

	"github.com/dulymq/duly"
)

// receipts remembers the receipts of jobs that this server has handed out. An ack
// names its job alone; with the receipt it ends the delivery, as any other ack does,
// and costs the engine less than a Delete. A receipt that was forgotten, or that
// another server has, does no harm: the job is then deleted by its ID.
//
// The zero value is ready for use.
type receipts struct {
	mu sync.Mutex
	// Jobs whose acks come late, or never, age: when young is full it takes the place
	// of aged.
	young, aged map[string]duly.Receipt
}

// mostYoung bounds the receipts in each of the two maps. With usual names both take
// some 6 MB.
const mostYoung = 16 << 10

// put remembers the receipt of a delivery.
func (r *receipts) put(d *duly.Delivery) {
	key := receiptKey(duly.QueueRef{Namespace: d.Namespace, Name: d.Queue}, d.ID)
	receipt := duly.Receipt(strings.Clone(string(d.Receipt))) // it may be a part of a whole batch

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= mostYoung {
		r.young, r.aged = map[string]duly.Receipt{}, r.young
	}
	r.young[key] = receipt
}

// take returns the receipt of a job's last delivery and forgets it.
func (r *receipts) take(ref duly.QueueRef, id string) (receipt duly.Receipt, ok bool) {
	key := receiptKey(ref, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if receipt, ok = r.young[key]; !ok {
		receipt, ok = r.aged[key]
	}
	delete(r.young, key)
	delete(r.aged, key)
	return receipt, ok
}

// receiptKey has a slash between its parts, which no name has.
func receiptKey(ref duly.QueueRef, id string) string {
	return duly.NamespaceOr(ref.Namespace) + "/" + ref.Name + "/" + id
}

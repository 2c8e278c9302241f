package lmstfy

import (
	"strings"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// receipts caches the receipts of jobs that this server has delivered. An ack of lmstfy names only
// its job. With the receipt it ends the delivery like any other ack, which costs the engine less
// than a Delete. If the receipt was evicted, or another server has it, the ack deletes the job by
// its ID.
//
// The zero value is ready for use.
type receipts struct {
	mu sync.Mutex
	// Receipts go into recent. When recent is full, it replaces old, so receipts whose acks come
	// late or never are dropped.
	recent, old map[string]duly.Receipt
}

// maxReceipts bounds the receipts in each of the two maps. With usual names both take about
// 6 MB.
const maxReceipts = 16 << 10

// put stores the receipt of a delivery.
func (r *receipts) put(d *duly.Delivery) {
	key := receiptKey(duly.QueueRef{Namespace: d.Namespace, Name: d.Queue}, d.ID)
	// The receipt may be a part of a larger text, which the clone does not keep.
	receipt := duly.Receipt(strings.Clone(string(d.Receipt)))

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.recent == nil || len(r.recent) >= maxReceipts {
		r.recent, r.old = map[string]duly.Receipt{}, r.recent
	}
	r.recent[key] = receipt
}

// take returns and deletes the receipt of a job's last delivery.
func (r *receipts) take(ref duly.QueueRef, id string) (receipt duly.Receipt, ok bool) {
	key := receiptKey(ref, id)
	r.mu.Lock()
	defer r.mu.Unlock()

	if receipt, ok = r.recent[key]; !ok {
		receipt, ok = r.old[key]
	}
	// A receipt is valid for one settle, so it is removed from both maps.
	delete(r.recent, key)
	delete(r.old, key)
	return receipt, ok
}

// receiptKey separates its parts by a slash, which no name has.
func receiptKey(ref duly.QueueRef, id string) string {
	return contract.NamespaceOr(ref.Namespace) + "/" + ref.Name + "/" + id
}

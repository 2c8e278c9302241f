package lmstfy

import (
	"fmt"
	"testing"

	"github.com/dulymq/duly"
)

func delivery(i int) *duly.Delivery {
	d := &duly.Delivery{Receipt: duly.Receipt(fmt.Sprint("receipt-", i))}
	d.Namespace, d.Queue, d.ID = "ns", "q", fmt.Sprint("job-", i)
	return d
}

func TestReceiptIsTakenOnce(t *testing.T) {
	t.Parallel()
	var r receipts

	q := duly.QueueRef{Namespace: "ns", Name: "q"}
	if got, ok := r.take(q, "job-1"); ok {
		t.Errorf("an unknown job has the receipt %q", got)
	}
	r.put(delivery(1))
	again := delivery(1)
	again.Receipt = "later"
	r.put(again)
	if got, ok := r.take(duly.QueueRef{Namespace: "ns", Name: "other"}, "job-1"); ok {
		t.Errorf("a job of another queue has the receipt %q", got)
	}
	if got, ok := r.take(q, "job-1"); !ok || got != "later" {
		t.Errorf("the last receipt is %q, %t", got, ok)
	}
	if got, ok := r.take(q, "job-1"); ok {
		t.Errorf("a receipt was taken twice: %q", got)
	}
}

// The memory for receipts is bounded. The newest receipts are kept.
func TestReceiptsAreBounded(t *testing.T) {
	t.Parallel()
	var r receipts
	const last = 5 * maxReceipts
	for i := range last {
		r.put(delivery(i))
	}
	if n := len(r.recent) + len(r.old); n > 2*maxReceipts {
		t.Errorf("%d receipts are remembered, want at most %d", n, 2*maxReceipts)
	}
	for i := last - maxReceipts; i < last; i++ {
		if _, ok := r.take(duly.QueueRef{Namespace: "ns", Name: "q"}, fmt.Sprint("job-", i)); !ok {
			t.Fatalf("the receipt of job %d is forgotten", i)
		}
	}
	if n := len(r.recent); n != 0 {
		t.Errorf("%d receipts are left after their acks", n)
	}
}

package contract_test

import (
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C11.7: a receipt consists of queue, shard, number and delivery.
func TestReceiptIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, p := range []contract.ReceiptParts{
		{Queue: "q", Number: duly.NewNumber(), Delivery: 1},
		{Queue: "-a.b_c", Shard: 255, Number: duly.NewNumber(), Delivery: 1<<63 - 1},
		{Queue: strings.Repeat("q", duly.MaxName), Shard: 7, Number: duly.NewNumber(), Delivery: 12345},
	} {
		if got, ok := contract.ParseReceipt(p.Receipt()); !ok || got != p {
			t.Errorf("%q is read as %+v (%t)", p.Receipt(), got, ok)
		}
	}
	p := contract.ReceiptParts{Queue: "mail", Shard: 3, Delivery: 2}
	if got := p.Receipt(); got != "mail:3:00000000000000000000000000:2" {
		t.Errorf("the receipt is %q", got)
	}
}

// C4.36: a string that is not exactly a receipt is refused.
func TestParseReceiptRefusesInvalidText(t *testing.T) {
	t.Parallel()
	const number = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	for _, r := range []duly.Receipt{
		"", ":", "::", ":::", "q", "q:0", "q:0:" + number, "q:0:" + number + ":", "q:0:" + number + ":0", "q:0:" + number + ":01",
		"q:0:" + number + ":+1", "q:0:" + number + ":-1", "q:0:" + number + ": 1", "q:0:" + number + ":1 ", "q:0:" + number + ":1:1",
		"q:00:" + number + ":1", "q:-1:" + number + ":1", "q:x:" + number + ":1", ":0:" + number + ":1", "a/b:0:" + number + ":1",
		"_q:0:" + number + ":1", "q:0:8" + duly.Receipt(number[1:]) + ":1", "q:0:" + duly.Receipt(strings.ToLower(number)) + ":1",
		"q:0:" + number + ":9223372036854775808", "q:0:" + number + ":1\x00", "q:0:" + number + ":1\n",
		"q:256:" + number + ":1", "q:18446744073709551616:" + number + ":1",
		duly.Receipt(strings.Repeat("q", 1000)) + ":0:" + number + ":1", duly.Receipt(strings.Repeat(":", 100_000)),
	} {
		if p, ok := contract.ParseReceipt(r); ok || p != (contract.ReceiptParts{}) {
			t.Errorf("%.60q is read as %+v (%t)", string(r), p, ok)
		}
	}
}

// C1.12: the queue in a receipt must be a valid name of a queue.
func TestReceiptNamesAQueue(t *testing.T) {
	t.Parallel()
	for b := range 256 {
		for _, name := range []string{"", string([]byte{byte(b)}), "a" + string([]byte{byte(b)})} {
			r := duly.Receipt(name + ":0:01ARZ3NDEKTSV4RRFFQ69G5FAV:1")
			if _, ok := contract.ParseReceipt(r); ok != (contract.ValidateQueue(duly.Q(name)) == nil) {
				t.Errorf("%q is a receipt: %t", r, ok)
			}
		}
	}
}

func FuzzReceipt(f *testing.F) {
	f.Add("q:0:01ARZ3NDEKTSV4RRFFQ69G5FAV:1")
	f.Add("-a.b:255:7ZZZZZZZZZZZZZZZZZZZZZZZZZ:9223372036854775807")
	f.Add(":::")
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := contract.ParseReceipt(duly.Receipt(text))
		if ok && string(p.Receipt()) != text {
			t.Fatalf("%q is read as %+v, which is written %q", text, p, p.Receipt())
		}
		if !ok && p != (contract.ReceiptParts{}) {
			t.Fatalf("%q is refused and read as %+v", text, p)
		}
	})
}

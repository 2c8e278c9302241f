package contract

import (
	"math"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
)

// ReceiptParts are the parts of a receipt, which fence a delivery.
type ReceiptParts struct {
	Queue  string
	Shard  int
	Number duly.Number
	// Delivery is 1 + the number of ended deliveries of the job. For a message of a group
	// it is a random number that the engine drew in Reserve, 1 to 2⁶³−1.
	Delivery uint64
}

// Receipt returns the text "queue:shard:number:delivery".
func (p ReceiptParts) Receipt() duly.Receipt {
	var text [128]byte
	return duly.Receipt(p.Append(text[:0]))
}

// Append appends the text of the receipt.
func (p ReceiptParts) Append(b []byte) []byte {
	b = append(append(b, p.Queue...), ':')
	b = append(strconv.AppendInt(b, int64(p.Shard), 10), ':')
	b = append(p.Number.Append(b), ':')
	return strconv.AppendUint(b, p.Delivery, 10)
}

// ValidateReceipt returns [duly.ErrInvalid] for a string that cannot be decoded as a receipt.
// The error does not repeat the text, which may be a secret passed by mistake.
func ValidateReceipt(r duly.Receipt) error {
	var f BadFields
	if _, ok := ParseReceipt(r); !ok {
		f.Add("receipt", "cannot be decoded; pass the receipt of the delivery, queue:shard:number:delivery")
	}
	return f.Err()
}

// ParseReceipt parses a receipt. It returns false for every text that [ReceiptParts.Receipt] does
// not write. For such a string an engine must return [duly.ErrInvalid].
func ParseReceipt(r duly.Receipt) (p ReceiptParts, ok bool) {
	queue, rest, ok1 := strings.Cut(string(r), ":")
	shard, rest, ok2 := strings.Cut(rest, ":")
	number, delivery, ok3 := strings.Cut(rest, ":")
	// The length is bounded first, because the text may come from anywhere.
	if !ok1 || !ok2 || !ok3 || len(r) > 2*duly.MaxName+65 || !validQueue(queue) {
		return p, false
	}

	i, ok1 := parseCount(shard)
	n, ok2 := duly.ParseNumber(number)
	d, ok3 := parseCount(delivery)
	if !ok1 || !ok2 || !ok3 || i >= duly.MaxShards || d == 0 {
		return p, false
	}
	return ReceiptParts{Queue: queue, Shard: int(i), Number: n, Delivery: d}, true
}

// parseCount parses a number from 0 to 2⁶³−1. It accepts only the text that strconv writes for the
// number.
func parseCount(text string) (n uint64, ok bool) {
	// 19 digits cannot overflow a uint64.
	if len(text) == 0 || len(text) > 19 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for i := range len(text) {
		c := text[i] - '0'
		// The difference is unsigned, so it is also too large for a character below '0'.
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, n <= math.MaxInt64
}

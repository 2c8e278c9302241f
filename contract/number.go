package contract

import (
	"hash/crc32"
	"math"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
)

// ShardOf is the shard that a job with this ID lives in, in a queue of shards
// parts (a power of two): read from byte 11 of a ULID, from the CRC-32 (IEEE)
// of any other ID.
func ShardOf(id string, shards int) int {
	if n, ok := duly.ParseNumber(id); ok {
		return int(n.Part()) % shards
	}
	return int(crc32.ChecksumIEEE([]byte(id)) % uint32(shards))
}

// ShardPart is what shard i of so many enforces of a limit: all parts together
// are the limit. [duly.None] stays none.
func ShardPart(limit, shards, i int) int {
	if limit == duly.None {
		return duly.None
	}
	part := limit / shards
	if i < limit%shards {
		part++
	}
	return part
}

// ReceiptParts is what an engine reads from a receipt: the fence.
type ReceiptParts struct {
	Queue  string
	Shard  int
	Number duly.Number
	// Delivery is 1 + the deliveries of the job that have ended before; of a message
	// in a group, the random token that its Reserve drew (1 to 2⁶³−1).
	Delivery uint64
}

// Receipt writes the parts as "queue:shard:number:delivery".
func (p ReceiptParts) Receipt() duly.Receipt {
	return duly.Receipt(p.Append(make([]byte, 0, len(p.Queue)+36)))
}

// Append appends the text of the receipt.
func (p ReceiptParts) Append(b []byte) []byte {
	b = append(append(b, p.Queue...), ':')
	b = append(strconv.AppendInt(b, int64(p.Shard), 10), ':')
	b = append(p.Number.Append(b), ':')
	return strconv.AppendUint(b, p.Delivery, 10)
}

// ValidateReceipt returns [duly.ErrInvalid] for a text that cannot be decoded as a receipt.
// The error does not repeat the text, which may be a secret passed by mistake.
func ValidateReceipt(r duly.Receipt) error {
	var f BadFields
	if _, ok := ParseReceipt(r); !ok {
		f.Add("receipt", "cannot be decoded; pass the receipt of the delivery, queue:shard:number:delivery")
	}
	return f.Err()
}

// ParseReceipt reads a receipt. Anything but the exact text that Receipt writes is
// not one: ok is false, and an engine answers [duly.ErrInvalid].
func ParseReceipt(r duly.Receipt) (p ReceiptParts, ok bool) {
	queue, rest, ok1 := strings.Cut(string(r), ":")
	shard, rest, ok2 := strings.Cut(rest, ":")
	number, delivery, ok3 := strings.Cut(rest, ":")
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

// parseCount reads what strconv writes for a number from 0 to 2⁶³−1, and
// nothing else.
func parseCount(text string) (n uint64, ok bool) {
	if len(text) == 0 || len(text) > 19 || text[0] == '0' && len(text) > 1 {
		return 0, false
	}
	for i := range len(text) {
		c := text[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, n <= math.MaxInt64
}

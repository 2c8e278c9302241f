package duly

import (
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/dulymq/duly/internal/clock"
)

// Number is a job's number: a ULID (github.com/ulid/spec), 48 bits of
// milliseconds and 80 bits of which most are random. It is never a counter,
// for a counter starts again after a restored backup, and a receipt of before
// would then fit a job of after.
type Number [16]byte

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// crockfordValue maps a character to its value, 0xff for one outside the
// alphabet. Lower case and look-alikes are outside: one number, one text.
var crockfordValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range crockford {
		t[crockford[i]] = byte(i)
	}
	return t
}()

// numberText is the length of a number's text.
const numberText = 26

// String is the number as 26 characters of upper-case Crockford base 32.
func (n Number) String() string { return string(n.Append(make([]byte, 0, numberText))) }

// Append appends the text of the number.
func (n Number) Append(b []byte) []byte {
	var text [numberText]byte
	hi, lo := binary.BigEndian.Uint64(n[:8]), binary.BigEndian.Uint64(n[8:])
	for i := numberText - 1; i >= 0; i-- {
		text[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return append(b, text[:]...)
}

// ParseNumber reads the text form of a number; false for any other text.
func ParseNumber(text string) (n Number, ok bool) {
	if len(text) != numberText || text[0] > '7' {
		return n, false
	}
	var hi, lo uint64
	for i := range numberText {
		v := crockfordValue[text[i]]
		if v == 0xff {
			return Number{}, false
		}
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(v)
	}
	binary.BigEndian.PutUint64(n[:8], hi)
	binary.BigEndian.PutUint64(n[8:], lo)
	return n, true
}

// shardByte is the place of the byte that a job's shard is read from.
const shardByte = 11

// NewNumber makes a number that is greater than every one made before in this
// process, whoever asked, so that a process's pushes keep their order.
func NewNumber() Number { return numbers.next() }

// NewNumberIn makes a number as [NewNumber] does, of a job that lives in shard
// part modulo the number of shards. An engine uses it to store jobs together
// that were pushed together.
func NewNumberIn(part byte) Number {
	n := numbers.next()
	n[shardByte] = part
	return n
}

// keyByte returns the part for jobs of a key.
func keyByte(key string) byte { return byte(crc32.ChecksumIEEE([]byte(key))) }

// numbers belongs to the process and not to a client or an engine: the promise
// that numbers rise holds over all of them.
var numbers numberSource

type numberSource struct {
	mu   sync.Mutex
	ms   uint64
	seq  uint64 // the 40 bits behind the milliseconds
	pool [1024]byte
	left []byte
}

// next begins each millisecond at a random place of the 40 bits behind it and
// counts up from there; the 40 bits behind those are random every time.
func (s *numberSource) next() (n Number) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ms := uint64(clock.Milli(clock.System().Now())); ms > s.ms {
		var b [8]byte
		s.random(b[3:])
		s.ms, s.seq = ms, binary.BigEndian.Uint64(b[:])>>1 // half of the room is left to count
	} else {
		s.seq++
		if s.seq>>40 != 0 {
			s.ms, s.seq = s.ms+1, 0
		}
	}
	binary.BigEndian.PutUint64(n[:8], s.ms<<16|s.seq>>24)
	binary.BigEndian.PutUint32(n[7:11], uint32(s.seq))
	s.random(n[11:])
	return n
}

// random fills b from the kernel's source, read in larger pieces.
func (s *numberSource) random(b []byte) {
	if len(s.left) < len(b) {
		rand.Read(s.pool[:]) // never fails, see crypto/rand
		s.left = s.pool[:]
	}
	copy(b, s.left)
	s.left = s.left[len(b):]
}

// ShardOf is the shard that a job with this ID lives in, in a queue of shards
// parts (a power of two): read from byte 11 of a ULID, from the CRC-32 (IEEE)
// of any other ID.
func ShardOf(id string, shards int) int {
	if n, ok := ParseNumber(id); ok {
		return int(n[shardByte]) % shards
	}
	return int(crc32.ChecksumIEEE([]byte(id)) % uint32(shards))
}

// ShardPart is what shard i of so many enforces of a limit: all parts together
// are the limit. [None] stays none.
func ShardPart(limit, shards, i int) int {
	if limit == None {
		return None
	}
	part := limit / shards
	if i < limit%shards {
		part++
	}
	return part
}

// Receipt is the handle of exactly one delivery. It is opaque to users, and
// valid only in the namespace that it was handed out in.
type Receipt string

// ReceiptParts is what an engine reads from a receipt: the fence.
type ReceiptParts struct {
	Queue  string
	Shard  int
	Number Number
	// Delivery is 1 + the deliveries of the job that have ended before; of a message
	// in a group, the random token that its Reserve drew (1 to 2⁶³−1).
	Delivery uint64
}

// Receipt writes the parts as "queue:shard:number:delivery".
func (p ReceiptParts) Receipt() Receipt {
	return Receipt(p.Append(make([]byte, 0, len(p.Queue)+36)))
}

// Append appends the text of the receipt.
func (p ReceiptParts) Append(b []byte) []byte {
	b = append(append(b, p.Queue...), ':')
	b = append(strconv.AppendInt(b, int64(p.Shard), 10), ':')
	b = append(p.Number.Append(b), ':')
	return strconv.AppendUint(b, p.Delivery, 10)
}

// Validate returns [ErrInvalid] for a text that cannot be decoded as a receipt.
// The error does not repeat the text, which may be a secret passed by mistake.
func (r Receipt) Validate() error {
	var f BadFields
	if _, ok := r.Parts(); !ok {
		f.Add("receipt", "cannot be decoded; pass the receipt of the delivery, queue:shard:number:delivery")
	}
	return f.Err()
}

// Parts reads a receipt. Anything but the exact text that Receipt writes is
// not one: ok is false, and an engine answers [ErrInvalid].
func (r Receipt) Parts() (p ReceiptParts, ok bool) {
	queue, rest, ok1 := strings.Cut(string(r), ":")
	shard, rest, ok2 := strings.Cut(rest, ":")
	number, delivery, ok3 := strings.Cut(rest, ":")
	if !ok1 || !ok2 || !ok3 || len(r) > 2*MaxName+65 || !validQueue(queue) {
		return p, false
	}
	i, ok1 := parseCount(shard)
	n, ok2 := ParseNumber(number)
	d, ok3 := parseCount(delivery)
	if !ok1 || !ok2 || !ok3 || i >= MaxShards || d == 0 {
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

package duly

import (
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"sync"
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

// Part returns the byte that decides the shard, see [NewNumberIn].
func (n Number) Part() byte { return n[shardByte] }

// KeyPart returns the part for the jobs of an order key or a merge key.
func KeyPart(key string) byte { return byte(crc32.ChecksumIEEE([]byte(key))) }

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
	if ms := uint64(SystemClock().Now().UnixMilli()); ms > s.ms {
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

// Receipt is the handle of exactly one delivery. It is opaque to users, and
// valid only in the namespace that it was handed out in.
type Receipt string

// Position is the identifier of a message in the log of a topic, and its place there:
// a ULID whose bytes are the entry time in ms (6), the ordinal (5), the shard (1) and
// the CRC-32 (IEEE) of "NAMESPACE/TOPIC" (4). The engine makes it when the message
// enters the log. The positions of one shard always rise; those of different shards
// sort by the clocks of their nodes.
type Position = Number

package duly

import (
	"crypto/rand"
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// Number is a job's number: a ULID (github.com/ulid/spec) with 48 bits of milliseconds and 80 bits,
// most of them random. A counter would repeat numbers after a restored backup, and an old receipt
// would then be valid for a new job.
type Number [16]byte

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// crockfordValue maps a character to its value, or to 0xff if it is outside the alphabet. Lower
// case and similar-looking characters are outside, so that each number has exactly one text.
var crockfordValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range crockford {
		t[crockford[i]] = byte(i)
	}
	return t
}()

// numberText is the length of the text of a number.
const numberText = 26

// String returns the number as 26 characters of upper-case Crockford base 32.
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

// ParseNumber parses the text of a number. It returns false for any other text.
func ParseNumber(text string) (n Number, ok bool) {
	// 26 characters have 130 bits, and a number has 128.
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

// shardByte is the index of the byte that a job's shard is read from.
const shardByte = 11

// NewNumber returns a number that is greater than every number made before in this
// process, so that the pushes of a process keep their order.
func NewNumber() Number { return numbers.next() }

// NewNumberIn returns a number like [NewNumber], for a job in the shard part modulo the number of
// shards. An engine uses it to store jobs together that were pushed together.
func NewNumberIn(part byte) Number {
	n := numbers.next()
	n[shardByte] = part
	return n
}

// Part returns the byte that decides the shard, see [NewNumberIn].
func (n Number) Part() byte { return n[shardByte] }

// KeyPart returns the part for the jobs of an order key or a merge key.
func KeyPart(key string) byte { return byte(crc32.ChecksumIEEE([]byte(key))) }

// numbers belongs to the process, because numbers rise over all its clients and engines.
var numbers numberSource

type numberSource struct {
	mu   sync.Mutex
	ms   uint64
	seq  uint64 // the 40 bits after the milliseconds
	pool [1024]byte
	left []byte
}

// next starts each millisecond at a random value of the following 40 bits and counts up
// from it. The last 40 bits are always random.
func (s *numberSource) next() (n Number) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ms := uint64(SystemClock().Now().UnixMilli()); ms > s.ms {
		var b [8]byte
		s.random(b[3:])
		s.ms, s.seq = ms, binary.BigEndian.Uint64(b[:])>>1 // half of the range is left to count up
	} else {
		s.seq++
		if s.seq>>40 != 0 {
			// If the range is used up, numbers run ahead of the clock until the clock has caught
			// up.
			s.ms, s.seq = s.ms+1, 0
		}
	}

	binary.BigEndian.PutUint64(n[:8], s.ms<<16|s.seq>>24)
	binary.BigEndian.PutUint32(n[7:11], uint32(s.seq))
	s.random(n[11:])
	return n
}

// random fills b from the kernel's source, which it reads in larger pieces.
func (s *numberSource) random(b []byte) {
	// Random bytes are used only once, so a rest that is too short is dropped.
	if len(s.left) < len(b) {
		rand.Read(s.pool[:]) // never fails; see crypto/rand
		s.left = s.pool[:]
	}
	copy(b, s.left)
	s.left = s.left[len(b):]
}

// Receipt is the handle of exactly one delivery. It is opaque to users, and valid only in
// the namespace of the delivery.
type Receipt string

// Position identifies a message in the log of a topic, and orders the messages: a ULID
// whose bytes are the entry time in ms (6), the ordinal (5), the shard (1) and the CRC-32
// (IEEE) of "NAMESPACE/TOPIC" (4). The engine makes it when the message enters the log.
// The positions of one shard always rise. Those of different shards sort by the clocks of
// their nodes.
type Position = Number

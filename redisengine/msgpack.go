package redisengine

import (
	"encoding/binary"
	"math"
	"strconv"
)

// The part of MessagePack (github.com/msgpack/msgpack/blob/master/spec.md)
// that Redis's cmsgpack speaks and the scripts use: integers, text, arrays,
// false. Packed values travel as arguments and stand in the rules.

type packer []byte

func (p *packer) array(n int) {
	if n < 16 {
		*p = append(*p, 0x90|byte(n))
		return
	}
	*p = binary.BigEndian.AppendUint16(append(*p, 0xdc), uint16(n))
}

// integer takes as few bytes as cmsgpack does.
func (p *packer) integer(n int64) {
	u := uint64(n)
	switch {
	case n >= -32 && n < 128:
		*p = append(*p, byte(n))
	case n < 0 && n >= math.MinInt8:
		*p = append(*p, 0xd0, byte(n))
	case n < 0 && n >= math.MinInt16:
		*p = binary.BigEndian.AppendUint16(append(*p, 0xd1), uint16(n))
	case n < 0 && n >= math.MinInt32:
		*p = binary.BigEndian.AppendUint32(append(*p, 0xd2), uint32(n))
	case n < 0:
		*p = binary.BigEndian.AppendUint64(append(*p, 0xd3), u)
	case u <= math.MaxUint8:
		*p = append(*p, 0xcc, byte(n))
	case u <= math.MaxUint16:
		*p = binary.BigEndian.AppendUint16(append(*p, 0xcd), uint16(n))
	case u <= math.MaxUint32:
		*p = binary.BigEndian.AppendUint32(append(*p, 0xce), uint32(n))
	default:
		*p = binary.BigEndian.AppendUint64(append(*p, 0xcf), u)
	}
}

func (p *packer) text(s string) {
	switch n := len(s); {
	case n < 32:
		*p = append(*p, 0xa0|byte(n))
	case n < 256:
		*p = append(*p, 0xd9, byte(n))
	case n < 1<<16:
		*p = binary.BigEndian.AppendUint16(append(*p, 0xda), uint16(n))
	default:
		*p = binary.BigEndian.AppendUint32(append(*p, 0xdb), uint32(n))
	}
	*p = append(*p, s...)
}

func (p *packer) no() { *p = append(*p, 0xc2) }

// unpacker reads what a script packed. After the first thing that does not fit
// it is bad, and everything it reads is zero.
type unpacker struct {
	rest string
	bad  bool
}

func (u *unpacker) take(n int) string {
	if n > len(u.rest) {
		u.bad, u.rest = true, ""
		return ""
	}
	s := u.rest[:n]
	u.rest = u.rest[n:]
	return s
}

// number reads an unsigned number of n bytes.
func (u *unpacker) number(n int) (v uint64) {
	for _, b := range []byte(u.take(n)) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (u *unpacker) head() byte { return byte(u.number(1)) }

func (u *unpacker) array() int {
	switch h := u.head(); {
	case h&0xf0 == 0x90:
		return int(h & 0x0f)
	case h == 0xdc:
		return int(u.number(2))
	}
	u.bad = true
	return 0
}

func (u *unpacker) integer() int64 {
	switch h := u.head(); {
	case h < 0x80 || h >= 0xe0:
		return int64(int8(h))
	case h >= 0xcc && h <= 0xcf:
		return int64(u.number(1 << (h - 0xcc)))
	case h == 0xd0:
		return int64(int8(u.number(1)))
	case h == 0xd1:
		return int64(int16(u.number(2)))
	case h == 0xd2:
		return int64(int32(u.number(4)))
	case h == 0xd3:
		return int64(u.number(8))
	case h == 0xca:
		return int64(math.Float32frombits(uint32(u.number(4))))
	case h == 0xcb:
		return int64(math.Float64frombits(u.number(8)))
	}
	u.bad = true
	return 0
}

func (u *unpacker) text() string {
	switch h := u.head(); {
	case h&0xe0 == 0xa0:
		return u.take(int(h & 0x1f))
	case h >= 0xd9 && h <= 0xdb:
		return u.take(int(u.number(1 << (h - 0xd9))))
	case h >= 0xc4 && h <= 0xc6:
		return u.take(int(u.number(1 << (h - 0xc4))))
	}
	u.bad = true
	return ""
}

// decimal reads a number that stands there as a text.
func (u *unpacker) decimal() int64 {
	n, err := strconv.ParseInt(u.text(), 10, 64)
	u.bad = u.bad || err != nil
	return n
}

// textOrNo reads a text, or false, for which it answers no.
func (u *unpacker) textOrNo() (s string, ok bool) {
	if u.rest != "" && u.rest[0] == 0xc2 {
		u.rest = u.rest[1:]
		return "", false
	}
	return u.text(), true
}

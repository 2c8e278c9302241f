package codec

import (
	"encoding/binary"
	"math"
	"strconv"
)

// This is the part of MessagePack (github.com/msgpack/msgpack/blob/master/spec.md) that Redis's
// cmsgpack supports and the scripts use: integers, texts, arrays and false. Arguments and
// policies are packed.

// Packer packs values.
type Packer []byte

// Array packs the head of an array of n values.
func (p *Packer) Array(n int) {
	if n < 16 {
		*p = append(*p, 0x90|byte(n))
		return
	}
	*p = binary.BigEndian.AppendUint16(append(*p, 0xdc), uint16(n))
}

// Integer packs a number in as few bytes as cmsgpack does.
func (p *Packer) Integer(n int64) {
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

// Text packs a string.
func (p *Packer) Text(s string) {
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

// No packs false.
func (p *Packer) No() { *p = append(*p, 0xc2) }

// Unpacker reads what a script packed. After the first value that does not fit, Bad is set and
// all further values are zero.
type Unpacker struct {
	Rest string
	Bad  bool
}

func (u *Unpacker) take(n int) string {
	if n > len(u.Rest) {
		// Dropping the rest makes every later read fail, too.
		u.Bad, u.Rest = true, ""
		return ""
	}
	s := u.Rest[:n]
	u.Rest = u.Rest[n:]
	return s
}

// number reads an unsigned big-endian number of n bytes.
func (u *Unpacker) number(n int) (v uint64) {
	for _, b := range []byte(u.take(n)) {
		v = v<<8 | uint64(b)
	}
	return v
}

func (u *Unpacker) head() byte { return byte(u.number(1)) }

// Array reads the head of an array and returns its length.
func (u *Unpacker) Array() int {
	switch h := u.head(); {
	case h&0xf0 == 0x90:
		return int(h & 0x0f)
	case h == 0xdc:
		return int(u.number(2))
	}
	u.Bad = true
	return 0
}

func (u *Unpacker) integer() int64 {
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
		// Lua packs a whole number as a float if it came out of a division.
		return int64(math.Float32frombits(uint32(u.number(4))))
	case h == 0xcb:
		return int64(math.Float64frombits(u.number(8)))
	}

	u.Bad = true
	return 0
}

// Text reads a string.
func (u *Unpacker) Text() string {
	switch h := u.head(); {
	case h&0xe0 == 0xa0:
		return u.take(int(h & 0x1f))
	case h >= 0xd9 && h <= 0xdb:
		return u.take(int(u.number(1 << (h - 0xd9))))
	case h >= 0xc4 && h <= 0xc6:
		return u.take(int(u.number(1 << (h - 0xc4))))
	}
	u.Bad = true
	return ""
}

// Decimal reads a number that is packed as a text.
func (u *Unpacker) Decimal() int64 {
	n, err := strconv.ParseInt(u.Text(), 10, 64)
	u.Bad = u.Bad || err != nil
	return n
}

// textOrNo reads a string. It returns ok false for a packed false.
func (u *Unpacker) textOrNo() (s string, ok bool) {
	if u.Rest != "" && u.Rest[0] == 0xc2 {
		u.Rest = u.Rest[1:]
		return "", false
	}
	return u.Text(), true
}

// Bool packs 1 or 0.
func (p *Packer) Bool(yes bool) {
	if yes {
		p.Integer(1)
	} else {
		p.Integer(0)
	}
}

// Integer reads an integer.
func (u *Unpacker) Integer() int64 { return u.integer() }

// IsText reports whether a string comes next.
func (u *Unpacker) IsText() bool {
	return u.Rest != "" && (u.Rest[0]&0xe0 == 0xa0 || u.Rest[0] >= 0xd9 && u.Rest[0] <= 0xdb)
}

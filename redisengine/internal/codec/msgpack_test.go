package codec

import (
	"math"
	"strings"
	"testing"
)

func TestUnpackerReadsWhatPackerWrites(t *testing.T) {
	integers := []int64{0, 1, -1, 127, 128, -32, -33, 255, 256, -128, -129, 1 << 16, -1 << 15, -1<<15 - 1, 1 << 32,
		-1 << 31, -1<<31 - 1, math.MaxInt64, math.MinInt64}
	texts := []string{"", "a", strings.Repeat("b", 31), strings.Repeat("c", 32), strings.Repeat("d", 255),
		strings.Repeat("e", 256), strings.Repeat("f", 1<<16)}

	var p Packer
	p.Array(len(integers) + len(texts) + 1)
	for _, n := range integers {
		p.Integer(n)
	}
	for _, s := range texts {
		p.Text(s)
	}
	p.No()

	u := Unpacker{Rest: string(p)}
	if n := u.Array(); n != len(integers)+len(texts)+1 {
		t.Errorf("the array has %d elements", n)
	}
	for _, want := range integers {
		if got := u.integer(); got != want {
			t.Errorf("%d is unpacked as %d", want, got)
		}
	}
	for _, want := range texts {
		if got := u.Text(); got != want {
			t.Errorf("a text of %d bytes is unpacked as one of %d", len(want), len(got))
		}
	}
	if _, ok := u.textOrNo(); ok || u.Bad || u.Rest != "" {
		t.Errorf("false is unpacked as a text, or %d bytes are left, bad %t", len(u.Rest), u.Bad)
	}
}

func TestUnpackerRefusesDamage(t *testing.T) {
	var p Packer
	p.Array(3)
	p.Integer(1 << 40)
	p.Text(strings.Repeat("x", 300))
	p.Text("y")

	for cut := range p {
		u := Unpacker{Rest: string(p[:cut])}
		u.Array()
		u.integer()
		u.Text()
		u.Text()
		if !u.Bad {
			t.Errorf("the first %d of %d bytes are unpacked without an error", cut, len(p))
		}
	}
	for _, wrong := range []string{"\xc0", "\xc1", "\xdd"} {
		u := Unpacker{Rest: wrong}
		if u.integer(); !u.Bad {
			t.Errorf("%q is unpacked as a number", wrong)
		}
		u = Unpacker{Rest: wrong}
		if u.Text(); !u.Bad {
			t.Errorf("%q is unpacked as a text", wrong)
		}
	}
}

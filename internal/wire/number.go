package wire

import (
	"errors"
	"strconv"
	"strings"
)

// number reads a number and returns its text.
func (r *reader) number(field string) string {
	r.space()
	from := r.at
	if r.err != nil {
		return ""
	}

	// This is the grammar of RFC 8259. ParseFloat alone would accept more than JSON allows.
	r.skipByte("-")
	whole := r.digits()
	// JSON has no leading zeros.
	if whole == 0 || whole > 1 && r.text[r.at-whole] == '0' {
		r.broken("needs a number for %s", r.path(field))
		return ""
	}

	if r.skipByte(".") && r.digits() == 0 {
		r.broken("needs a number for %s", r.path(field))
	}

	if r.skipByte("eE") {
		r.skipByte("+-")
		if r.digits() == 0 {
			r.broken("needs a number for %s", r.path(field))
		}
	}

	return r.text[from:r.at]
}

// skipByte skips one of the given bytes, and reports whether there was one.
func (r *reader) skipByte(bytes string) bool {
	if r.at < len(r.text) && strings.IndexByte(bytes, r.text[r.at]) >= 0 {
		r.at++
		return true
	}
	return false
}

// digits skips digits and returns their number.
func (r *reader) digits() (n int) {
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
		n++
	}
	return n
}

// int reads an integer; null is 0. A number outside int64 becomes the largest or smallest int64.
// No field allows that value, so the field's validation refuses it and names its limits.
func (r *reader) int(field string) int64 {
	if r.null() {
		return 0
	}
	text := r.number(field)
	if r.err != nil {
		return 0
	}

	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		r.bad(field, "is %.20s, must be a whole number, written without a point or an exponent", text)
		return 0
	}
	return n
}

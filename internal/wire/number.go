package wire

import (
	"errors"
	"strconv"
)

// number reads a number's text by JSON's grammar.
func (r *reader) number(field string) string {
	r.space()
	from := r.at
	if r.err != nil {
		return ""
	}

	if r.at < len(r.text) && r.text[r.at] == '-' {
		r.at++
	}
	whole := r.digits()
	if whole == 0 || whole > 1 && r.text[r.at-whole] == '0' {
		r.broken("needs a number for %s", field)
		return ""
	}

	if r.at < len(r.text) && r.text[r.at] == '.' {
		r.at++
		if r.digits() == 0 {
			r.broken("needs a number for %s", field)
		}
	}

	if r.at < len(r.text) && (r.text[r.at] == 'e' || r.text[r.at] == 'E') {
		r.at++
		if r.at < len(r.text) && (r.text[r.at] == '+' || r.text[r.at] == '-') {
			r.at++
		}
		if r.digits() == 0 {
			r.broken("needs a number for %s", field)
		}
	}

	return r.text[from:r.at]
}

func (r *reader) digits() (n int) {
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
		n++
	}
	return n
}

// int reads a whole number; null is 0. A fraction is the item's fault. A number
// that no integer holds is the last one there is: that is beyond the bounds of
// every field, and whoever judges the field names them.
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

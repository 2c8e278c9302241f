package wire

import (
	"strings"
	"unicode/utf8"

	"github.com/dulymq/duly"
)

// Mode is how much a reader forgives.
type Mode bool

// The modes.
const (
	// Strict refuses what it does not know: for requests.
	Strict Mode = false
	// Lenient skips what it does not know: for responses.
	Lenient Mode = true
)

// maxDepth bounds the nesting of what a lenient reader skips.
const maxDepth = 64

// maxFields is more than any object has fields, headers aside.
const maxFields = 40

// reader walks over one JSON text. The first fault of the envelope ends it:
// from then on every method answers zero at once. Faults of an item's values
// are gathered beside it.
type reader struct {
	text  string
	at    int
	mode  Mode
	depth int
	err   error
	// faults are the item's, taken by itemErr.
	faults duly.BadFields
}

// parse reads one whole text.
func parse(text string, mode Mode, value func(*reader)) error {
	r := reader{text: text, mode: mode}
	if !utf8.ValidString(text) {
		return duly.Invalid("request", "is not valid UTF-8; send bytes that are not text as base64")
	}
	value(&r)
	r.space()
	if r.err == nil && r.at < len(text) {
		r.fail("has more text behind its JSON value")
	}
	if r.err != nil {
		return r.err
	}
	return r.itemErr()
}

// fail notes a fault of the envelope. The input itself is never repeated.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = duly.Invalid("request", format+" (at byte %d)", append(args, r.at)...)
	}
}

// broken notes that the text is not JSON at this place. Where it is over, that
// is what its sender has to know.
func (r *reader) broken(format string, args ...any) {
	switch r.space(); {
	case r.at < len(r.text):
		r.fail(format, args...)
	case strings.Trim(r.text, " \n\t\r") == "":
		r.fail("is empty; it needs a JSON object")
	default:
		r.fail("ends in the middle of its JSON; it may have been cut off")
	}
}

// bad notes a fault of an item's value.
func (r *reader) bad(field, format string, args ...any) {
	if r.err == nil {
		r.faults.Add(field, format, args...)
	}
}

// itemErr takes the faults gathered so far as one error, nil if there are none.
func (r *reader) itemErr() error {
	err := r.faults.Err()
	r.faults = duly.BadFields{}
	return err
}

func (r *reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\n', '\t', '\r':
			r.at++
		default:
			return
		}
	}
}

// peek is the first character of the next value, 0 at the end.
func (r *reader) peek() byte {
	r.space()
	if r.err != nil || r.at >= len(r.text) {
		return 0
	}
	return r.text[r.at]
}

// expect steps over one character.
func (r *reader) expect(c byte, where string) bool {
	if r.peek() == c {
		r.at++
		return true
	}
	r.broken("is not JSON as it should be: %q is missing %s", c, where)
	return false
}

// null steps over a null.
func (r *reader) null() bool {
	if r.peek() == 'n' && strings.HasPrefix(r.text[r.at:], "null") {
		r.at += len("null")
		return true
	}
	return false
}

// object goes over the keys of an object; the loop's body reads or skips the
// value of each. A null is an object without keys.
func (r *reader) object(yield func(key string) bool) {
	var seen [maxFields]string
	n := 0
	for key := range r.members {
		if r.mode == Strict {
			for _, other := range seen[:n] {
				if other == key {
					r.fail("has the field %s twice", duly.Quoted(key))
					return
				}
			}
			if n == maxFields {
				r.fail("has an object with more fields than are known")
				return
			}
			seen[n] = key
			n++
		}

		if !yield(key) {
			return
		}
	}
}

// members is object without the look for doubled keys.
func (r *reader) members(yield func(key string) bool) {
	if r.null() || !r.open('{') {
		return
	}
	if r.peek() == '}' {
		r.close()
		return
	}

	for r.err == nil {
		if r.peek() != '"' {
			r.broken("has an object whose key is not a string")
			return
		}
		key := r.str()
		if r.err != nil || !r.expect(':', "behind a key") || !yield(key) || r.err != nil {
			return
		}
		switch r.peek() {
		case ',':
			r.at++
		case '}':
			r.close()
			return
		default:
			r.broken("is not JSON as it should be: ',' or '}' is missing")
		}
	}
}

// array goes over the places of an array; the loop's body reads each value. A
// null is an empty array.
func (r *reader) array(yield func(i int) bool) {
	if r.null() || !r.open('[') {
		return
	}
	if r.peek() == ']' {
		r.close()
		return
	}

	for i := 0; r.err == nil; i++ {
		if !yield(i) || r.err != nil {
			return
		}
		switch r.peek() {
		case ',':
			r.at++
		case ']':
			r.close()
			return
		default:
			r.broken("is not JSON as it should be: ',' or ']' is missing")
		}
	}
}

func (r *reader) open(c byte) bool {
	if r.peek() != c {
		r.broken("needs %s here", map[byte]string{'{': "an object", '[': "an array"}[c])
		return false
	}
	if r.depth++; r.depth > maxDepth {
		r.fail("is nested deeper than %d levels", maxDepth)
		return false
	}
	r.at++
	return true
}

func (r *reader) close() {
	r.depth--
	r.at++
}

// unknown is called for a key that the object does not have.
func (r *reader) unknown(key string) {
	if r.mode == Strict {
		r.fail("has the unknown field %s", duly.Quoted(key))
		return
	}
	r.skip()
}

// skip steps over any value.
func (r *reader) skip() {
	switch c := r.peek(); {
	case c == '{':
		for range r.members {
			r.skip()
		}
	case c == '[':
		for range r.array {
			r.skip()
		}
	case c == '"':
		r.str()
	case c == 't' || c == 'f':
		r.boolean("value")
	case c == 'n' && r.null():
	default:
		r.number("value")
	}
}

// boolean reads true or false.
func (r *reader) boolean(field string) bool {
	r.space()
	rest := r.text[r.at:]
	switch {
	case r.err != nil:
	case strings.HasPrefix(rest, "true"):
		r.at += len("true")
		return true
	case strings.HasPrefix(rest, "false"):
		r.at += len("false")
	case !r.null():
		r.broken("needs true or false for %s", field)
	}
	return false
}

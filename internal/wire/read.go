package wire

import (
	"strings"
	"unicode/utf8"

	"github.com/dulymq/duly/contract"
)

// mode says how a reader handles unknown fields.
type mode bool

// The modes of a reader.
const (
	// strict refuses unknown and repeated fields. It is for requests.
	strict mode = false
	// lenient skips unknown fields. It is for answers.
	lenient mode = true
)

// maxDepth limits the nesting of values that a lenient reader skips.
const maxDepth = 64

// reader reads one JSON text. After the first error in the request itself, every method returns
// zero at once. Errors in an item's values are collected in faults.
type reader struct {
	text  string
	at    int
	mode  mode
	depth int
	in    string // name of the object with the current fields, for errors
	err   error
	// faults has the errors of the current item. itemErr returns and clears them.
	faults contract.BadFields
}

// parse reads one whole text.
func parse(text string, mode mode, value func(*fields)) error {
	// The text is checked once here, so that strings need no check later.
	if !utf8.ValidString(text) {
		return contract.Invalid("request", "is not valid UTF-8; send bytes that are not text as base64")
	}

	f := unused.Get().(*fields)
	defer f.free()
	r := &f.r
	r.text, r.mode = text, mode
	value(f)

	// Only spaces may follow the value.
	r.space()
	if r.err == nil && r.at < len(text) {
		r.fail("has more text after its JSON value")
	}
	if r.err != nil {
		return r.err
	}

	return r.itemErr()
}

// fail records an error in the request itself. The error never repeats the input.
func (r *reader) fail(format string, args ...any) {
	// The first error counts, because later errors are often its consequences.
	if r.err == nil {
		r.err = contract.Invalid("request", format+" (at byte %d)", append(args, r.at)...)
	}
}

// broken records that the text is not valid JSON at the current position. If the text is empty or
// has ended, the error says that instead.
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

// bad records an error in an item's value.
func (r *reader) bad(field, format string, args ...any) {
	// After an error in the text its values are not reliable.
	if r.err == nil {
		r.faults.Add(r.path(field), format, args...)
	}
}

// path returns the field's name after the name of its object.
func (r *reader) path(field string) string {
	if r.in == "" {
		return field
	}
	return r.in + "." + field
}

// itemErr returns the collected errors as one error, or nil, and clears them.
func (r *reader) itemErr() error {
	err := r.faults.Err()

	// A new value and not a cleared slice, because the error keeps the fields.
	r.faults = contract.BadFields{}
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

// peek returns the first character of the next value, 0 at the end.
func (r *reader) peek() byte {
	r.space()
	if r.err != nil || r.at >= len(r.text) {
		return 0
	}
	return r.text[r.at]
}

// null skips a null, and reports whether there was one.
func (r *reader) null() bool {
	if r.peek() == 'n' && strings.HasPrefix(r.text[r.at:], "null") {
		r.at += len("null")
		return true
	}
	return false
}

// firstKey reads the first key of an object, after its bracket. ok is false after an error, and at
// the object's end, which it skips.
func (r *reader) firstKey() (key string, ok bool) {
	if r.peek() == '}' {
		r.close()
		return "", false
	}
	return r.readKey()
}

// nextKey is like firstKey, for all other keys.
func (r *reader) nextKey() (key string, ok bool) {
	switch r.peek() {
	case ',':
		r.at++
		return r.readKey()
	case '}':
		r.close()
	default:
		r.broken("is not JSON as it should be: ',' or '}' is missing")
	}
	return "", false
}

func (r *reader) readKey() (key string, ok bool) {
	if r.peek() != '"' {
		r.broken("has an object whose key is not a string")
		return "", false
	}
	key = r.str()

	if r.peek() != ':' {
		r.broken("is not JSON as it should be: ':' is missing after a key")
		return "", false
	}
	r.at++
	// The key itself may have been invalid.
	return key, r.err == nil
}

// members yields the keys of an object. The loop's body reads each value.
func (r *reader) members(yield func(key string) bool) {
	if r.null() || !r.open('{') {
		return
	}
	for key, ok := r.firstKey(); ok && yield(key); {
		key, ok = r.nextKey()
	}
}

// array yields the indexes of an array. The loop's body reads each value. Null is an
// empty array.
func (r *reader) array(yield func(i int) bool) {
	if r.null() || !r.open('[') {
		return
	}
	if r.peek() == ']' {
		r.close()
		return
	}

	for i := 0; r.err == nil; i++ {
		// If the body has failed, the next character has no meaning.
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

// open skips the bracket c, and reports whether there was one.
func (r *reader) open(c byte) bool {
	if r.peek() != c {
		r.broken("needs %s here", map[byte]string{'{': "an object", '[': "an array"}[c])
		return false
	}
	// The limit protects the stack, as skip is recursive.
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

// twice refuses a repeated key.
func (r *reader) twice(key string) { r.fail("has the field %s twice", contract.Quoted(key)) }

// unknown refuses or skips the value of a key that the form does not have.
func (r *reader) unknown(key string) {
	if r.mode == strict {
		r.fail("has the unknown field %s", contract.Quoted(key))
		return
	}
	r.skip()
}

// skip skips any value.
func (r *reader) skip() {
	// Skipped values are checked as well, so invalid JSON is always refused.
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

// boolean reads true or false. Null is false.
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
		r.broken("needs true or false for %s", r.path(field))
	}
	return false
}

package wire

import (
	"encoding/base64"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string. A string without escapes is a substring of the text, so nothing is allocated.
func (r *reader) str() string {
	from := r.at + 1

	for i := from; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			r.at = i + 1
			return r.text[from:i]
		case c == '\\':
			return r.escaped(from, i)
		case c < 0x20:
			r.at = i
			r.fail("has a control character in a string; write it as an escape")
			return ""
		}
	}

	// broken reports that the text has ended, so it needs no message.
	r.at = len(r.text)
	r.broken("")
	return ""
}

// escaped reads the rest of a string that begins at from and has its first escape at i.
func (r *reader) escaped(from, i int) string {
	// The capacity includes the rest of a short string, so that it is allocated once.
	b := make([]byte, i-from, i-from+64)
	copy(b, r.text[from:i])

	for i < len(r.text) {
		switch c := r.text[i]; {
		case c == '"':
			r.at = i + 1
			return string(b)
		case c == '\\':
			r.at = i
			if b, i = r.escape(b, i+1); r.err != nil {
				return ""
			}
		case c < 0x20:
			r.at = i
			r.fail("has a control character in a string; write it as an escape")
			return ""
		default:
			b = append(b, c)
			i++
		}
	}

	r.at = len(r.text)
	r.broken("")
	return ""
}

const escapes = `""\\//b` + "\b" + "f\fn\nr\rt\t"

// escape appends the character of an escape. i is the index of its letter. escape returns the index
// after it.
func (r *reader) escape(b []byte, i int) ([]byte, int) {
	switch {
	case i == len(r.text):
		r.at = i
		r.broken("")
		return b, i
	case r.text[i] == 'u':
		return r.unicode(b, i)
	}
	for k := 0; k < len(escapes); k += 2 {
		if escapes[k] == r.text[i] {
			return append(b, escapes[k+1]), i + 1
		}
	}
	r.fail("has an escape that JSON does not know")
	return b, i
}

func (r *reader) unicode(b []byte, i int) ([]byte, int) {
	// The text ends within the escape.
	if i+5 > len(r.text) && strings.IndexByte(r.text[i:], '"') < 0 {
		r.at = len(r.text)
		r.broken("")
		return b, i
	}

	c, ok := hex4(r.text, i+1)
	i += 5
	// Characters above U+FFFF are written as a pair of escapes.
	if ok && utf16.IsSurrogate(c) {
		var low rune
		if ok = strings.HasPrefix(r.text[min(i, len(r.text)):], `\u`); ok {
			low, ok = hex4(r.text, i+2)
			c = utf16.DecodeRune(c, low)
			ok = ok && c != utf8.RuneError
			i += 6
		}
	}

	if !ok {
		r.fail(`has a \u escape that is no character`)
		return b, i
	}
	return utf8.AppendRune(b, c), i
}

func hex4(text string, i int) (c rune, ok bool) {
	if i+4 > len(text) {
		return 0, false
	}
	for _, d := range []byte(text[i : i+4]) {
		switch {
		case d >= '0' && d <= '9':
			d -= '0'
		case d >= 'a' && d <= 'f':
			d -= 'a' - 10
		case d >= 'A' && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(d)
	}
	return c, true
}

// string reads a string; null is "".
func (r *reader) string(field string) string {
	switch r.peek() {
	case '"':
		return r.str()
	case 'n':
		// Another word that begins with n is an error below.
		if r.null() {
			return ""
		}
	}
	r.broken("needs a string for %s", r.path(field))
	return ""
}

// name reads a string that is not empty. An empty string is refused, because it would count as
// absent.
func (r *reader) name(field string) string {
	if r.null() {
		return ""
	}
	s := r.string(field)
	if s == "" {
		r.bad(field, "is empty; give it at least one byte, or leave it out")
	}
	return s
}

// bytes reads a string as bytes. Only null is nil.
func (r *reader) bytes(field string) []byte {
	if r.null() {
		return nil
	}

	// An empty string is an empty value and not an absent one.
	return append([]byte{}, r.string(field)...)
}

// base64 reads bytes in base64. Only null is nil.
func (r *reader) base64(field string) []byte {
	if r.null() {
		return nil
	}
	text := r.string(field)
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodedLen(len(b)) != len(text) { // the decoder skips line ends
		r.bad(field, "is not standard base64 with padding")
		return nil
	}
	// Empty base64 is an empty value and not an absent one.
	if b == nil {
		b = []byte{}
	}
	return b
}

// either returns the bytes of the field that is set. It reports an error if both fields are set.
func (r *reader) either(field string, b, had []byte) []byte {
	if had != nil && b != nil {
		r.bad(field, "and %s_base64 are both set, give one of them", field)
	}
	if b == nil {
		return had
	}
	return b
}

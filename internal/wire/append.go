package wire

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// object writes the members of an object into dst: the first without a comma.
type object struct{ dst []byte }

func begin(dst []byte) object { return object{append(dst, '{')} }

func (o *object) end() []byte { return append(o.dst, '}') }

func (o *object) key(name string) {
	if o.dst[len(o.dst)-1] != '{' {
		o.dst = append(o.dst, ',')
	}
	o.dst = append(o.dst, '"')
	o.dst = append(o.dst, name...)
	o.dst = append(o.dst, '"', ':')
}

func (o *object) string(name, value string) {
	o.key(name)
	o.dst = appendString(o.dst, value)
}

// text writes a string unless it is empty.
func (o *object) text(name, value string) {
	if value != "" {
		o.string(name, value)
	}
}

func (o *object) int(name string, value int64) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, value, 10)
}

func (o *object) bool(name string, value bool) {
	o.key(name)
	o.dst = strconv.AppendBool(o.dst, value)
}

// count writes a number, or "none".
func (o *object) count(name string, n int) {
	if n == duly.None {
		o.string(name, "none")
		return
	}
	o.int(name, int64(n))
}

func (o *object) duration(name string, d time.Duration) {
	o.string(name, duly.FormatDuration(d))
}

// span writes a duration, or "none".
func (o *object) span(name string, d time.Duration) {
	if d == duly.None {
		o.string(name, "none")
		return
	}
	o.duration(name, d)
}

// time writes a moment unless it is zero.
func (o *object) time(name string, t time.Time) {
	if !t.IsZero() {
		o.key(name)
		o.dst = appendTime(o.dst, t)
	}
}

// due writes a due moment that is asked for, unless it is zero. One in the past
// means now however old it is, and RFC 3339 has no year before 0.
func (o *object) due(t time.Time) {
	if !t.IsZero() && t.Before(time.Unix(0, 0)) {
		t = time.Unix(0, 0)
	}
	o.time("due", t)
}

// bytes writes bytes as text where they are, else as base64.
func (o *object) bytes(name string, b []byte) {
	if printable(b) {
		o.key(name)
		o.dst = appendString(o.dst, b)
		return
	}
	o.base64(name, b)
}

// sent writes bytes of a request, which never more than double: text that is
// mostly escapes goes as base64, for requests are bounded by what bodies need.
func (o *object) sent(name string, b []byte) {
	at := len(o.dst)
	if o.bytes(name, b); len(o.dst)-at > 2*len(b)+64 {
		o.dst = o.dst[:at]
		o.base64(name, b)
	}
}

func (o *object) base64(name string, b []byte) {
	o.key(name + "_base64")
	o.dst = append(o.dst, '"')
	o.dst = base64.StdEncoding.AppendEncode(o.dst, b)
	o.dst = append(o.dst, '"')
}

func printable(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// headers writes the names in order, so that equal jobs have equal texts.
func (o *object) headers(name string, headers map[string]string) {
	o.key(name)
	inner := begin(o.dst)
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if inner.dst[len(inner.dst)-1] != '{' {
			inner.dst = append(inner.dst, ',')
		}
		inner.dst = append(appendString(inner.dst, name), ':')
		inner.dst = appendString(inner.dst, headers[name])
	}
	o.dst = inner.end()
}

// list writes an array, each item by a call.
func list[T any](o *object, name string, items []T, item func(dst []byte, item *T) []byte) {
	o.key(name)
	o.dst = append(o.dst, '[')
	for i := range items {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = item(o.dst, &items[i])
	}
	o.dst = append(o.dst, ']')
}

// texts writes an array of strings.
func texts[T ~string](o *object, name string, items []T) {
	list(o, name, items, func(dst []byte, s *T) []byte { return appendString(dst, *s) })
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string. What is not UTF-8 becomes U+FFFD; bytes
// that must survive go through object.bytes.
func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start, from, ascii := len(dst), 0, true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf {
			ascii = false
		}
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, c)
		from = i + 1
	}

	dst = append(dst, s[from:]...)
	if !ascii && !utf8.Valid(dst[start:]) { // rare: mend what was written
		dst = append(dst[:start], strings.ToValidUTF8(string(dst[start:]), "\ufffd")...)
	}
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendTime writes a moment in RFC 3339 with milliseconds, rounded up: the
// form of the root package's times has no more, and nothing may become early.
func appendTime(dst []byte, t time.Time) []byte {
	t = time.UnixMilli(clock.CeilMilli(t)).UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	dst = append(dst, '"')
	dst = append(appendPadded(dst, year, 4), '-')
	dst = append(appendPadded(dst, int(month), 2), '-')
	dst = append(appendPadded(dst, day, 2), 'T')
	dst = append(appendPadded(dst, hour, 2), ':')
	dst = append(appendPadded(dst, minute, 2), ':')
	dst = append(appendPadded(dst, second, 2), '.')
	dst = appendPadded(dst, t.Nanosecond()/int(time.Millisecond), 3)
	return append(dst, 'Z', '"')
}

// appendPadded writes n ≥ 0 with at least width digits, of at most 4.
func appendPadded(dst []byte, n, width int) []byte {
	for least := [...]int{0, 0, 10, 100, 1000}; width > 1 && n < least[width]; width-- {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

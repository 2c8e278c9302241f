package wire

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dulymq/duly/internal/clock"
)

// isText reports whether bytes are sent as a string: they are UTF-8 without NUL.
func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

func (f *fields) writeBytes(name string, b []byte) {
	if !isText(b) {
		f.writeBase64(name, b)
		return
	}
	f.write(name)
	f.dst = appendString(f.dst, b)
}

func (f *fields) writeBase64(name string, b []byte) {
	f.write(name + "_base64")
	f.dst = append(f.dst, '"')
	f.dst = base64.StdEncoding.AppendEncode(f.dst, b)
	f.dst = append(f.dst, '"')
}

// appendHeaders writes headers sorted by name, so that equal jobs have equal texts.
func appendHeaders(dst []byte, headers map[string]string) []byte {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(headers)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		dst = appendString(dst, headers[name])
	}
	return append(dst, '}')
}

const hexDigits = "0123456789abcdef"

// appendString writes a JSON string. Invalid UTF-8 becomes U+FFFD. For bytes that may be invalid,
// use fields.bytes.
func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start, from, ascii := len(dst), 0, true
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf {
			ascii = false
		}
		// Bytes that need no escape are copied together by one append.
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}

		// The bytes before an escape are copied here, in one piece.
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, c)
		from = i + 1
	}

	dst = append(dst, s[from:]...)
	// Checking only texts with other characters keeps the common case fast.
	if !ascii && !utf8.Valid(dst[start:]) {
		// Escapes are ASCII, so the repair of invalid UTF-8 does not change them.
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

// appendTime writes a time in RFC 3339 with milliseconds. It rounds up, because rounding
// down could deliver a job early.
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
	// The loop stops before the last digit, which AppendInt always writes.
	for least := [...]int{0, 0, 10, 100, 1000}; width > 1 && n < least[width]; width-- {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

package cli

import (
	"bytes"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// escapeJSON escapes the characters of a JSON text that may control a terminal, such as
// control characters, bidi overrides and line separators. They occur only in strings, so
// the value stays the same.
func escapeJSON(text []byte) []byte {
	risky := func(r rune) bool { return r != '\n' && isUnsafe(r) }

	// Most texts need no escape. Invalid UTF-8 takes the loop, which replaces it.
	if utf8.Valid(text) && !bytes.ContainsFunc(text, risky) {
		return text
	}

	escaped := make([]byte, 0, len(text)+16)
	for _, r := range string(text) {
		switch {
		case !risky(r):
			escaped = utf8.AppendRune(escaped, r)
		case r > 0xffff:
			// JSON escapes have four digits, so a rune outside the basic plane needs two surrogates.
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
	}
	return escaped
}

// escapingWriter escapes the JSON lines that are written to a terminal.
type escapingWriter struct{ to io.Writer }

// Write implements io.Writer. A call writes whole lines.
func (e escapingWriter) Write(lines []byte) (int, error) {
	// The count of escaped bytes differs from that of the input, and io.Writer must return the latter.
	if _, err := e.to.Write(escapeJSON(lines)); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// logTo returns the writer for a JSON log on standard error. It escapes the log if
// standard error is a terminal.
func (a *app) logTo(to io.Writer) io.Writer {
	if a.env.Terminal(a.env.Stderr) {
		return escapingWriter{to}
	}
	return to
}

// errorLine prints a line of JSON on standard error.
func (a *app) errorLine(line []byte) {
	if a.env.Terminal(a.env.Stderr) {
		line = escapeJSON(line)
	}
	fmt.Fprintf(a.env.Stderr, "%s\n", line)
}

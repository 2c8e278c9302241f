package contract

import (
	"strconv"
	"strings"
)

// TokenPrefix begins the secret of every token that a server makes, so that scanners for
// leaked secrets recognize it.
const TokenPrefix = "duly_"

// Quoted returns untrusted text in a form for errors: in quotes, in ASCII, and at most its
// first 40 bytes. Errors get into logs, and a caller may have passed a token as a name, so
// Quoted cuts the text after the prefix of a token.
func Quoted(text string) string { return quoted(text, 40) }

// quoted is like Quoted, with another maximum length.
func quoted(text string, most int) string {
	if n := min(most, beforeSecret(text)); n < len(text) {
		// The quotation escapes a rune that the cut has split.
		return strconv.QuoteToASCII(text[:n]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// withoutSecret returns a string of valid names, cut after the prefix of a token.
func withoutSecret(text string) string {
	if n := beforeSecret(text); n < len(text) {
		return text[:n] + "…"
	}
	return text
}

// beforeSecret returns the length of the part of a string before what may be the secret of a token.
func beforeSecret(text string) int {
	if at := strings.Index(text, TokenPrefix); at >= 0 {
		return at + len(TokenPrefix)
	}
	return len(text)
}

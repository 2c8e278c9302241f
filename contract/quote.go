package contract

import (
	"strconv"
	"strings"
)

// TokenPrefix begins the secret of every token that a server makes, so that
// scanners for leaked secrets know one.
const TokenPrefix = "duly_"

// Quoted is a text from outside as an error may repeat it: in quotes, in ASCII,
// and at most its first 40 bytes. Errors get into logs, and somebody may have
// given a token as a name: what follows a token's prefix is left out.
func Quoted(text string) string { return quoted(text, 40) }

func quoted(text string, most int) string {
	if n := min(most, beforeSecret(text)); n < len(text) {
		return strconv.QuoteToASCII(text[:n]) + "…"
	}
	return strconv.QuoteToASCII(text)
}

// withoutSecret is a text of valid names without what may be a token's secret.
func withoutSecret(text string) string {
	if n := beforeSecret(text); n < len(text) {
		return text[:n] + "…"
	}
	return text
}

// beforeSecret is how much of a text stands before what may be a token's secret.
func beforeSecret(text string) int {
	if at := strings.Index(text, TokenPrefix); at >= 0 {
		return at + len(TokenPrefix)
	}
	return len(text)
}

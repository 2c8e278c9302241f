package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/dulymq/duly/contract"
)

// Prefix begins every token.
const Prefix = contract.TokenPrefix

const (
	secretBytes = 32
	secretLen   = len(Prefix) + (secretBytes*8+5)/6
)

// NewSecret returns the text of a new token, with 256 random bits.
func NewSecret() string {
	var b [secretBytes]byte
	// Read never fails, see crypto/rand.
	rand.Read(b[:])
	return Prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Hash returns the hash of a token's text, which stores keep instead of the text. ok is false if
// the text cannot be that of a token.
func Hash(secret string) (hash [32]byte, ok bool) {
	if len(secret) != secretLen || !strings.HasPrefix(secret, Prefix) {
		return hash, false
	}

	var text [secretLen]byte
	copy(text[:], secret)
	// The loop has no early exit, so its duration does not depend on the text.
	var bad byte
	for _, c := range text[len(Prefix):] {
		bad |= invalidByte[c]
	}
	if bad != 0 {
		return hash, false
	}
	return sha256.Sum256(text[:]), true
}

// invalidByte has a 1 for each byte that no secret contains. With a table, the duration
// of a check does not depend on the text. The table never changes.
var invalidByte = func() (table [256]byte) {
	for c := range table {
		b := byte(c)
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '-' && b != '_' {
			table[c] = 1
		}
	}
	return table
}()

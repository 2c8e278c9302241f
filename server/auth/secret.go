package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/dulymq/duly"
)

// Prefix begins every token.
const Prefix = duly.TokenPrefix

const (
	secretBytes = 32
	secretText  = len(Prefix) + (secretBytes*8+5)/6
)

// NewSecret makes the text of a new token, with 256 bits of crypto/rand.
func NewSecret() string {
	var b [secretBytes]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return Prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Hash is what a store keeps of a token. ok is false for a text that no token
// has.
func Hash(secret string) (hash [32]byte, ok bool) {
	if len(secret) != secretText || !strings.HasPrefix(secret, Prefix) {
		return hash, false
	}
	var text [secretText]byte
	copy(text[:], secret)
	var bad byte
	for _, c := range text[len(Prefix):] {
		bad |= foreign[c]
	}
	if bad != 0 {
		return hash, false
	}
	return sha256.Sum256(text[:]), true
}

// foreign has a 1 for each byte that stands in no secret. A table, so that how
// long it takes to look at a text does not depend on what is in it. It is made
// once and never changed.
var foreign = func() (table [256]byte) {
	for c := range table {
		b := byte(c)
		if (b < 'a' || b > 'z') && (b < 'A' || b > 'Z') && (b < '0' || b > '9') && b != '-' && b != '_' {
			table[c] = 1
		}
	}
	return table
}()

package sign

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The prefixes of the texts of keys in Standard Webhooks.
const (
	prefixV1      = "whsec_"
	prefixV1a     = "whsk_"
	prefixPublic  = "whpk_"
	newKeyBytes   = 32
	minV1KeyBytes = 24
	maxV1KeyBytes = 64
)

// hidden is the text that is printed for a Secret.
const hidden = "[secret]"

// Secret is a key of v1 or of v1a. It prints as "[secret]".
type Secret struct {
	// fmt prints unexported fields of every struct with a Secret. Of a function it prints
	// only the address.
	open func() key
}

func secretOf(k key) Secret { return Secret{func() key { return k }} }

// key returns the text of the key. It is empty for the zero Secret.
func (s Secret) key() key {
	if s.open == nil {
		return key{}
	}
	return s.open()
}

// key is a key of v1 or of v1a.
type key struct {
	hmac []byte             // key of v1
	ed   ed25519.PrivateKey // key of v1a
}

// NewV1 returns a new key of v1, with 256 bits of crypto/rand.
func NewV1() Secret {
	raw := make([]byte, newKeyBytes)
	rand.Read(raw) // never fails; see crypto/rand
	return secretOf(key{hmac: raw})
}

// NewV1a returns a new key pair of v1a.
func NewV1a() Secret {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	return secretOf(key{ed: ed25519.NewKeyFromSeed(seed)})
}

// ParseSecret parses a key of v1 or v1a. Its errors have no part of the text.
func ParseSecret(text string) (Secret, error) {
	if encoded, ok := strings.CutPrefix(text, prefixV1); ok {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		switch {
		case err != nil:
			return Secret{}, contract.Invalid("secret", "must be base64 after the prefix %s", prefixV1)
		case len(raw) < minV1KeyBytes || len(raw) > maxV1KeyBytes:
			return Secret{}, contract.Invalid("secret", "has %d bytes after decoding the base64, must have %d to %d",
				len(raw), minV1KeyBytes, maxV1KeyBytes)
		}
		return secretOf(key{hmac: raw}), nil
	}

	encoded, ok := strings.CutPrefix(text, prefixV1a)
	if !ok {
		return Secret{}, contract.Invalid("secret",
			"begins with neither %s nor %s; write %s followed by the base64 form of %d to %d random bytes",
			prefixV1, prefixV1a, prefixV1, minV1KeyBytes, maxV1KeyBytes)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Secret{}, contract.Invalid("secret", "must be base64 after the prefix %s", prefixV1a)
	}

	// Libraries write the seed, with or without the public key.
	if len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return Secret{}, contract.Invalid("secret", "has %d bytes after decoding the base64, must have %d or %d",
			len(raw), ed25519.SeedSize, ed25519.PrivateKeySize)
	}
	pair := ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])
	// A pair with a foreign public half could never be verified.
	if len(raw) == ed25519.PrivateKeySize && subtle.ConstantTimeCompare(pair, raw) != 1 {
		return Secret{}, contract.Invalid("secret", "has a public half that does not belong to its private half")
	}
	return secretOf(key{ed: pair}), nil
}

// Reveal returns the text of the key. Show it only to its owner.
func (s Secret) Reveal() string {
	switch k := s.key(); {
	case k.hmac != nil:
		return prefixV1 + base64.StdEncoding.EncodeToString(k.hmac)
	case k.ed != nil:
		return prefixV1a + base64.StdEncoding.EncodeToString(k.ed.Seed())
	}
	return ""
}

// Public returns the public half of a key of v1a, for receivers. It is empty for a
// key of v1.
func (s Secret) Public() string {
	k := s.key()
	if k.ed == nil {
		return ""
	}
	return prefixPublic + base64.StdEncoding.EncodeToString(k.ed.Public().(ed25519.PublicKey))
}

// Format implements [fmt.Formatter].
func (Secret) Format(f fmt.State, _ rune) { f.Write([]byte(hidden)) }

// MarshalText implements [encoding.TextMarshaler], which JSON uses.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue implements [slog.LogValuer].
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// Pair is a secret with its two keys.
type Pair struct{ V1, V1a Secret }

// NewPair returns a pair of new keys.
func NewPair() Pair { return Pair{V1: NewV1(), V1a: NewV1a()} }

// Replace replaces the key of the same version.
func (p *Pair) Replace(s Secret) {
	if s.key().ed != nil {
		p.V1a = s
	} else {
		p.V1 = s
	}
}

// encode returns the pair as text, to be sealed.
func (p Pair) encode() []byte { return []byte(p.V1.Reveal() + " " + p.V1a.Reveal()) }

// parsePair parses a result of encode.
func parsePair(text []byte) (p Pair, err error) {
	first, second, _ := strings.Cut(string(text), " ")
	if p.V1, err = ParseSecret(first); err != nil {
		return Pair{}, err
	}
	if p.V1a, err = ParseSecret(second); err != nil {
		return Pair{}, err
	}
	// Both forms parse, so the order has to be checked.
	if p.V1.key().hmac == nil || p.V1a.key().ed == nil {
		return Pair{}, contract.Errorf(duly.CodeCorrupt, "the keys of a sealed secret are in the wrong order; rotate the secret")
	}
	return p, nil
}

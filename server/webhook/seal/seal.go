package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

const (
	version    = 1
	keyBytes   = 32
	numberLen  = 4
	headerLen  = 1 + numberLen
	numberSalt = "duly push key"
)

// The errors that [Ring.Open] returns.
var (
	// ErrUnknownKey: the text was sealed with a key that the ring does not have.
	ErrUnknownKey = errors.New("the text was sealed with a key that push.keys does not list; add the key, or rotate the secret")
	// ErrDamaged means that the text was changed, or that it belongs to another place.
	ErrDamaged = errors.New("the sealed text is damaged or belongs to another place; rotate the secret")
)

// Place says what a sealed text is for. The text can be opened only with its own Place.
type Place struct {
	// Kind says what the text is: "secret" or "headers".
	Kind string
	// Namespace and Target own the text. Target is empty for the namespace's own.
	Namespace, Target string
	// Generation is the number of the secret.
	Generation uint64
}

// data returns the additional data of a place. The data contains the lengths of the names, so
// places whose concatenated names are equal differ.
func (p Place) data() []byte {
	var b []byte
	for _, s := range []string{p.Kind, p.Namespace, p.Target} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return binary.BigEndian.AppendUint64(b, p.Generation)
}

// Ring holds keys. The first key seals, and every key opens. A Ring is never changed, so it is safe
// for concurrent use.
type Ring struct{ keys []key }

type key struct {
	number [numberLen]byte
	aead   cipher.AEAD
}

func newKey(raw []byte) (key, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	// The salt makes this number independent of every other use of the key.
	sum := sha256.Sum256(append([]byte(numberSalt), raw...))
	return key{number: [numberLen]byte(sum[:numberLen]), aead: aead}, nil
}

// Seal returns the text sealed with the first key, for the given place.
func (r *Ring) Seal(text []byte, at Place) []byte {
	k := r.keys[0]
	sealed := append([]byte{version}, k.number[:]...)
	return k.aead.Seal(sealed, nil, text, at.data())
}

// Open returns the text that was sealed for this place. It returns
// [ErrUnknownKey] or [ErrDamaged].
func (r *Ring) Open(sealed []byte, at Place) ([]byte, error) {
	if len(sealed) < headerLen || sealed[0] != version {
		return nil, ErrDamaged
	}

	known := false
	for _, k := range r.keys {
		// The number saves a try with every key, and distinguishes a missing key from a damaged text.
		if !bytes.Equal(k.number[:], sealed[1:headerLen]) {
			continue
		}
		known = true
		text, err := k.aead.Open(nil, nil, sealed[headerLen:], at.data())
		if err == nil {
			return text, nil
		}
	}
	if !known {
		return nil, ErrUnknownKey
	}
	return nil, ErrDamaged
}

// Current reports whether the first key sealed the text. A text that another key
// sealed should be sealed again before that key is removed.
func (r *Ring) Current(sealed []byte) bool {
	return len(sealed) >= headerLen && sealed[0] == version && bytes.Equal(r.keys[0].number[:], sealed[1:headerLen])
}

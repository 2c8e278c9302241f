package session

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/internal/ownfile"
)

// KeyFile is the name of the key's file in the data folder.
const KeyFile = "ui-session.key"

// LoadKey returns the key in a file that only its owner may read. It creates the file if create is set. Servers that
// share a file share their sessions.
func LoadKey(path string, create bool) ([]byte, error) {
	f, err := ownfile.Open(path)
	if create && errors.Is(err, fs.ErrNotExist) {
		key := NewKey()
		return key, durable.WriteFile(path, hex.EncodeToString(key)+"\n")
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()

	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeySize {
		return nil, fmt.Errorf("%s has no session key; it needs %d hexadecimal digits in one line", path, 2*KeySize)
	}
	return key, nil
}

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	rand.Read(key) // never fails, see crypto/rand
	return key
}

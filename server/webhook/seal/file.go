package seal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/internal/ownfile"
)

// Prefix begins every key, so that a search for leaked keys finds it.
const Prefix = "dulykey_"

// maxFile is the maximum size of a file with keys. It is more than any ring needs.
const maxFile = 64 << 10

// NewKey returns the text of a new key, with 256 bits of crypto/rand.
func NewKey() string {
	var raw [keyBytes]byte
	rand.Read(raw[:]) // never fails; see crypto/rand
	return Prefix + base64.StdEncoding.EncodeToString(raw[:])
}

// Parse reads keys, one per line. The first key seals. Empty lines and lines that begin with # are
// skipped. No error repeats a part of a key.
func Parse(text string) (*Ring, error) {
	var r Ring
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		encoded, ok := strings.CutPrefix(line, Prefix)
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("line %d is not a key: want %s and the base64 form of %d bytes", i+1, Prefix, keyBytes)
		}
		k, err := newKey(raw)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		r.keys = append(r.keys, k)
	}

	if len(r.keys) == 0 {
		return nil, errors.New("the file has no key; write one key per line")
	}
	return &r, nil
}

// Load reads a file of keys. It refuses a file that other users can read or
// replace.
func Load(path string) (*Ring, error) {
	f, err := ownfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	// Reading one more byte shows whether the file is too large.
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes, so it is not a file of keys", path, maxFile)
	}
	r, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Create reads a file of keys. If the file does not exist, Create writes it with a new key. Only
// its owner can read the file.
func Create(path string) (*Ring, error) {
	// A symbolic link counts as a file, so Create writes nothing through it. Load refuses the link.
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.WriteFile(path, NewKey()+"\n"); err != nil {
			return nil, err
		}
	}
	return Load(path)
}

// Package assets holds the files that browsers load from the dashboard, and the policy that they obey.
//
// The folder vendor has the files of other projects, with their checksums in VENDOR.md. Nothing is loaded from
// another host.
package assets

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"sync"
)

//go:embed app.css *.js icon.svg vendor/*.js vendor/*.css
var embedded embed.FS

// Policy is the Content-Security-Policy of every answer of the dashboard. It permits no inline script or style, no
// eval, and no other origin.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// File is one file in both encodings.
type File struct {
	Type      string // Content-Type
	Raw, Gzip []byte
}

// Set is all files. Its hash covers every file, so a URL with the hash never changes its content.
type Set struct {
	Hash  string
	files map[string]File
}

var types = map[string]string{
	".js":  "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml",
}

// Load reads and compresses the files.
func Load() (*Set, error) { return load(embedded) }

func load(from fs.FS) (*Set, error) {
	s, sum := &Set{files: map[string]File{}}, sha256.New()
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		kind, ok := types[path.Ext(name)]
		if !ok {
			return fmt.Errorf("assets: %s has no content type", name)
		}

		packed, err := Compress(raw)
		if err != nil {
			return err
		}
		// The length separates one file from the next.
		fmt.Fprintf(sum, "%s %d ", name, len(raw))
		sum.Write(raw)
		s.files[name] = File{Type: kind, Raw: raw, Gzip: packed}
		return nil
	})
	s.Hash = hex.EncodeToString(sum.Sum(nil)[:6])
	return s, err
}

// packers are for reuse, because one takes far more memory than a page.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// Compress compresses a file or a page.
func Compress(raw []byte) ([]byte, error) {
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	var packed bytes.Buffer
	w.Reset(&packed)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	err := w.Close()
	return packed.Bytes(), err
}

// File returns a file by its path below the folder of the assets.
func (s *Set) File(name string) (File, bool) {
	f, ok := s.files[name]
	return f, ok
}

package release

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file or folder of an archive. A name that ends with a slash is a folder.
type entry struct {
	name string
	mode int64
	user int // user and group that own the file
	body []byte
}

// archive writes the archive of a platform: zip for Windows, tar.gz for others. Its
// files are in one folder.
func (b *builder) archive(t Target, files []entry) error {
	folder := "duly_" + b.Version[1:] + "_" + t.String()
	// The package uses the same entries later, so the names are changed in a copy.
	inside := make([]entry, len(files))
	for i, f := range files {
		inside[i] = f
		inside[i].name = path.Join(folder, f.name)
	}

	var out bytes.Buffer
	if t.OS == "windows" {
		if err := writeZip(&out, inside, b.date); err != nil {
			return err
		}
		return os.WriteFile(b.path("%s.zip", t), out.Bytes(), 0o644)
	}
	if err := writeTar(&out, inside, b.date); err != nil {
		return err
	}
	packed, err := compress(out.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(b.path("%s.tar.gz", t), packed, 0o644)
}

// writeTar writes the entries in their order, each with the same time.
func writeTar(w io.Writer, entries []entry, date time.Time) error {
	out := tar.NewWriter(w)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.body)),
			Uid: e.user, Gid: e.user, ModTime: date, Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := out.Write(e.body); err != nil {
			return err
		}
	}
	return out.Close()
}

// compress compresses with gzip. The header has no name and no time.
func compress(plain []byte) ([]byte, error) {
	var packed bytes.Buffer
	out, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := out.Write(plain); err != nil {
		return nil, err
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// writeZip writes the entries in their order, each with the same time.
func writeZip(w io.Writer, entries []entry, date time.Time) error {
	out := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		h.SetMode(os.FileMode(e.mode))
		f, err := out.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.body); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeSums writes SHA256SUMS with a line for every file in dir, in the form that
// `sha256sum -c` reads.
func writeSums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, f := range files {
		body, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(body), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o644)
}

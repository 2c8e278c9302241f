package sqliteengine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/dulymq/duly"
)

// ballastEnd is the end of the ballast's file name: PATH-ballast.
const ballastEnd = "-ballast"

// The ballast of a store that accepts jobs is an eighth of its file system,
// within these bounds.
const (
	mostBallast  = 8 << 20
	leastBallast = 1 << 20
)

// ballastGrain is the smallest piece by which a ballast grows on a full disk.
const ballastGrain = 64 << 10

// ballast is a file that occupies disk space so that nobody else does. The
// store cuts it when it needs the room for itself.
type ballast struct {
	path string
	f    *os.File // nil if the file could not be made yet
	size int64    // how much of the disk it holds
	base int64    // how much it should hold while the log is empty
	// allocate gives a part of the file its blocks. Tests replace it.
	allocate func(f *os.File, from, n int64) error
}

// openBallast opens or makes the ballast of the store. A file that is checked
// aside has none: it is never written to for long.
func (c Config) openBallast() *ballast {
	if c.aside {
		return &ballast{path: c.Path + ballastEnd, allocate: allocate}
	}
	return openBallast(c.Path)
}

// openBallast opens or makes the ballast of the store at path. A ballast that
// can't be made is empty; grow tries again.
func openBallast(path string) *ballast {
	b := &ballast{path: path + ballastEnd, base: mostBallast, allocate: allocate}
	if total, err := diskSize(path); err == nil {
		b.base = min(max(total/8, leastBallast), mostBallast)
	}

	if err := b.open(); err != nil {
		return b
	}
	if info, err := b.f.Stat(); err == nil && b.allocate(b.f, 0, info.Size()) == nil {
		b.size = info.Size() // of a copied file, blocks may have been missing
	}
	return b
}

func (b *ballast) open() error {
	if b.f != nil {
		return nil
	}
	info, err := os.Lstat(b.path)
	if err == nil && !info.Mode().IsRegular() {
		return duly.Errorf(duly.CodeUnavailable, "%s is not a regular file; remove it: the store makes one of that name to reserve disk space", b.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	b.f, err = os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// check returns an error if the file can't be opened for another reason than a
// full disk. Without it the store would seem to have no room.
func (b *ballast) check() error {
	err := b.open()
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}

	var ours *duly.Error
	if errors.As(err, &ours) {
		return err
	}
	return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf("%s, which reserves disk space for the store, can't be opened: %s; remove it, or make it yours", b.path, plain(err))}
}

// grow makes the ballast at least that large. On a disk with too little room
// it becomes as large as possible, and grow returns an error.
func (b *ballast) grow(to int64) error {
	if b.size >= to {
		return nil
	}
	if err := b.open(); err != nil {
		return err
	}
	if err := b.extend(to); err == nil {
		return nil
	}

	for b.size < to { // the rest of the disk, piece by piece
		if err := b.extend(min(b.size+ballastGrain, to)); err != nil {
			return err
		}
	}
	return nil
}

func (b *ballast) extend(to int64) error {
	if err := b.allocate(b.f, b.size, to-b.size); err != nil {
		return errors.Join(err, b.f.Truncate(b.size)) // part of it may have been allocated
	}
	b.size = to
	return nil
}

// cut frees all of the ballast but that many bytes. The file is synced because
// some file systems reuse the room only after that.
func (b *ballast) cut(to int64) error {
	if to = max(to, 0); b.size <= to {
		return nil
	}
	if err := b.f.Truncate(to); err != nil {
		return err
	}
	b.size = to
	return b.f.Sync()
}

// close leaves the file as it is.
func (b *ballast) close() error {
	if b.f == nil {
		return nil
	}
	return b.f.Close()
}

// writeNoise allocates a part of a file by writing to it. The bytes are random,
// so that a file system which compresses can't store them in less room.
func writeNoise(f *os.File, from, n int64) error {
	noise := make([]byte, ballastGrain)
	for n > 0 {
		piece := noise[:min(n, ballastGrain)]
		rand.Read(piece)
		if _, err := f.WriteAt(piece, from); err != nil {
			return err
		}
		from, n = from+int64(len(piece)), n-int64(len(piece))
	}
	return nil
}

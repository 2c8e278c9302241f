package sqliteengine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// ballastSuffix is the suffix of the ballast's file name: PATH-ballast.
const ballastSuffix = "-ballast"

// The ballast of a store that accepts jobs is an eighth of its file system, within
// these limits.
const (
	mostBallast  = 8 << 20
	leastBallast = 1 << 20
)

// ballastGrain is the smallest step by which a ballast grows on a full disk.
const ballastGrain = 64 << 10

// ballast is a file that reserves disk space. The store cuts it when it needs the
// space itself.
type ballast struct {
	path string
	f    *os.File // nil if the file could not be created yet
	size int64    // how much of the disk it occupies
	base int64    // its size while the WAL is empty
	// allocate allocates the blocks of a part of the file. Tests replace it.
	allocate func(f *os.File, from, n int64) error
}

// openBallast opens or creates the ballast of the store. A file that a restore checks
// has none, because it is written only briefly.
func (c Config) openBallast() *ballast {
	if c.isCopy {
		return &ballast{path: c.Path + ballastSuffix, allocate: allocate}
	}
	return openBallast(c.Path)
}

// openBallast opens or creates the ballast of the store at path. If that fails, the
// ballast is empty and grow tries again.
func openBallast(path string) *ballast {
	b := &ballast{path: path + ballastSuffix, base: mostBallast, allocate: allocate}
	if total, err := diskSize(path); err == nil {
		b.base = min(max(total/8, leastBallast), mostBallast)
	}

	if err := b.open(); err != nil {
		return b
	}
	if info, err := b.f.Stat(); err == nil && b.allocate(b.f, 0, info.Size()) == nil {
		b.size = info.Size() // allocate filled holes that a copied file may have
	}
	return b
}

func (b *ballast) open() error {
	if b.f != nil {
		return nil
	}
	info, err := os.Lstat(b.path)
	if err == nil && !info.Mode().IsRegular() {
		return contract.Errorf(duly.CodeUnavailable, "%s is not a regular file; remove it: the store needs that name to reserve disk space", b.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	b.f, err = os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// check returns an error if the file can't be opened for another reason than a full
// disk. Otherwise the store would seem to be short of space.
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
		Message: fmt.Sprintf("%s reserves disk space for the store and can't be opened: %s; remove it or change its owner", b.path, reason(err))}
}

// grow makes the ballast at least that large. If the disk is too full, grow makes it as
// large as possible and returns an error.
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

	for b.size < to { // takes the rest of the disk step by step
		if err := b.extend(min(b.size+ballastGrain, to)); err != nil {
			return err
		}
	}
	return nil
}

func (b *ballast) extend(to int64) error {
	if err := b.allocate(b.f, b.size, to-b.size); err != nil {
		return errors.Join(err, b.f.Truncate(b.size)) // frees a partial allocation
	}
	b.size = to
	return nil
}

// cut shrinks the ballast to that many bytes. It syncs the file, because some file
// systems free the space only then.
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

// close closes the file and keeps it.
func (b *ballast) close() error {
	if b.f == nil {
		return nil
	}
	return b.f.Close()
}

// writeNoise allocates a part of a file by writing to it. The bytes are random, so that
// a compressing file system can't store them in less space.
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

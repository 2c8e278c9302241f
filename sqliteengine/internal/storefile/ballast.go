package storefile

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

// BallastSuffix is the suffix of the ballast's file name: PATH-ballast.
const BallastSuffix = "-ballast"

// The ballast of a store that accepts jobs is an eighth of its file system, within
// these limits.
const (
	mostBallast  = 8 << 20
	leastBallast = 1 << 20
)

// BallastGrain is the smallest step by which a ballast grows on a full disk.
const BallastGrain = 64 << 10

// Ballast is a file that reserves disk space. The store cuts it when it needs the space.
type Ballast struct {
	path string
	f    *os.File // nil if the file could not be created so far
	size int64    // bytes of disk space that the ballast occupies
	base int64    // the ballast's size while the WAL is empty
	// Allocate, if set, allocates the blocks of a part of the file. Only tests set it.
	Allocate func(f *os.File, from, n int64) error
}

// NoBallast returns the ballast of a file that is written only briefly. The ballast stays empty.
func NoBallast(path string) *Ballast {
	return &Ballast{path: path + BallastSuffix}
}

// Size returns how many bytes of the disk the ballast occupies.
func (b *Ballast) Size() int64 { return b.size }

// Base returns the size of the ballast while the WAL is empty.
func (b *Ballast) Base() int64 { return b.base }

// OpenBallast opens or creates the ballast of the store at path. If that fails, the
// ballast is empty and Grow tries again.
func OpenBallast(path string) *Ballast {
	b := &Ballast{path: path + BallastSuffix, base: mostBallast}
	if total, err := diskSize(path); err == nil {
		b.base = min(max(total/8, leastBallast), mostBallast)
	}

	// A full disk must not keep the store from opening.
	if err := b.open(); err != nil {
		return b
	}
	if info, err := b.f.Stat(); err == nil && b.allocate(0, info.Size()) == nil {
		// allocate has filled the holes that a copied file may have.
		b.size = info.Size()
	}
	return b
}

func (b *Ballast) open() error {
	if b.f != nil {
		return nil
	}
	// Growing through a symbolic link would change a file of somebody else.
	info, err := os.Lstat(b.path)
	if err == nil && !info.Mode().IsRegular() {
		return contract.Errorf(duly.CodeUnavailable,
			"%s is not a regular file; remove it, because the store needs this name to reserve disk space", b.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	b.f, err = os.OpenFile(b.path, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// Check returns an error if the file can't be opened for another reason than a full disk. Without
// this check, the store would seem to be short of space.
func (b *Ballast) Check() error {
	err := b.open()
	if err == nil || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}

	var ours *duly.Error
	if errors.As(err, &ours) {
		return err
	}
	return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf("%s reserves disk space for the store and can't be opened: %s; remove it or change its "+
			"owner", b.path, Reason(err))}
}

// Grow makes the ballast at least as large as the given size. If the disk has too little space,
// Grow makes the ballast as large as possible and returns an error.
func (b *Ballast) Grow(to int64) error {
	if b.size >= to {
		return nil
	}
	if err := b.open(); err != nil {
		return err
	}
	if err := b.extend(to); err == nil {
		return nil
	}

	// The whole size did not fit, so the ballast takes the rest of the disk step by step.
	for b.size < to {
		if err := b.extend(min(b.size+BallastGrain, to)); err != nil {
			return err
		}
	}
	return nil
}

func (b *Ballast) allocate(from, n int64) error {
	if b.Allocate != nil {
		return b.Allocate(b.f, from, n)
	}
	return allocate(b.f, from, n)
}

func (b *Ballast) extend(to int64) error {
	if err := b.allocate(b.size, to-b.size); err != nil {
		// Truncate frees the space that was allocated before the error.
		return errors.Join(err, b.f.Truncate(b.size))
	}
	b.size = to
	return nil
}

// Cut shrinks the ballast to the given number of bytes. It syncs the file, because some file
// systems free the space only at a sync.
func (b *Ballast) Cut(to int64) error {
	if to = max(to, 0); b.size <= to {
		return nil
	}
	if err := b.f.Truncate(to); err != nil {
		return err
	}
	b.size = to
	return b.f.Sync()
}

// Close closes the file and does not remove it.
func (b *Ballast) Close() error {
	if b.f == nil {
		return nil
	}
	return b.f.Close()
}

// writeNoise allocates a part of a file by writing to it. The bytes are random, so that
// a compressing file system can't store them in less space.
func writeNoise(f *os.File, from, n int64) error {
	noise := make([]byte, BallastGrain)
	for n > 0 {
		piece := noise[:min(n, BallastGrain)]
		rand.Read(piece)
		if _, err := f.WriteAt(piece, from); err != nil {
			return err
		}
		from, n = from+int64(len(piece)), n-int64(len(piece))
	}
	return nil
}

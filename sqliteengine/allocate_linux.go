package sqliteengine

import (
	"errors"
	"os"
	"syscall"
)

// allocate gives a part of a file its blocks on the disk. File systems without
// such a call get them by a write.
func allocate(f *os.File, from, n int64) error {
	if n <= 0 {
		return nil
	}
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, from, n)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return writeNoise(f, from, n)
		default:
			return err
		}
	}
}

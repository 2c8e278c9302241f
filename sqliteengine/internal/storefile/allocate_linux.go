package storefile

import (
	"errors"
	"os"
	"syscall"
)

// allocate allocates the disk blocks of a part of a file. On file systems without a call for that,
// it writes to the file.
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

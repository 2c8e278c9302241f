//go:build unix

package storefile

import (
	"errors"
	"os"
	"syscall"
)

// noFollow is the flag that makes opening a symbolic link fail.
const noFollow = syscall.O_NOFOLLOW

// lockFile locks an open file. It returns false if another open file holds the lock, in
// this process or another.
func lockFile(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case errors.Is(err, syscall.EINTR):
		default:
			return false, err
		}
	}
}

// unlockFile releases the lock. Closing the file is not enough, because a child forked a
// moment ago may still have it open.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

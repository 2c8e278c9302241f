package storefile

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// noFollow is empty: on Windows only administrators can create symbolic links.
const noFollow = 0

// lockedAt is the locked byte. It lies far after the process ID, because other processes can't read
// a locked byte.
const lockedAt = 1 << 20

// lockFile locks an open file. It returns false if another open file holds the lock, in
// this process or another.
func lockFile(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockedAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// unlockFile releases the lock at once. Closing the file would release it with a delay.
func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{Offset: lockedAt})
}

package sqliteengine

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// noFollow is empty: on Windows only administrators may make symbolic links.
const noFollow = 0

// lockedAt is the byte that is locked: far behind the text, for on Windows a
// locked byte can't be read by others.
const lockedAt = 1 << 20

// lockFile takes the lock of an open file for this opening of it; false if
// another one has it, be it of this process or of another.
func lockFile(f *os.File) (bool, error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockedAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// unlockFile gives the lock up at once. Closing the file alone would do so when
// the system gets to it.
func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{Offset: lockedAt})
}

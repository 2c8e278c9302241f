package storefile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Lock takes the file's lock, PATH-lock, while the engine is open: only one process, and only one
// engine in it, has a file open. SQLite allows several processes to write in turn, but the engine
// keeps the state of its queues in memory, which another writer would make stale.
//
// The kernel releases the lock when the process ends. The lock file stays. If it were removed, a
// second process could wait for the old file while a third process locks a new file.
//
// Lock refuses a symbolic link, because it truncates the file and the link may point to any file of
// this user.
//
// The text advice ends the error for a file that another process has open.
func Lock(path, advice string) (*os.File, error) {
	f, err := openLock(path + "-lock")
	if err != nil {
		return nil, err
	}

	held, err := lockFile(f)
	if err != nil {
		f.Close()
		return nil, &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("%s-lock can't be locked (%s); put the file on a local disk", path, Reason(err))}
	}
	if !held {
		owner := lockOwner(f)
		f.Close()
		return nil, contract.Errorf(duly.CodeUnavailable,
			"%s is open in %s; %s", path, owner, advice)
	}
	// The process ID is used only in error messages of other processes.
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}

// openLock opens or creates the lock file.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		// For a symbolic link, the error differs between systems, so the file is examined instead.
		if info, _ := os.Lstat(path); info != nil && info.Mode()&os.ModeSymlink != 0 {
			return nil, contract.Errorf(duly.CodeUnavailable, "%s is a symbolic link, which another user may have created; remove it",
				path)
		}
		return nil, NotWritable(path, err)
	}

	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = contract.Errorf(duly.CodeUnavailable, "%s is not a regular file; remove it", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Unlock releases the lock. f is nil for a temporary copy, which has no lock.
func Unlock(f *os.File) error {
	if f == nil {
		return nil
	}
	return errors.Join(unlockFile(f), f.Close())
}

// Holder describes the process that has a file open, according to the lock file. It returns "" if
// no process has it open. It changes nothing.
func Holder(path string) string {
	f, err := os.Open(path + "-lock")
	if err != nil {
		return ""
	}
	defer f.Close()
	held, err := lockFile(f)
	if err == nil && !held {
		return lockOwner(f)
	}
	if held {
		_ = unlockFile(f)
	}
	return ""
}

// lockOwner describes the process that holds the lock, as its lock file says.
func lockOwner(f *os.File) string {
	// Any program may have written the file, so only the length of a number is read.
	text, err := io.ReadAll(io.LimitReader(f, 32))
	pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case err != nil || bad != nil:
		return "another process"
	case pid == os.Getpid():
		return "this process already"
	}
	return fmt.Sprintf("another process (%d)", pid)
}

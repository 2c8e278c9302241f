package sqliteengine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
)

// lock takes the file's lock, PATH-lock, for as long as the engine is open:
// one file, one process, and one engine in it. SQLite would let several
// processes write in turn; but what the engine knows about its queues stands in
// memory, so a second writer would work on what is no longer true.
//
// The kernel lets the lock go when the process ends, however it ends. The file
// itself stays: removing it would let a third process lock a new one while a
// second waits for the old.
//
// It refuses a symbolic link, because it truncates the file and the link may
// point to any file of this user.
//
// The error of a file that is open elsewhere ends with the advice.
func lock(path, advice string) (*os.File, error) {
	f, err := openLock(path + "-lock")
	if err != nil {
		return nil, err
	}

	held, err := lockFile(f)
	if err != nil {
		f.Close()
		return nil, &duly.Error{Code: duly.CodeUnavailable, Cause: err,
			Message: fmt.Sprintf("%s-lock can't be locked (%s); put the file on a local disk", path, plain(err))}
	}
	if !held {
		owner := lockOwner(f)
		f.Close()
		return nil, duly.Errorf(duly.CodeUnavailable,
			"%s is open in %s; %s", path, owner, advice)
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}

// openElsewhere is the advice to a process that wants to open the file.
const openElsewhere = "one file serves one process: use that one's server, or stop it first"

// openLock opens the lock file, or makes it.
func openLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		if info, _ := os.Lstat(path); info != nil && info.Mode()&os.ModeSymlink != 0 {
			return nil, duly.Errorf(duly.CodeUnavailable, "%s is a symbolic link, maybe of another user; remove it", path)
		}
		return nil, cannotWrite(path, err)
	}

	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = duly.Errorf(duly.CodeUnavailable, "%s is not a regular file; remove it", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// unlock lets others have the file. A copy that was checked has no lock: nil.
func unlock(f *os.File) error {
	if f == nil {
		return nil
	}
	return errors.Join(unlockFile(f), f.Close())
}

// heldBy names the process that has a file open; empty if none has, as far as its
// lock file says. It changes nothing.
func heldBy(path string) string {
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

// lockOwner names the process that holds the lock, as far as it says who it is.
func lockOwner(f *os.File) string {
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

func cannotWrite(path string, err error) error {
	return &duly.Error{Code: duly.CodeUnavailable, Cause: err,
		Message: fmt.Sprintf("the folder %s can't be written to (%s); give a path whose folder can", filepath.Dir(path), plain(err))}
}

// plain is the reason alone, without the path that os puts before it.
func plain(err error) string {
	if e, ok := err.(*os.PathError); ok {
		return e.Err.Error()
	}
	return err.Error()
}

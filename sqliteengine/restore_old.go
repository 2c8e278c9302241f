package sqliteengine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// What a restore does with the store that it replaces.

// replaceable reports whether there is a store to be replaced. It refuses a file
// that is not one: a mistyped path must not cost another program its data. What is
// damaged, or of a newer version, may be replaced.
func replaceable(path string) (there bool, err error) {
	h, err := current.readHeader(path)
	switch {
	case errors.Is(err, errCut), errors.Is(err, duly.ErrUnsupported):
		return true, nil
	case errors.Is(err, errForeign):
		return false, duly.Errorf(duly.CodeCorrupt,
			"%s is not a file of duly and was left as it is; give another path, or move it away with its -wal and -shm", path)
	}
	return !h.missing, err
}

// foldLog moves the log of a store that was not closed into its file, and removes
// it for good. A store that was closed is not touched, however damaged it is.
func foldLog(path string) error {
	if !exists(path+"-wal") && !exists(path+"-journal") {
		return nil
	}
	if err := moveOldLog(path); err != nil {
		if sq.IsCorrupt(err) {
			return &duly.Error{Code: duly.CodeCorrupt, Cause: err,
				Message: fmt.Sprintf("%s is damaged and its log can't be moved into it; nothing was restored: "+
					"move it away with its -wal and -shm, then restore", path)}
		}
		return storeError(path, err)
	}

	for _, end := range []string{"-wal", "-journal"} {
		if info, err := os.Stat(path + end); err == nil && info.Size() > 0 {
			return duly.Errorf(duly.CodeUnavailable,
				"%s%s is still in use; nothing was restored: end the program that has %s open", path, end, path)
		}
	}
	for _, end := range []string{"-wal", "-journal", "-shm"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cannotWrite(path, err)
		}
	}
	return durable.SyncFolder(filepath.Dir(path))
}

func moveOldLog(path string) error {
	c, err := sq.Open(path, sq.ReadWrite)
	if err != nil {
		return err
	}
	err = c.Exec(fmt.Sprintf(`PRAGMA busy_timeout = %d; PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;`, busyTimeout))
	if err == nil {
		_, err = c.Query("PRAGMA schema_version") // reads the log, or rolls a journal back
	}
	if err == nil && exists(path+"-wal") {
		var log, moved int
		if log, moved, err = c.Checkpoint(sq.Truncate); err == nil && log != moved {
			err = fmt.Errorf("sqliteengine: %d of %d pages of the log were moved into the file", moved, log)
		}
	}
	return errors.Join(err, c.Close())
}

// keepOld gives the old file a second name. Where the file system has no hard
// links, it is copied.
func (r *restore) keepOld() error {
	name := r.path + keptMark + r.p.Clock.Now().UTC().Format(keptTime)
	kept := name
	for n := 2; exists(kept); n++ {
		kept = fmt.Sprintf("%s-%d", name, n)
	}
	err := os.Link(r.path, kept)
	if err != nil {
		err = copyFile(r.path, kept)
	}
	if err != nil {
		return notDone(err, "the old store can't be kept as %s", kept)
	}
	r.done.Kept = kept
	return durable.SyncFolder(filepath.Dir(r.path))
}

// copyFile copies a file that nobody writes to.
func copyFile(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+restoreMark+"*"+copyEnd)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it was renamed
	if _, err := io.Copy(f, from); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := giveTo(path, f); err != nil {
		return errors.Join(err, f.Close())
	}
	return durable.Place(f, to)
}

// asideEnds are the ends of the files that an engine on a copy makes.
var asideEnds = []string{"", "-wal", "-shm", "-journal", ballastEnd}

// dropKept takes the second name of a store back that a killed restore has not
// replaced. The caller holds the lock.
func dropKept(path string, beside []os.DirEntry) (err error) {
	info, missing := os.Stat(path)
	if missing != nil {
		return nil
	}
	for _, name := range keptNames(path, info, beside) {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// keptNames are the names of kept stores that are other names of the store itself.
func keptNames(path string, info os.FileInfo, beside []os.DirEntry) (names []string) {
	for _, f := range beside {
		if !strings.HasPrefix(f.Name(), filepath.Base(path)+keptMark) {
			continue
		}
		name := filepath.Join(filepath.Dir(path), f.Name())
		if kept, err := os.Lstat(name); err == nil && os.SameFile(kept, info) {
			names = append(names, name)
		}
	}
	return names
}

// halfRestored reports whether the other names of a file are those that a killed
// restore has left.
func halfRestored(path string, info os.FileInfo) bool {
	beside, _ := os.ReadDir(filepath.Dir(path))
	return links(info) == uint64(1+len(keptNames(path, info, beside)))
}

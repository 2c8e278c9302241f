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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/durable"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// These functions deal with the store that a restore replaces.

// hasReplaceable reports whether there is a store to replace. It returns an error for a file of
// another program, because a mistyped path must not destroy it. A damaged store or a store of a
// newer version may be replaced.
func hasReplaceable(path string) (there bool, err error) {
	h, err := current.readHeader(path)
	switch {
	case errors.Is(err, errCut), errors.Is(err, duly.ErrUnsupported):
		return true, nil
	case errors.Is(err, errForeign):
		return false, contract.Errorf(duly.CodeCorrupt,
			"%s is not a file of duly and was left as it is; give another path, or move it away with its -wal and "+
				"-shm", path)
	}
	return !h.missing, err
}

// foldWAL moves the WAL of a store that was not closed into its file, and removes the WAL.
// It does not touch a store that was closed, even a damaged one.
func foldWAL(path string) error {
	if !exists(path+"-wal") && !exists(path+"-journal") {
		return nil
	}
	if err := moveOldWAL(path); err != nil {
		if sqliteconn.IsCorrupt(err) {
			return &duly.Error{Code: duly.CodeCorrupt, Cause: err,
				Message: fmt.Sprintf("%s is damaged and its write-ahead log can't be moved into it; nothing was "+
					"restored: "+
					"move it away with its -wal and -shm, then restore", path)}
		}
		return storeError(path, err)
	}

	for _, end := range []string{"-wal", "-journal"} {
		// Both files are empty now, unless another program uses the store.
		if info, err := os.Stat(path + end); err == nil && info.Size() > 0 {
			return contract.Errorf(duly.CodeUnavailable,
				"%s%s is still in use; nothing was restored: end the program that has %s open", path, end, path)
		}
	}
	for _, end := range []string{"-wal", "-journal", "-shm"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return storefile.NotWritable(path, err)
		}
	}
	// Without this sync, a power cut could restore the WAL, which would then be read into the new
	// file.
	return durable.SyncFolder(filepath.Dir(path))
}

func moveOldWAL(path string) error {
	c, err := sqliteconn.Open(path, sqliteconn.ReadWrite)
	if err != nil {
		return err
	}
	// The last changes must be on the disk before foldWAL removes the WAL.
	err = c.Exec(fmt.Sprintf(`PRAGMA busy_timeout = %d; PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;`, busyTimeout))
	if err == nil {
		// Any query recovers the WAL, or rolls back a journal.
		_, err = c.Query("PRAGMA schema_version")
	}
	if err == nil && exists(path+"-wal") {
		var log, moved int
		if log, moved, err = c.Checkpoint(sqliteconn.Truncate); err == nil && log != moved {
			err = fmt.Errorf("sqliteengine: only %d of %d pages of the WAL were moved into the file", moved, log)
		}
	}
	return errors.Join(err, c.Close())
}

// keepOld gives the old file a second name. It copies the file if the file system has no
// hard links.
func (r *restore) keepOld() error {
	name := r.path + keptMark + r.p.Clock.Now().UTC().Format(keptTime)
	kept := name
	// Two restores within a second need different names.
	for n := 2; exists(kept); n++ {
		kept = fmt.Sprintf("%s-%d", name, n)
	}
	// A rename would leave the path without a store until place is called.
	err := os.Link(r.path, kept)
	if err != nil {
		err = copyFile(r.path, kept)
	}
	if err != nil {
		return restoreError(err, "the old store can't be kept as %s", kept)
	}
	r.done.Kept = kept
	return durable.SyncFolder(filepath.Dir(r.path))
}

// copyFile copies a file that no program is writing to.
func copyFile(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	// Open removes a file of this name, which a kill may leave incomplete.
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+restoreMark+"*"+copySuffix)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails if the file was already renamed
	if _, err := io.Copy(f, from); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := storefile.GiveTo(path, f); err != nil {
		return errors.Join(err, f.Close())
	}
	return durable.Place(f, to)
}

// copySuffixes lists the suffixes of the files that an engine on a copy creates.
var copySuffixes = []string{"", "-wal", "-shm", "-journal", storefile.BallastSuffix}

// dropKept removes the second name of a store that a killed restore has not replaced. The
// caller holds the lock.
func dropKept(path string, beside []os.DirEntry) (err error) {
	// If no file is at the path, the second name is the only name of the store, so it is kept.
	info, missing := os.Stat(path)
	if missing != nil {
		return nil
	}
	for _, name := range keptNames(path, info, beside) {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// keptNames returns the names of kept stores that are hard links of the store itself.
func keptNames(path string, info os.FileInfo, beside []os.DirEntry) (names []string) {
	for _, f := range beside {
		if !strings.HasPrefix(f.Name(), filepath.Base(path)+keptMark) {
			continue
		}
		name := filepath.Join(filepath.Dir(path), f.Name())
		// A symbolic link to the store is not a second name of its file.
		if kept, err := os.Lstat(name); err == nil && os.SameFile(kept, info) {
			names = append(names, name)
		}
	}
	return names
}

// halfRestored reports whether all other names of a file come from a killed restore.
func halfRestored(path string, info os.FileInfo) bool {
	beside, _ := os.ReadDir(filepath.Dir(path))
	return storefile.Links(info) == uint64(1+len(keptNames(path, info, beside)))
}

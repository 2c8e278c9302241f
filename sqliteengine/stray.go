package sqliteengine

import (
	"fmt"
	"os"

	"github.com/dulymq/duly"
)

// This file keeps SQLite from what it would do without a word: read a log that
// is not this file's, and write to a file that goes by two names.

// mustBeFile refuses what is there and is no file, before anything is made
// beside it or waits for it.
func mustBeFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil: // none yet, or whoever reads it tells
		return nil
	case !info.Mode().IsRegular():
		return notFile(path, nil)
	case links(info) > 1 && !halfRestored(path, info):
		return duly.Errorf(duly.CodeInvalid, "%s has a second name, a hard link: each would have a log of its own; remove one of them, or copy the file", path)
	}
	return nil
}

func notFile(path string, cause error) error {
	return &duly.Error{Code: duly.CodeInvalid, Cause: cause, Message: fmt.Sprintf("%s is not a file; give the path of one", path)}
}

// strayLog refuses a log beside a file that has none. The file of a store says
// from its making on that it has one; a backup does not, and a file that is
// empty or not there can't.
func strayLog(path, what string) error {
	info, err := os.Stat(path + "-wal")
	if err != nil || info.Size() == 0 {
		return nil
	}
	return duly.Errorf(duly.CodeCorrupt,
		"%s %s, and %s-wal is the log of another file; move it and %s-shm away, or put that file back", path, what, path, path)
}

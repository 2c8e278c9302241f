package sqliteengine

import (
	"fmt"
	"os"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// These checks prevent two silent errors of SQLite: it reads a WAL that belongs to another file,
// and it writes to a file that has two names.

// checkRegular returns an error if path exists and is not a regular file. It runs before the engine
// opens path, which could block, or creates a file next to it.
func checkRegular(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil: // path does not exist, or the next read of it returns the error
		return nil
	case !info.Mode().IsRegular():
		return notRegular(path, nil)
	case storefile.Links(info) > 1 && !halfRestored(path, info):
		return contract.Errorf(duly.CodeInvalid,
			"%s has several hard links, and SQLite would keep a separate write-ahead log for each; remove the "+
				"other names, or copy the file", path)
	}
	return nil
}

func notRegular(path string, cause error) error {
	return &duly.Error{Code: duly.CodeInvalid, Cause: cause,
		Message: fmt.Sprintf("%s is not a regular file; give another path", path)}
}

// checkStrayWAL returns an error if a WAL exists next to a file that can't have one: a backup,
// an empty or a missing file. The header of a store says that it has a WAL.
func checkStrayWAL(path, what string) error {
	info, err := os.Stat(path + "-wal")
	if err != nil || info.Size() == 0 {
		return nil
	}
	return contract.Errorf(duly.CodeCorrupt,
		"%s %s, so %s-wal belongs to another file; move it and %s-shm away, or put that file back",
		path, what, path, path)
}

package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes a file that its owner alone can read, in place of what is
// there.
func WriteFile(path string, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it was renamed
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	return Place(f, path)
}

// Place syncs and closes a file that was written beside path and gives it that
// name, in place of what is there. After an error the file is closed; whoever
// made it removes it.
func Place(f *os.File, path string) error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteFile writes a file that only its owner can read. It replaces an existing file.
func WriteFile(path string, text string) error {
	// Creates the file with mode 0600.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails if the file was already renamed
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	return Place(f, path)
}

// Place syncs and closes f, which must be in the folder of path, and renames it to path. It
// replaces an existing file. After an error f is closed and the caller must remove it.
func Place(f *os.File, path string) error {
	// The data must be on disk before the name is, or a power cut could leave an empty file.
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

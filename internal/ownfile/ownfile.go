package ownfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// credentials is the environment variable with the folder in which a service manager passes
// secrets to one service.
const credentials = "CREDENTIALS_DIRECTORY"

// Open opens a file with secrets for reading. It fails if [Check] does. A named pipe without a
// writer reads as an empty file.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|dontWait, 0)
	if err != nil {
		return nil, err
	}
	if err := Check(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Check refuses a file that another user owns or can read: because its content may not be secret,
// or may come from that user. Credentials of a service manager pass with any mode, because systemd
// gives the service access by an access list, which appears as a permission of the group.
func Check(f *os.File) error {
	if dir := os.Getenv(credentials); dir != "" && filepath.Dir(f.Name()) == filepath.Clean(dir) {
		return nil
	}

	info, err := f.Stat()
	if err != nil {
		return err
	}
	return checkFile(f.Name(), info, os.Geteuid())
}

func checkFile(path string, info fs.FileInfo, me int) error {
	switch {
	case !modes:
		return nil
	case !trusted(info, me):
		return fmt.Errorf("%s belongs to another user, who can change it; make it yours with chown, or delete it", path)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s can be read by others (mode %04o); chmod 600 it, and replace its secrets if another user "+
			"may have read it",
			path, info.Mode().Perm())
	}
	return nil
}

// CheckFolder refuses a folder that another user owns or can write to: that user
// could replace every file in it. The user's own group may write, as with a
// umask of 002.
func CheckFolder(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return checkFolder(path, info, os.Geteuid())
}

func checkFolder(path string, info fs.FileInfo, me int) error {
	switch {
	case !modes:
		return nil
	case !trusted(info, me):
		return fmt.Errorf("the folder %s belongs to another user, who can replace the files in it; use a folder that belongs to you", path)
	case writable(info, me):
		return fmt.Errorf("the folder %s can be written to by others (mode %04o), who could replace the files in it; "+
			"look for files that are not yours, then chmod go-w it", path, info.Mode().Perm())
	}
	return nil
}

//go:build unix

package sqliteengine

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dulymq/duly"
)

// C11.21: a file with two hard links would have two locks and two WALs.
func TestFileWithTwoNamesIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "duly.db"), filepath.Join(dir, "other.db")
	mustOpen(t, path)
	if err := os.Link(path, other); err != nil {
		t.Skip(err)
	}
	mustRefuse(t, other, duly.ErrInvalid, "hard link")
}

// The engine refuses a file that is not regular before it opens the file or creates other files.
func TestNonRegularFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{pipe, dir} {
		mustRefuse(t, path, duly.ErrInvalid, "is not a regular file")
		if _, err := os.Stat(path + "-lock"); err == nil {
			t.Errorf("a lock was left beside %s", path)
		}
	}
}

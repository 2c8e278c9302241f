//go:build unix

package sqliteengine

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/dulymq/duly"
)

// C11.21: two hard links would be two locks and two logs of one file.
func TestAFileOfTwoNamesIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, other := filepath.Join(dir, "duly.db"), filepath.Join(dir, "other.db")
	mustOpen(t, path)
	if err := os.Link(path, other); err != nil {
		t.Skip(err)
	}
	mustRefuse(t, other, duly.ErrInvalid, "hard link")
}

// What is no file is refused before anything waits for it or stands beside it.
func TestWhatIsNoFileIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{pipe, dir} {
		mustRefuse(t, path, duly.ErrInvalid, "is not a file")
		if _, err := os.Stat(path + "-lock"); err == nil {
			t.Errorf("a lock was left beside %s", path)
		}
	}
}

//go:build unix

package sqliteengine

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A closed file can be reopened at once, even if a child process that was just forked still has the
// lock file open, because it has not run its program yet.
func TestClosedFileIsUnlockedDespiteForkedChild(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	e := mustOpen(t, path)
	inherited, err := syscall.Dup(int(e.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path)
}

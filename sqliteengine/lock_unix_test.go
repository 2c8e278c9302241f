//go:build unix

package sqliteengine

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A closed file can be reopened at once, although a child of this process that was just
// forked, and has not run its program yet, still has the lock file open.
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

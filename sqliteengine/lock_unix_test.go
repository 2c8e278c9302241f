//go:build unix

package sqliteengine

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A file that was closed can be opened at once, although a child of this process
// that has just been forked, and is about to run another program, has the lock's
// file open still.
func TestAClosedFileIsFreeWhateverChildrenInherit(t *testing.T) {
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

package sqliteengine

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// C11.21: the lock refuses a symbolic link. The reason: another user may have created the link, and
// locking would truncate its target.
func TestLockRefusesSymbolicLink(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("only administrators may make symbolic links")
	}
	const text = "precious"
	dir := t.TempDir()
	target, path := filepath.Join(dir, "target"), filepath.Join(dir, "duly.db")
	if err := os.WriteFile(target, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"a file": target, "nothing": filepath.Join(dir, "none"), "a folder": dir} {
		if err := os.Symlink(to, path+"-lock"); err != nil {
			t.Fatal(err)
		}
		e, err := Open(t.Context(), Config{Path: path, Logger: quiet()})
		if err == nil {
			e.Close()
		}
		if duly.CodeOf(err) != duly.CodeUnavailable || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("a link to %s: %v", name, err)
		}
		os.Remove(path + "-lock")
	}

	if got, err := os.ReadFile(target); string(got) != text {
		t.Errorf("the target holds %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("the target of a dangling link was made")
	}
}

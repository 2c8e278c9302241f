package durable_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/dulymq/duly/internal/durable"
)

func TestWriteFileReplacesTheFileAndOnlyItsOwnerCanReadIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	for _, text := range []string{"a longer text", "short"} {
		if err := durable.WriteFile(path, text); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); string(got) != text || err != nil {
			t.Errorf("it holds %q (%v), not %q", got, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
	alone(t, path)
}

func TestAFailedPlaceKeepsTheOldFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "taken")
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, "text"); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if _, err := os.Stat(filepath.Join(path, "full")); err != nil {
		t.Error(err)
	}
	alone(t, path)
}

// alone fails the test if the folder contains anything except the file.
func alone(t *testing.T, path string) {
	t.Helper()
	if found, _ := os.ReadDir(filepath.Dir(path)); len(found) != 1 {
		t.Errorf("the folder holds %v, want only the file", found)
	}
}

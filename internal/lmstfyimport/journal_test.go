package lmstfyimport

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that is not a journal, or the journal of another import, is refused.
func TestOtherFileIsRefusedAsJournal(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"mine", "mine\n", "duly import lmstfy: x\nq/1"} {
		path := filepath.Join(t.TempDir(), "file")
		if err := writeFile(path, text); err != nil {
			t.Fatal(err)
		}
		j, err := OpenJournal(path, "x")
		if ours := strings.HasPrefix(text, "duly"); ours != (err == nil) {
			t.Errorf("%q: %v", text, err)
		}
		j.Close()
	}
}

// C15.29: an unreadable journal is an error, and the file does not change.
func TestUnreadableJournalIsKept(t *testing.T) {
	t.Parallel()
	path, text := filepath.Join(t.TempDir(), "file"), "duly import lmstfy: x\nshop/q/1\n"
	if err := writeFile(path, text); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0) // opened for writing only, so that reads fail
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := (&Journal{file: file, seen: map[string]struct{}{}}).read("x"); err == nil {
		t.Error("reading returned no error")
	}
	if got, err := os.ReadFile(path); string(got) != text {
		t.Errorf("the file is %q, %v", got, err)
	}
}

package sqliteengine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dulymq/duly"
)

// killed creates a store of a killed process, with a WAL, and a backup from before that WAL.
func killed(t *testing.T) (path, backup string) {
	t.Helper()
	dir := t.TempDir()
	path, backup = filepath.Join(dir, "duly.db"), filepath.Join(dir, "backup.db")
	e := mustOpen(t, path)

	push := func() {
		t.Helper()
		if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q", Body: make([]byte, 5000)}}); err != nil {
			t.Fatal(err)
		}
	}

	push()
	var copied bytes.Buffer
	if err := e.Backup(t.Context(), &copied); err != nil {
		t.Fatal(err)
	}

	push()
	log, err := os.ReadFile(path + "-wal")
	if err != nil || len(log) == 0 {
		t.Fatal(len(log), err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	for name, b := range map[string][]byte{backup: copied.Bytes(), path + "-wal": log} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, backup
}

func mustRefuse(t *testing.T, path string, code error, says string) {
	t.Helper()
	e, err := Open(t.Context(), Config{Path: path, Logger: quiet()})
	if err == nil {
		e.Close()
	}
	if !errors.Is(err, code) || !strings.Contains(err.Error(), says) {
		t.Errorf("opening it answers %v; want %v with %q", err, duly.CodeOf(code), says)
	}
}

// Fault D10: if a backup replaces the file, SQLite would apply the old file's WAL to the backup and
// damage it.
func TestBackupIsNotReadWithForeignWAL(t *testing.T) {
	t.Parallel()
	path, backup := killed(t)
	b, err := os.ReadFile(backup)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}

	mustRefuse(t, path, duly.ErrCorrupt, path+"-wal")
	if is, _ := os.ReadFile(path); !bytes.Equal(is, b) {
		t.Error("the file was changed")
	}

	os.Remove(path + "-wal")
	os.Remove(path + "-shm")
	if n := ready(t, mustOpen(t, path)); n != 1 {
		t.Errorf("without the log the backup has %d jobs", n)
	}
}

// Fault D10: no new file is created next to the WAL of a missing file.
func TestWALWithoutFileIsKept(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, _ := killed(t)
			log, _ := os.ReadFile(path + "-wal")
			if err := lose(path); err != nil {
				t.Fatal(err)
			}

			mustRefuse(t, path, duly.ErrCorrupt, path+"-wal")
			if is, _ := os.ReadFile(path + "-wal"); !bytes.Equal(is, log) {
				t.Error("the log was changed")
			}
		})
	}
}

// Package sqlitetest creates store files for tests. A new store runs every migration of the schema,
// which takes longer than most tests. So the package creates one empty store for each process, and
// every test gets a copy of its file.
package sqlitetest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/dulymq/duly/sqliteengine"
)

// Store returns the path of an empty store in a temporary folder of the test.
func Store(t testing.TB) string {
	t.Helper()
	file, err := empty()
	if err != nil {
		t.Fatal(err)
	}

	path := filepath.Join(t.TempDir(), "duly.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// empty returns the bytes of a store's file that has the whole schema and no jobs.
var empty = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "sqlitetest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)

	path := filepath.Join(folder, "duly.db")
	e, err := sqliteengine.Open(context.Background(), sqliteengine.Config{
		Path: path, Manual: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	// The last Close moves the write-ahead log into the file.
	if err := e.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

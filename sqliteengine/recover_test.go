package sqliteengine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// ioError returns SQLite's error for a failed sync.
func ioError() error { return &sqliteconn.Error{Code: 1034, Message: "disk I/O error"} }

// C9.4: after a failed sync, no call is answered as stored until the file was reopened and
// checked. Earlier jobs are still stored.
func TestFailedSyncReopensTheStore(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	ctx := t.Context()
	if err := e.change(ctx, pushed("a", nil)); err != nil {
		t.Fatal(err)
	}

	before := e.w.c
	if err := e.change(ctx, pushed("b", ioError())); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("the failed one is answered %v", err)
	}
	if err := e.change(ctx, pushed("c", nil)); err != nil {
		t.Errorf("the next one is answered %v", err)
	}

	if err := e.change(ctx, func(*tx) error {
		if e.w.c == before || e.w.failure != nil {
			t.Error("the store was not opened again")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	sameIDs(t, ids(t, e), "a", "c")
}

// While the store can't be reopened, all calls fail at once. It reopens without a call.
func TestFailedStoreRefusesUntilReopened(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	path := filepath.Join(t.TempDir(), "duly.db")
	e, err := Open(t.Context(), Config{Path: path, Clock: c, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	ctx := t.Context()
	if err := e.change(ctx, pushed("a", nil)); err != nil {
		t.Fatal(err)
	}

	away := filepath.Join(t.TempDir(), "away.db")
	err = e.change(ctx, func(t *tx) error { return errors.Join(os.Rename(path, away), ioError()) })
	if !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("the failed one is answered %v", err)
	}

	for range 3 {
		c.Advance(longestPause)
		if err := e.change(ctx, pushed("b", nil)); !errors.Is(err, duly.ErrUnavailable) {
			t.Errorf("a push is answered %v", err)
		}
		if _, err := e.Get(ctx, duly.Q("q"), "a"); !errors.Is(err, duly.ErrUnavailable) {
			t.Errorf("a get is answered %v", err)
		}
	}

	if err := os.Rename(away, path); err != nil {
		t.Fatal(err)
	}

	c.Advance(longestPause)
	if err := e.change(ctx, pushed("c", nil)); err != nil {
		t.Errorf("a push is answered %v although the file is back", err)
	}
	sameIDs(t, ids(t, e), "a", "c")
}

// A failed store starts no checkpoint. The checkpoint's connection would be the only one, and
// SQLite would move and delete the WAL when that connection closes.
func TestFailedStoreStartsNoCheckpoint(t *testing.T) {
	t.Parallel()
	k := checkpoints{w: &writer{walPages: checkpointPages}}
	if k.start(); k.phase != phaseNone {
		t.Error("a checkpoint was begun without a connection")
	}
}

// rewrite writes the same bytes that the kernel dropped.
func TestRewriteLeavesTheSameBytes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	want := make([]byte, 3<<20+17)
	for i := range want {
		want[i] = byte(i * 7)
	}

	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}

	past := time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := errors.Join(os.Chtimes(path, past, past), rewrite(path), rewrite(path+"-none")); err != nil {
		t.Fatal(err)
	}

	got, err := os.ReadFile(path)
	if err != nil || string(got) != string(want) {
		t.Errorf("the bytes have changed, %v", err)
	}
	if info, err := os.Stat(path); err != nil || !info.ModTime().After(past) {
		t.Errorf("nothing was written: %v, %v", info.ModTime(), err)
	}
}

// C13.9, C9.11: a full disk fails only operations that need space.
func TestFullDiskIsFull(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	ctx := t.Context()
	if err := e.change(ctx, func(*tx) error {
		return &sqliteconn.Error{Code: 13,
			Message: "database or disk is full"}
	}); !errors.Is(err, duly.ErrFull) {
		t.Errorf("answered %v", err)
	}
	if err := e.change(ctx, pushed("a", nil)); err != nil {
		t.Errorf("the next one is answered %v", err)
	}
}

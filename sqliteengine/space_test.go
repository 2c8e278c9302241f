package sqliteengine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/sqliteengine/internal/storefile"
)

// fillDisk makes a disk full for the ballast, or empties it again. After that, the ballast has less
// than half of its base.
func fillDisk(t *testing.T, e *Engine, isFull bool) {
	t.Helper()
	err := e.change(t.Context(), func(tx *tx) error {
		r := &tx.w.space
		if r.Allocate = nil; !isFull {
			return nil
		}
		r.Allocate = func(*os.File, int64, int64) error { return full() }
		tx.w.enterShortage(errors.New("the test"))
		return r.Cut(r.Base() / 4)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// C9.11, C9.12: a store short of space refuses new jobs and runs operations that free space.
// Once half of its ballast is used it also refuses texts.
func TestFullStoreRunsOperationsThatFreeSpace(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	ctx := t.Context()
	for _, id := range []string{"a", "b", "c", "d"} {
		pushOne(t, e, duly.Job{ID: id})
	}
	fillDisk(t, e, true)

	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, duly.ErrFull) {
			t.Errorf("%s is answered %v", what, err)
		}
	}
	_, err := e.Push(ctx, []duly.Job{{Queue: "q"}})
	refused("a push", err)
	refused("an update", e.Update(ctx, duly.Q("q"), "a", duly.Update{Body: []byte("b")}))
	refused("a configuration", e.Configure(ctx, duly.Q("q"), duly.QueueConfig{}))
	refused("the question for room", e.Accepts(ctx))

	ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 2})
	if err != nil || len(ds) != 2 {
		t.Fatal(ds, err)
	}
	_, err = e.Settle(ctx, "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Nack, Error: "a text"}})
	refused("a nack with a text", err)
	errs, err := e.Settle(ctx, "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Ack},
		{Receipt: ds[1].Receipt, As: duly.Release}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Errorf("plain outcomes are answered %v", err)
	}
	if err := e.Delete(ctx, duly.Q("q"), "c"); err != nil {
		t.Errorf("a delete is answered %v", err)
	}
	if n, err := e.Purge(ctx, duly.Q("q"), duly.StateReady, 0); err != nil || n != 2 {
		t.Errorf("a purge removes %d, %v", n, err)
	}

	fillDisk(t, e, false)
	if err := e.Accepts(ctx); err != nil {
		t.Errorf("with room again the engine says %v", err)
	}
	pushOne(t, e, duly.Job{ID: "e"})
}

// Before a commit, the ballast has the size that the WAL will add to the file.
func TestBallastCoversWAL(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	body := make([]byte, 1<<20)
	for range 5 {
		pushOne(t, e, duly.Job{Body: body})
	}
	err := e.change(t.Context(), func(tx *tx) error {
		pages, err := tx.w.pragma("PRAGMA page_count")
		if r := &tx.w.space; r.Size() < r.Base()+r.growth(pages) || r.growth(pages) < 4<<20 {
			t.Errorf("the ballast is %d, its base %d, the log adds %d", r.Size(), r.Base(), r.growth(pages))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Open does not report a ballast that can't be opened as a full disk.
func TestOpenReportsUnusableBallast(t *testing.T) {
	t.Parallel()
	for name, occupy := range map[string]func(path string) error{
		"Folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"Symlink": func(path string) error { return os.Symlink("elsewhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "duly.db")
			if err := occupy(path + storefile.BallastSuffix); err != nil {
				t.Skip(err) // on Windows, few users may create symbolic links
			}

			mustRefuse(t, path, duly.ErrUnavailable, path+storefile.BallastSuffix+" is not a regular file")
			if err := os.Remove(path + storefile.BallastSuffix); err != nil {
				t.Fatal(err)
			}
			e, err := Open(t.Context(), Config{Path: path, Logger: quiet()})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

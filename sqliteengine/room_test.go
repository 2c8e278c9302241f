package sqliteengine

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/dulymq/duly"
)

// fillDisk makes a disk full for the ballast, or empties it again. The ballast then has less
// than half of its base.
func fillDisk(t *testing.T, e *Engine, isFull bool) {
	t.Helper()
	err := e.change(t.Context(), func(tx *tx) error {
		r := &tx.w.space
		if r.allocate = allocate; !isFull {
			return nil
		}
		r.allocate = func(*os.File, int64, int64) error { return full() }
		tx.w.enterShortage(errors.New("the test"))
		return r.cut(r.base / 4)
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
	errs, err := e.Settle(ctx, "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Ack}, {Receipt: ds[1].Receipt, As: duly.Release}})
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
		if r := &tx.w.space; r.size < r.base+r.growth(pages) || r.growth(pages) < 4<<20 {
			t.Errorf("the ballast is %d, its base %d, the log adds %d", r.size, r.base, r.growth(pages))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBallastGrowsAndIsCut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	b := openBallast(path)
	size := func(want int64) {
		t.Helper()
		info, err := os.Stat(path + ballastSuffix)
		if err != nil || info.Size() != want || b.size != want || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("the ballast is %d bytes and has %+v, %v, want %d bytes", b.size, info, err, want)
		}
	}

	if err := b.grow(300_000); err != nil {
		t.Fatal(err)
	}

	size(300_000)
	if err := b.cut(100_000); err != nil {
		t.Fatal(err)
	}

	size(100_000)
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	if b = openBallast(path); b.size != 100_000 {
		t.Errorf("opened again the ballast is %d bytes", b.size)
	}
	if err := writeNoise(b.f, 50_000, 200_000); err != nil {
		t.Fatal(err)
	}

	b.size = 250_000
	size(250_000)
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
}

// A ballast that can't be opened is not reported as a full disk.
func TestOpenReportsUnusableBallast(t *testing.T) {
	t.Parallel()
	for name, occupy := range map[string]func(path string) error{
		"Folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"Symlink": func(path string) error { return os.Symlink("elsewhere", path) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "duly.db")
			if err := occupy(path + ballastSuffix); err != nil {
				t.Skip(err) // Windows allows few users to create links
			}

			mustRefuse(t, path, duly.ErrUnavailable, path+ballastSuffix+" is not a regular file")
			if err := os.Remove(path + ballastSuffix); err != nil {
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

// A ballast never replaces another file.
func TestBallastReplacesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	if err := os.MkdirAll(path+ballastSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	b := openBallast(path)
	if err := b.grow(1); err == nil || b.size != 0 {
		t.Errorf("a folder became a ballast of %d bytes, %v", b.size, err)
	}
}

package sqliteengine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// full returns SQLite's error for a full disk.
func full() error { return &sqliteconn.Error{Code: 13, Message: "database or disk is full"} }

// openLogged returns an engine with a test clock, and its log.
func openLogged(t *testing.T) (*Engine, *clock.Fake, *logtest.Log) {
	t.Helper()
	c, log := clock.NewFake(), new(logtest.Log)
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Logger: log.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, c, log
}

// longLog makes the writer believe that the WAL is long.
func longLog(tx *tx) error {
	tx.w.walPages = checkpointPages
	return nil
}

// pagesLogged returns the writer's count of pages in the WAL.
func pagesLogged(t *testing.T, e *Engine) (n int) {
	t.Helper()
	if err := e.change(t.Context(), func(tx *tx) error { n = tx.w.walPages; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// connectTo changes the path of new connections while no connection is being opened.
func connectTo(t *testing.T, e *Engine, path string) {
	t.Helper()
	eventually.True(t, "no checkpoint to be under way", func() (done bool) {
		err := e.change(t.Context(), func(tx *tx) error {
			if done = tx.w.checkpoints.phase == phaseNone; done {
				e.cfg.Path = path
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return done
	})
}

// A checkpoint is sometimes busy because a transaction ends at that moment. This is not
// logged.
func TestBusyCheckpointIsNotLogged(t *testing.T) {
	t.Parallel()
	e, _, log := openLogged(t)
	pushes := 500
	if testing.Short() {
		pushes = 50
	}

	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range pushes {
				push := pushed(fmt.Sprint(caller, "-", i), nil)
				if err := errors.Join(e.change(t.Context(), push), e.change(t.Context(), longLog)); err != nil {
					t.Errorf("a push is answered %v", err)
					return
				}
			}
		})
	}

	callers.Wait()
	if n := log.Count("will be repeated"); n > 0 {
		t.Errorf("the failure was logged %d times", n)
	}
}

// On a full disk the WAL is moved at once, even if it is short, because a reader may have kept the
// last checkpoint from finishing, and failing transactions don't make the WAL longer.
func TestFullDiskRequestsCheckpoint(t *testing.T) {
	t.Parallel()
	e, _, _ := openLogged(t)
	if err := e.change(t.Context(), pushed("a", nil)); err != nil || pagesLogged(t, e) == 0 {
		t.Fatal("nothing was logged", err)
	}
	if err := e.change(t.Context(), func(*tx) error { return full() }); !errors.Is(err, duly.ErrFull) {
		t.Fatal(err)
	}
	eventually.True(t, "the log to be moved", func() bool { return pagesLogged(t, e) == 0 })
}

// If a checkpoint can't start, for example for lack of file descriptors, the store stays
// open. The engine logs it once and starts the checkpoint as soon as possible.
func TestCheckpointIsRepeatedUntilItStarts(t *testing.T) {
	t.Parallel()
	e, _, log := openLogged(t)
	path := e.cfg.Path
	connectTo(t, e, filepath.Join(path, "no-such-file"))
	if err := e.change(t.Context(), longLog); err != nil {
		t.Fatal(err)
	}

	const failure = "will be repeated"
	eventually.True(t, "the failure to be logged", func() bool { return log.Count(failure) == 1 })
	for _, id := range []string{"a", "b", "c"} {
		if err := e.change(t.Context(), pushed(id, nil)); err != nil {
			t.Fatalf("a push is answered %v", err)
		}
	}

	if n := pagesLogged(t, e); n < checkpointPages || log.Count(failure) != 1 {
		t.Errorf("%d pages, logged %d times", n, log.Count(failure))
	}

	connectTo(t, e, path)
	eventually.True(t, "the checkpoint", func() bool { return pagesLogged(t, e) < checkpointPages })
	if log.Count("level=ERROR") > 0 {
		t.Errorf("the store has failed: %s", log.String())
	}
	sameIDs(t, ids(t, e), "a", "b", "c")
}

// Failed maintenance is repeated and logged once.
func TestFailedMaintenanceIsLoggedOnce(t *testing.T) {
	t.Parallel()
	e, _, log := openLogged(t)
	tries := 0
	fail := func(tx *tx) error {
		tries++
		tx.w.graves = true
		tx.conn.named["grave_next"] = sqliteconn.Broken(tx.conn.Conn, full())
		return nil
	}

	for range 5 {
		if err := e.change(t.Context(), fail); err != nil {
			t.Fatal(err)
		}
	}

	eventually.True(t, "the failure to be logged", func() bool { return log.Count("will be repeated") == 1 })
	if err := e.change(t.Context(), func(tx *tx) error {
		delete(tx.conn.named, "grave_next")
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	eventually.True(t, "the graves to be looked at", func() (done bool) {
		if err := e.change(t.Context(), func(tx *tx) error { done = !tx.w.graves; return nil }); err != nil {
			t.Fatal(err)
		}
		return done
	})

	if n := log.Count("will be repeated"); n != 1 {
		t.Errorf("the failure was logged %d times for %d transactions", n, tries)
	}
}

// C3.9: a failed step, for example on a full disk, is repeated: run-out leases are taken
// back although no call comes.
func TestFailedStepIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewFake()
		e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()

		pushOne(t, e, duly.Job{ID: "a", Lease: time.Second})
		if ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1}); err != nil ||
			len(ds) != 1 {
			t.Fatal(ds, err)
		}

		set := func(f func(c *conn)) {
			t.Helper()
			if err := e.change(t.Context(), func(tx *tx) error { f(tx.conn); return nil }); err != nil {
				t.Fatal(err)
			}
		}

		set(func(c *conn) { c.named["run_out_first"] = sqliteconn.Broken(c.Conn, full()) })
		c.Advance(2 * time.Second)
		synctest.Wait()
		set(func(c *conn) { delete(c.named, "run_out_first") })
		c.Advance(longestSleep)
		synctest.Wait()
		// List shows the job's stored state
		page, err := e.List(t.Context(), duly.Q("q"), duly.ListParams{State: duly.StateReady})
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Stalls != 1 {
			t.Errorf("stored as ready are %+v, %v", page.Jobs, err)
		}
	})
}

// longRead is a statement that would run for hours.
const longRead = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n"

// A long read ends with its caller and with the engine. Its connection stays usable.
func TestLongReadsEndWithTheirCallers(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	begin := func(ctx context.Context) (ended chan error) {
		ended = make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			ended <- e.read(ctx, func(c *conn) error {
				close(begun)
				_, err := c.Query(longRead)
				return err
			})
		}()
		<-begun
		return ended
	}

	ctx, leave := context.WithCancel(t.Context())
	ended := begin(ctx)
	leave()
	if err := soon(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the read whose caller has gone ended with %v", err)
	}
	if got := ids(t, e); len(got) > 0 {
		t.Errorf("the next read found %v", got)
	}

	ended = begin(t.Context())
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := soon(t, ended); !errors.Is(err, duly.ErrClosed) {
		t.Errorf("the read of a closed engine ended with %v", err)
	}
}

// soon waits a short time for a value, and fails without it.
func soon[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(maxDelay):
		t.Fatalf("waited %s in vain", maxDelay)
	}
	return v
}

// maxDelay is how long an immediate result may take on a busy machine.
const maxDelay = 30 * time.Second

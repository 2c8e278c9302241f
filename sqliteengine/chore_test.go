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
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

// full is what SQLite says when there is no room.
func full() error { return &sq.Error{Code: 13, Message: "database or disk is full"} }

// openLogged is an engine with a clock that the test moves, and its log.
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

// longLog lets the writer believe that the log is long.
func longLog(tx *tx) error {
	tx.w.pages = logPages
	return nil
}

// pagesLogged is what the writer knows of the log's length.
func pagesLogged(t *testing.T, e *Engine) (n int) {
	t.Helper()
	if err := e.change(t.Context(), func(tx *tx) error { n = tx.w.pages; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// connectTo lets new connections be made to another path, while none is.
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

// Checkpoints beside a writer that ends one transaction after the other meet it
// in the middle of that now and then, and nobody is told.
func TestCheckpointBesideTransactionsIsNoFailure(t *testing.T) {
	t.Parallel()
	e, _, log := openLogged(t)
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for i := range 2000 {
				push := pushed(fmt.Sprint(caller, "-", i), nil)
				if err := errors.Join(e.change(t.Context(), push), e.change(t.Context(), longLog)); err != nil {
					t.Errorf("a push is answered %v", err)
					return
				}
			}
		})
	}

	callers.Wait()
	if n := log.Count("it is tried again"); n > 0 {
		t.Errorf("the log is told %d times", n)
	}
}

// On a full disk the log is moved into the file at once, however short it is: a
// reader may have kept the last checkpoint from its end, and what there is no
// room for makes the log no longer.
func TestAFullDiskAsksForACheckpoint(t *testing.T) {
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

// A checkpoint that can't be begun, say for want of file descriptors, leaves the
// store open. The log is told once, and it is begun as soon as that is possible.
func TestCheckpointThatCanNotBeBegunComesLater(t *testing.T) {
	t.Parallel()
	e, _, log := openLogged(t)
	path := e.cfg.Path
	connectTo(t, e, filepath.Join(path, "no-such-file"))
	if err := e.change(t.Context(), longLog); err != nil {
		t.Fatal(err)
	}

	const told = "it is tried again"
	eventually.True(t, "the log to be told", func() bool { return log.Count(told) == 1 })
	for _, id := range []string{"a", "b", "c"} {
		if err := e.change(t.Context(), pushed(id, nil)); err != nil {
			t.Fatalf("a push is answered %v", err)
		}
	}

	if n := pagesLogged(t, e); n < logPages || log.Count(told) != 1 {
		t.Errorf("%d pages, told %d times", n, log.Count(told))
	}

	connectTo(t, e, path)
	eventually.True(t, "the checkpoint", func() bool { return pagesLogged(t, e) < logPages })
	if log.Count("level=ERROR") > 0 {
		t.Errorf("the store has failed: %s", log.String())
	}
	sameIDs(t, ids(t, e), "a", "b", "c")
}

// Chores that fail are tried again, and the log is told of it once.
func TestFailedChoreIsToldOnce(t *testing.T) {
	t.Parallel()
	e, _, log := openLogged(t)
	tries := 0
	fail := func(tx *tx) error {
		tries++
		tx.w.graves = true
		tx.conn.named["grave_next"] = sq.Broken(tx.conn.Conn, full())
		return nil
	}

	for range 5 {
		if err := e.change(t.Context(), fail); err != nil {
			t.Fatal(err)
		}
	}

	eventually.True(t, "the log to be told", func() bool { return log.Count("it is tried again") == 1 })
	if err := e.change(t.Context(), func(tx *tx) error { delete(tx.conn.named, "grave_next"); return nil }); err != nil {
		t.Fatal(err)
	}

	eventually.True(t, "the graves to be looked at", func() (done bool) {
		if err := e.change(t.Context(), func(tx *tx) error { done = !tx.w.graves; return nil }); err != nil {
			t.Fatal(err)
		}
		return done
	})

	if n := log.Count("it is tried again"); n != 1 {
		t.Errorf("the log was told %d times of %d transactions", n, tries)
	}
}

// C3.9: a step that has failed, as on a full disk, is made again: leases that
// have run out are taken back although nobody calls.
func TestFailedStepIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.NewFake()
		e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()

		pushOne(t, e, duly.Job{ID: "a", Lease: time.Second})
		if ds, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1}); err != nil || len(ds) != 1 {
			t.Fatal(ds, err)
		}

		set := func(f func(c *conn)) {
			t.Helper()
			if err := e.change(t.Context(), func(tx *tx) error { f(tx.conn); return nil }); err != nil {
				t.Fatal(err)
			}
		}

		set(func(c *conn) { c.named["run_out_first"] = sq.Broken(c.Conn, full()) })
		c.Advance(2 * time.Second)
		synctest.Wait()
		set(func(c *conn) { delete(c.named, "run_out_first") })
		c.Advance(longestSleep)
		synctest.Wait()
		page, err := e.List(t.Context(), duly.Q("q"), duly.ListParams{State: duly.StateReady}) // as stored
		if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Stalls != 1 {
			t.Errorf("stored as ready are %+v, %v", page.Jobs, err)
		}
	})
}

// longRead is a statement that runs for hours.
const longRead = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n"

// A long read ends when its caller goes, and with the engine; the connection is
// then as good as any.
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

// soon waits for something that comes at once.
func soon[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("waited %s in vain", patience)
	}
	return v
}

// patience is how long anything may take that is done at once, on a machine that
// is busy with something else.
const patience = 30 * time.Second

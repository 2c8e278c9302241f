package sqliteengine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
)

// logSize returns the length of the WAL's file in bytes. It never shrinks.
func logSize(t *testing.T, e *Engine) int64 {
	t.Helper()
	info, err := os.Stat(e.cfg.Path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// commits counts transactions, so that reads can last for a number of them.
type commits struct {
	mu   sync.Mutex
	more *sync.Cond
	n    int
	end  bool
}

func (c *commits) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.more.Broadcast()
}

func (c *commits) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = true
	c.more.Broadcast()
}

// read runs reads until the end of the test. Each read begins at one commit and ends after another
// one. The reads of one goroutine begin at even commits, those of the other goroutine at odd ones.
// So at any time a running read does not see the last commit.
func (c *commits) read(ctx context.Context, e *Engine, part int) error {
	for {
		err := e.read(ctx, func(r *conn) error {
			_, err := r.Query("SELECT count(*) FROM queues") // the read needs the WAL from this statement on
			c.mu.Lock()
			defer c.mu.Unlock()
			for begun := c.n; !c.end && (c.n == begun || c.n%2 != part); {
				c.more.Wait()
			}
			return err
		})
		c.mu.Lock()
		end := c.end
		c.mu.Unlock()
		if err != nil || end {
			return err
		}
	}
}

// Fault R9: the WAL restarts although reads always overlap.
func TestOverlappingReadsDoNotBlockWALRestart(t *testing.T) {
	t.Parallel()
	const rounds, bound = 10, 3 * checkpointPages * pageSize
	e := openNew(t)
	c := &commits{}
	c.more = sync.NewCond(&c.mu)
	var all sync.WaitGroup
	for part := range 2 {
		all.Go(func() {
			if err := c.read(t.Context(), e, part); err != nil {
				t.Error(err)
			}
		})
	}
	defer all.Wait()
	defer c.stop()

	push := func(jobs int) (pages int) {
		t.Helper()
		_, err := e.Push(t.Context(), slices.Repeat([]duly.Job{{Queue: "q", Body: make([]byte, inlineBody)}}, jobs))
		if err == nil {
			err = e.change(t.Context(), func(tx *tx) error { pages = tx.w.walPages; return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		c.add()
		return pages
	}
	for range rounds {
		for push(100) < checkpointPages {
		}

		// Small commits let the reads continue.
		for limit := clock.Monotonic() + maxDelay; push(1) >= checkpointPages/2; {
			if err := e.change(t.Context(), retried); err != nil {
				t.Fatal(err)
			}
			if clock.Monotonic() > limit {
				t.Fatalf("the log was not restarted within %s: %d KiB", maxDelay, logSize(t, e)>>10)
			}
		}
	}
	if size := logSize(t, e); size > bound {
		t.Errorf("the log grew to %d KiB although it was restarted %d times, want at most %d", size>>10, rounds,
			bound>>10)
	}
}

// retried makes the engine repeat a failed checkpoint at once.
func retried(tx *tx) error {
	if w := tx.w; w.checkpoints.phase == phaseNone && w.walPages >= checkpointPages/2 {
		w.walPages = checkpointPages
	}
	return nil
}

// checkpointed returns an engine with a test clock for its pauses, and a read that lasts
// until end is called.
func checkpointed(t *testing.T) (e *Engine, c *clock.Fake, end func()) {
	t.Helper()
	e, c = openNew(t), clock.NewFake()
	e.readers.gate.clock = c
	c.Advance(betweenPauses)
	pushOne(t, e, duly.Job{})
	begun, over, ended := make(chan bool), make(chan bool), make(chan error, 1)

	go func() {
		ended <- e.read(context.Background(), func(c *conn) error {
			_, err := c.Query("SELECT count(*) FROM queues")
			close(begun)
			<-over
			return err
		})
	}()

	<-begun
	return e, c, func() {
		t.Helper()
		close(over)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// checkpointUntil runs checkpoints until holds returns true.
func checkpointUntil(t *testing.T, e *Engine, holds func(k *checkpoints) bool) {
	t.Helper()
	pushOne(t, e, duly.Job{})
	for limit := clock.Monotonic() + maxDelay; ; {
		done := false
		err := e.change(t.Context(), func(tx *tx) error {
			k := &tx.w.checkpoints
			if done = holds(k); !done && k.phase == phaseNone {
				tx.w.walPages = checkpointPages
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}

		if done {
			return
		}
		if clock.Monotonic() > limit {
			t.Fatalf("waited %s for a checkpoint in vain", maxDelay)
		}
	}
}

// Fault R9: a checkpoint that waits for a long read blocks other reads for at most checkpointPause, and
// then not again for some time. Pushes never wait.
func TestCheckpointGivesUpOnALongRead(t *testing.T) {
	t.Parallel()
	e, c, end := checkpointed(t)
	closed := func(*checkpoints) bool { return e.readers.gate.isClosed() }
	checkpointUntil(t, e, closed)
	listed := make(chan error, 1)
	go func() {
		_, err := e.List(t.Context(), duly.Q("q"), duly.ListParams{State: duly.StateReady})
		listed <- err
	}()
	c.Advance(checkpointPause)
	if err := soon(t, listed); err != nil {
		t.Error(err)
	}

	failed := 0
	checkpointUntil(t, e, func(k *checkpoints) bool {
		if e.readers.gate.isClosed() {
			t.Error("reads wait again")
		}
		if k.phase == phaseNone && k.pauseAt > c.Mono() {
			failed++
		}
		return failed > 3
	})
	c.Advance(betweenPauses)
	checkpointUntil(t, e, closed)

	end()
	checkpointUntil(t, e, func(k *checkpoints) bool { return k.phase == phaseNone && k.w.walPages < 100 })
	if e.readers.gate.isClosed() {
		t.Error("the gate is closed although no checkpoint is under way")
	}
}

// C13.13: Close works while a checkpoint waits for a read, and ends a read that waits for
// the checkpoint.
func TestCloseDuringACheckpointPause(t *testing.T) {
	t.Parallel()
	e, _, end := checkpointed(t)
	checkpointUntil(t, e, func(*checkpoints) bool { return e.readers.gate.isClosed() })
	read, closed := make(chan error, 1), make(chan error, 1)
	go func() { read <- second(e.Stats(context.Background(), duly.Q("q"))) }()
	go func() { closed <- e.Close() }()
	end()
	if err := soon(t, closed); err != nil {
		t.Error(err)
	}
	if err := soon(t, read); err != nil && !errors.Is(err, duly.ErrClosed) {
		t.Errorf("the read ended with %v", err)
	}
}

// A store that fails while its checkpoint waits for a read reopens, and reads continue.
func TestStoreReopensAfterAFailureInACheckpointPause(t *testing.T) {
	t.Parallel()
	e, _, end := checkpointed(t)
	checkpointUntil(t, e, func(*checkpoints) bool { return e.readers.gate.isClosed() })
	ended := make(chan bool)
	go func() { end(); close(ended) }()
	if err := e.change(t.Context(), func(*tx) error { return ioError() }); !errors.Is(err, duly.ErrUnavailable) {
		t.Errorf("the failed transaction is answered %v", err)
	}
	<-ended
	if got := ids(t, e); len(got) != 2 || e.readers.gate.isClosed() {
		t.Errorf("the jobs are %v, the gate is closed: %t", got, e.readers.gate.isClosed())
	}
}

// The first checkpoint after opening moves the long WAL of a killed process, without
// waiting for another 8 MiB.
func TestLongWALOfKilledProcessIsMoved(t *testing.T) {
	t.Parallel()
	killed := openNew(t)
	for logSize(t, killed) < 2*checkpointPages*pageSize {
		jobs := slices.Repeat([]duly.Job{{Queue: "q", Body: make([]byte, inlineBody)}}, 500)
		if _, err := killed.Push(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		// A commit that starts no checkpoint.
		err := killed.change(t.Context(), func(tx *tx) error { tx.w.walPages = 0; return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "duly.db")
	for _, end := range []string{"", "-wal"} {
		text, err := os.ReadFile(killed.cfg.Path + end)
		if err == nil {
			err = os.WriteFile(path+end, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	e := mustOpen(t, path)
	eventually.True(t, "the log to be moved", func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > checkpointPages*pageSize
	})
	if want, got := ready(t, killed), ready(t, e); got != want {
		t.Errorf("%d jobs are ready, want %d", got, want)
	}
}

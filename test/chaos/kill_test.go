package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/sqliteengine"
)

// TestKillLosesNothing kills the process that owns the store with SIGKILL at random times under
// load, and starts it again on the same file. Even a process that syncs rarely loses nothing,
// because the kernel has what it wrote (fault C5).
//
// C9.1, C9.2: what was answered survives a crash of the process.
func TestKillLosesNothing(t *testing.T) {
	t.Parallel()
	for name, kills := range map[sqliteengine.Synchronous]int{
		sqliteengine.SyncFull:   counts(12, 500),
		sqliteengine.SyncNormal: counts(6, 500),
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			killStores(t, name, kills)
		})
	}
}

func killStores(t *testing.T, sync sqliteengine.Synchronous, kills int) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, kills)
	r := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "duly.db")
	h := newHistory()
	for i := range kills {
		p := proctest.Start(t, proctest.Options{}, "store", path, strconv.FormatUint(seed+uint64(i), 10), string(sync))
		if !p.Await("open", 1, 30*time.Second) {
			t.Fatalf("the store did not open after kill %d: %v", i, p.Lines())
		}
		time.Sleep(time.Duration(20+r.IntN(250)) * time.Millisecond) // real processes use the real clock
		p.Kill()
		h.read(p.Lines())
		h.gaps++ // the calls in flight have no known result
	}

	engine, err := openStoreAs(path, sync)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	h.conclude(t, engine, trial{}, theQueue.Name)
}

// TestKillReopensFast opens a file with 100 000 jobs that was not closed. Opening must take less
// than ten seconds. The promise is one second.
func TestKillReopensFast(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	p := proctest.Start(t, proctest.Options{}, "filler", path, "100000")
	for n := range 100 {
		if !p.Await("pushed", n+1, time.Minute) {
			t.Fatalf("the file was not filled: %d of 100 batches", len(p.Lines()))
		}
	}
	p.Kill()
	begun := time.Now()
	engine, err := openStore(path)
	took := time.Since(begun)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	s, err := engine.Stats(context.Background(), theQueue)
	if err != nil || s.Sizes.Ready != 100_000 {
		t.Fatalf("ready = %d, %v, want 100000", s.Sizes.Ready, err)
	}
	t.Logf("opened 100 000 jobs in %v", took)
	if took > 10*time.Second {
		t.Errorf("opening took %v, want at most 10s", took)
	}
}

// runFiller fills a store with this many jobs and waits until it is killed.
func runFiller(args []string) error {
	engine, err := openStore(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for n > 0 {
		jobs := make([]duly.Job, min(n, duly.MaxBatch))
		for i := range jobs {
			jobs[i] = duly.Job{Queue: theQueue.Name, Body: make([]byte, 100)}
		}
		if _, err := engine.Push(context.Background(), jobs); err != nil {
			return err
		}
		n -= len(jobs)
		fmt.Println("pushed")
	}
	select {}
}

// TestSecondProcessIsRefused opens a file that another process has open. The error must say so.
//
// C11.21
func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "duly.db")
	first, err := openStore(path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	p := proctest.Start(t, proctest.Options{}, "store", path, "1", "full")
	err = p.Wait(30 * time.Second)
	if said := strings.Join(p.Lines(), "\n"); err == nil || !strings.Contains(said, "is open in another process") {
		t.Fatalf("the second process ended with %v and printed %q, want an error that mentions the first process", err, said)
	}
	if _, err := first.Push(context.Background(), []duly.Job{{Queue: theQueue.Name}}); err != nil {
		t.Errorf("the second process disturbed the first: %v", err)
	}
}

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/porttest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/test/servertest"
)

// TestKilledOperationsForgetNoJob kills the server with SIGKILL while it requeues dead jobs, and continues the
// operation after each start. Every job is requeued once, and the counts of the operation are true.
//
// C14.99
func TestKilledOperationsForgetNoJob(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]func(t *testing.T) string{
		"SQLite": func(t *testing.T) string { return open.File(filepath.Join(t.TempDir(), "duly.db")) },
		"Redis":  func(t *testing.T) string { return redistest.Single(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killOperations(t, engine(t))
		})
	}
}

func killOperations(t *testing.T, engine string) {
	t.Helper()
	kills := counts(4, 100)
	jobs := 500 + 150*kills
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills, %d jobs", seed, kills, jobs)
	r := rand.New(rand.NewPCG(seed, 0))
	data := t.TempDir()
	must(t, os.Chmod(data, 0o700))

	server := servertest.Start(t, engine, "-addr", porttest.Address(t), "-data", data)
	address := server.Address()
	client, err := httpengine.Open(t.Context(), httpengine.Config{URL: servertest.EngineURL(address, server.Token)})
	must(t, err)
	t.Cleanup(func() { client.Close() })
	buryAll(t, client, jobs)
	time.Sleep(100 * time.Millisecond) // the operation starts after the deaths, also by the clock of another process

	operations := client.Operations()
	o, err := operations.Start(t.Context(), contract.NewOperation{
		Kind: contract.OperationRequeue, Queue: theQueue.Name, Rate: 500,
	})
	must(t, err)
	for range kills {
		restUpTo(r, 20*time.Millisecond, 400*time.Millisecond)
		server.Kill()
		server = servertest.Start(t, engine, "-addr", address, "-token=false", "-data", data)
		before, err := operations.Get(t.Context(), o.ID)
		must(t, err)
		if before.Done+before.Skipped+before.Failed != before.Taken || !before.State.Ended() &&
			before.State != contract.OperationInterrupted {
			t.Fatalf("after a kill the operation is %+v", before)
		}
		if !before.State.Ended() {
			must(t, operations.Continue(t.Context(), o.ID))
		}
	}

	for begun := time.Now(); !o.State.Ended(); time.Sleep(50 * time.Millisecond) {
		o, err = operations.Get(t.Context(), o.ID)
		must(t, err)
		if time.Since(begun) > patience {
			t.Fatalf("it has not ended after %v: %+v", patience, o)
		}
	}
	s, err := client.Stats(t.Context(), theQueue)
	must(t, err)
	if n := int64(jobs); o.State != contract.OperationDone || o.Done != n || o.Taken != n || s.Counters.Requeued != n ||
		s.Sizes.Dead != 0 || s.Sizes.Ready != n {
		o.Answers = nil
		t.Errorf("of %d jobs, %d were requeued, %d are ready and %d dead; the operation is %+v", jobs, s.Counters.Requeued,
			s.Sizes.Ready, s.Sizes.Dead, o)
	}
	oneAction(t, filepath.Join(data, "audit"), o.ID)
}

// buryAll pushes jobs and makes them dead.
func buryAll(t *testing.T, client *httpengine.Engine, jobs int) {
	t.Helper()
	for n := 0; n < jobs; {
		batch := make([]duly.Job, min(duly.MaxBatch, jobs-n))
		for i := range batch {
			batch[i] = duly.Job{Queue: theQueue.Name, ID: fmt.Sprint("j", n+i)}
		}
		_, err := client.Push(t.Context(), batch)
		must(t, err)
		n += len(batch)
	}
	for n := 0; n < jobs; {
		d, err := client.Reserve(t.Context(), duly.ReserveParams{Queues: []string{theQueue.Name}, Max: duly.MaxBatch})
		must(t, err)
		settles := make([]duly.SettleRequest, len(d))
		for i := range d {
			settles[i] = duly.SettleRequest{Receipt: d[i].Receipt, As: duly.Bury, Error: "disk is full"}
		}
		_, err = client.Settle(t.Context(), "", settles)
		must(t, err)
		n += len(d)
	}
}

// oneAction checks that the audit log has one intent of an operation, and an outcome at its end.
func oneAction(t *testing.T, dir, id string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	must(t, err)
	intents, outcomes := 0, 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		must(t, err)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, `"action":"`+id+`"`) {
				continue
			}
			if strings.Contains(line, `"phase":"intent"`) {
				intents++
			} else if outcomes++; !strings.Contains(line, `"result":"ok"`) {
				t.Errorf("an outcome is %s", line)
			}
		}
	}
	// A kill between an outcome and the record of the end causes another outcome.
	if intents != 1 || outcomes < 1 || outcomes > 2 {
		t.Errorf("the audit log has %d intents and %d outcomes", intents, outcomes)
	}
}

package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

const (
	poison      = "poison"
	poisonJobs  = 100
	poisonLease = 500 * time.Millisecond // short, because the test waits for the end of each lease
)

// TestPoisonJobBuriesNoOtherJob has a job that kills its worker's process at each delivery, among 99 other
// jobs. The workers reserve 100 jobs at a time.
//
// C4.100, C2.18
func TestPoisonJobBuriesNoOtherJob(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		poisoned(t, "sqlite:"+filepath.Join(t.TempDir(), "duly.db"))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		poisoned(t, redistest.Single(t).URL())
	})
}

func poisoned(t *testing.T, url string) {
	fillWithPoison(t, url)
	deaths := 0
	for {
		p := proctest.Start(t, proctest.Options{}, "poisonworker", url)
		err := p.Wait(time.Minute)
		if p.Await("finished", 1, 0) {
			break
		}
		if !p.Await(poison, 1, 0) {
			t.Fatalf("a worker ended with %v before it received the poison: %q", err, p.Lines())
		}
		if deaths++; deaths > 2*duly.DefaultMaxStalls {
			t.Fatalf("the poison has killed %d workers and is not dead", deaths)
		}
	}

	engine, err := open.Engine(t.Context(), url, open.Log(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	if want := duly.DefaultMaxStalls + 1; deaths != want {
		t.Errorf("the poison has killed %d workers, want %d", deaths, want)
	}
	if info, err := engine.Get(t.Context(), theQueue, poison); err != nil || info.State != duly.StateDead {
		t.Errorf("the poison is %s, %v, want dead", info.State, err)
	}
	stats, err := engine.Stats(t.Context(), theQueue)
	if err != nil || stats.Sizes != (duly.Sizes{Dead: 1}) || stats.Counters.Acked != poisonJobs-1 {
		t.Errorf("%+v, %v, want all other jobs acked", stats, err)
	}
}

// fillWithPoison pushes the jobs with the poison in their middle.
func fillWithPoison(t *testing.T, url string) {
	t.Helper()
	engine, err := open.Engine(t.Context(), url, open.Log(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()

	jobs := make([]duly.Job, poisonJobs)
	for i := range jobs {
		jobs[i].Queue = theQueue.Name
	}
	jobs[poisonJobs/2].ID = poison
	if _, err := engine.Push(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
}

// runPoisonWorker acknowledges jobs until none is left. The poison kills it. Its argument is the
// engine's URL.
func runPoisonWorker(args []string) error {
	ctx, queues := context.Background(), []string{theQueue.Name}
	engine, err := open.Engine(ctx, args[0], open.Log(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	for {
		ds, err := engine.Reserve(ctx, duly.ReserveParams{Queues: queues, Max: poisonJobs, Lease: poisonLease})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(ds, func(d duly.Delivery) bool { return d.ID == poison }) {
			fmt.Println(poison)
			self, _ := os.FindProcess(os.Getpid())
			self.Kill()
			select {}
		}

		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		if _, err := engine.Settle(ctx, "", outcomes); err != nil {
			return err
		}

		stats, err := engine.Stats(ctx, theQueue)
		if err != nil {
			return err
		}
		if stats.Sizes.Ready+stats.Sizes.Leased == 0 {
			fmt.Println("finished")
			return engine.Close()
		}
		if _, err := engine.Wait(ctx, duly.WaitParams{Queues: queues, Timeout: 2 * poisonLease}); err != nil {
			return err
		}
	}
}

package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/sqliteengine"
)

// upkeep are the maintenance jobs that take several batches, by name. Each may run again after it
// was interrupted. said is called after every batch.
var upkeep = map[string]func(ctx context.Context, e drainable, said func()) error{
	"step": func(ctx context.Context, e drainable, said func()) error {
		for more := true; more; said() {
			var err error
			if more, err = e.Step(ctx, theQueue); err != nil {
				return err
			}
		}
		return nil
	},
	"purge": func(ctx context.Context, e drainable, said func()) error {
		for _, state := range []duly.State{duly.StateDelayed, duly.StateLeased, duly.StateDead} {
			if _, err := e.Purge(ctx, theQueue, state, 0); err != nil {
				return err
			}
			said()
		}
		return nil
	},
	"requeue": func(ctx context.Context, e drainable, said func()) error {
		for {
			results, err := e.Requeue(ctx, theQueue, duly.RequeueParams{N: 500})
			if err != nil || len(results) == 0 {
				return err
			}
			said()
		}
	},
	"destroy": func(ctx context.Context, e drainable, said func()) error {
		defer said()
		return e.Destroy(ctx, theQueue)
	},
}

// upkeepAt is when the jobs were pushed. The maintenance runs upkeepLater after that.
const upkeepLater = time.Hour

// openUpkeep opens an engine with a clock that does not move.
func openUpkeep(ctx context.Context, url string, later time.Duration) (drainable, error) {
	c := clock.NewFake()
	c.Advance(later)
	quiet := slog.New(slog.DiscardHandler)
	if path := open.Path(url); path != "" {
		return sqliteengine.Open(ctx, sqliteengine.Config{Path: path, Clock: c, Manual: true, Logger: quiet})
	}
	return redisengine.Open(ctx, redisengine.Config{URL: url, Clock: c, Manual: true, Logger: quiet})
}

// runUpkeep runs a maintenance job. Its args are the engine's URL and the job's name.
func runUpkeep(args []string) error {
	ctx := context.Background()
	e, err := openUpkeep(ctx, args[0], upkeepLater)
	if err != nil {
		return err
	}
	fmt.Println("begin")
	if err := upkeep[args[1]](ctx, e, func() { fmt.Println("batch") }); err != nil {
		return err
	}
	fmt.Println("done")
	return e.Close()
}

// stockUpkeep fills the queue with jobs that are overdue an hour later: due and expired jobs
// behind order keys, expired leases with and without stalls left, and more dead jobs than their
// bound.
func stockUpkeep(t *testing.T, e drainable) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	push := func(n int, kind string, j duly.Job) {
		t.Helper()
		for i := 0; i < n; i += 500 {
			batch := make([]duly.Job, min(500, n-i))
			for k := range batch {
				batch[k] = j
				batch[k].Queue, batch[k].ID = theQueue.Name, fmt.Sprintf("%s-%d", kind, i+k)
				batch[k].Body = []byte(batch[k].ID)
				if kind == "keyed" {
					batch[k].OrderKey = strconv.Itoa(k % 7)
				}
			}
			results, err := e.Push(ctx, batch)
			must(err)
			for _, r := range results {
				must(r.Err)
			}
		}
	}
	reserve := func(n int) (outcomes []duly.SettleRequest) {
		t.Helper()
		for len(outcomes) < n {
			p := duly.ReserveParams{Queues: []string{theQueue.Name}, Max: min(500, n-len(outcomes))}
			ds, err := e.Reserve(ctx, p)
			if must(err); len(ds) == 0 {
				t.Fatalf("reserved %d of %d jobs", len(outcomes), n)
			}
			for i := range ds {
				outcomes = append(outcomes, duly.SettleRequest{Receipt: ds[i].Receipt, As: duly.Bury, Error: "by the test"})
			}
		}
		return outcomes
	}

	must(e.Configure(ctx, theQueue, duly.QueueConfig{DeadAge: 30 * time.Minute}))
	some := counts(300, 1200) // jobs of each kind
	push(2*some, "dead", duly.Job{})
	for outcomes := range slices.Chunk(reserve(2*some), 500) {
		errs, err := e.Settle(ctx, "", outcomes)
		must(errors.Join(append(errs, err)...))
	}
	push(some, "stalls", duly.Job{Lease: time.Minute})
	push(some, "ends", duly.Job{Lease: time.Minute, Tries: 1, MaxStalls: duly.None})
	reserve(2 * some)
	push(4*some, "late", duly.Job{Delay: time.Minute})
	push(some, "keyed", duly.Job{Delay: 2 * time.Minute})
	push(some, "brief", duly.Job{Delay: 30 * time.Second, TTL: 2 * time.Minute})
}

// stateOf returns everything that the API shows of the queue.
func stateOf(t *testing.T, e drainable) string {
	t.Helper()
	ctx := t.Context()
	var b strings.Builder
	report, err := e.Check(ctx, contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("Check: %v, %+v", err, report.Faults)
	}
	names, err := e.Queues(ctx, "", duly.PageParams{})
	fmt.Fprintln(&b, names, err)
	stats, err := e.Stats(ctx, theQueue)
	fmt.Fprintf(&b, "%+v %v\n", stats, err)
	for _, state := range duly.States {
		p := duly.ListParams{State: state, Bodies: true, PageParams: duly.PageParams{Limit: duly.MaxBatch}}
		for more := true; more; more = p.Cursor != "" {
			page, err := e.List(ctx, theQueue, p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Jobs {
				fmt.Fprintf(&b, "%s %+v\n", state, page.Jobs[i])
			}
			p.Cursor = page.Next
		}
	}
	return b.String()
}

// sameState compares two states and prints the first line that differs.
func sameState(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Errorf("%s: line %d of the state is\n%s\nafter a clean run it is\n%s", what, i, a[i], b[i])
			return
		}
	}
	t.Errorf("%s: the state has %d lines, after a clean run %d", what, len(a), len(b))
}

// TestMaintenanceCanBeRepeatedAfterAKill kills a process in the middle of a maintenance job of
// several batches. Another process runs the job again. The store must end as after one
// uninterrupted run (fault C11).
//
// C4.73, C9.2
func TestMaintenanceCanBeRepeatedAfterAKill(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		proctest.Need(t, "strace")
		original := filepath.Join(t.TempDir(), "original.db")
		e := mustOpenUpkeep(t, open.File(original), 0)
		stockUpkeep(t, e)
		closeUpkeep(t, e)
		for name := range upkeep {
			t.Run(name, func(t *testing.T) { (&killedFile{T: t, original: original, name: name}).run() })
		}
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Single(t)
		e := mustOpenUpkeep(t, server.URL(), 0)
		stockUpkeep(t, e)
		closeUpkeep(t, e)
		server.Must("SAVE")
		proxy := faultproxy.Redis(t, server.Addr())
		for name := range upkeep {
			t.Run(name, func(t *testing.T) { (&killedClient{T: t, server: server, proxy: proxy, name: name}).run() })
		}
	})
}

func mustOpenUpkeep(t *testing.T, url string, later time.Duration) drainable {
	t.Helper()
	e, err := openUpkeep(t.Context(), url, later)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func closeUpkeep(t *testing.T, e drainable) {
	t.Helper()
	if err := e.(io.Closer).Close(); err != nil {
		t.Fatal(err)
	}
}

// killedFile kills the process at its k-th write or sync.
type killedFile struct {
	*testing.T
	original, name string
	kills, midway  int // midway counts the kills between the first batch and the last
}

func (k *killedFile) run() {
	k.Helper()
	want := k.end(k.copied())
	// Calls are counted per thread. If no thread makes k calls, the run completes.
	first, step := 9, 3.0
	if proctest.Long() {
		first, step = 1, 1.05
	}
	for n := first; ; n = max(n+1, int(float64(n)*step)) {
		path := k.copied()
		inject := fmt.Sprintf("inject=pwrite64,fsync,fdatasync:signal=SIGKILL:when=%d", n)
		before := []string{"strace", "-f", "-q", "-o", os.DevNull, "-e", "trace=pwrite64,fsync,fdatasync", "-e", inject}
		p := proctest.Start(k, proctest.Options{Before: before}, "upkeep", open.File(path), k.name)
		if err := p.Wait(patience); err == nil {
			break
		}
		k.note(p)
		sameState(k.T, fmt.Sprintf("killed at call %d", n), k.end(path), want)
		if k.Failed() {
			return
		}
	}
	k.Logf("%d kills, %d of them between the first batch and the last", k.kills, k.midway)
	if k.kills == 0 {
		k.Error("no process was killed: this run proves nothing")
	}
}

// note counts where in the job the process was killed.
func (k *killedFile) note(p *proctest.Process) {
	k.kills++
	if p.Await("batch", 1, 0) && !p.Await("done", 1, 0) {
		k.midway++
	}
}

// copied returns the path of a fresh copy of the store.
func (k *killedFile) copied() string {
	k.Helper()
	text, err := os.ReadFile(k.original)
	if err != nil {
		k.Fatal(err)
	}
	path := filepath.Join(k.TempDir(), "duly.db")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		k.Fatal(err)
	}
	return path
}

// end runs the job on the store and returns the resulting state. It also waits until the rows of
// a destroyed queue are removed.
func (k *killedFile) end(path string) string {
	k.Helper()
	e := mustOpenUpkeep(k.T, open.File(path), upkeepLater)
	defer closeUpkeep(k.T, e)
	if err := upkeep[k.name](k.Context(), e, func() {}); err != nil {
		k.Fatal(err)
	}
	if k.name == "destroy" {
		eventually.True(k, "the rows of the queue are gone", func() bool { return rowsOf(k.T, e) == 0 })
	}
	return stateOf(k.T, e)
}

// rowsOf counts the job rows in a backup of the store.
func rowsOf(t *testing.T, e drainable) (n int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.(contract.Backuper).Backup(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM jobs").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// killedClient kills the process at the k-th call to a script, alternately before and after the
// server has received it.
type killedClient struct {
	*testing.T
	server        *redistest.Server
	proxy         *faultproxy.Proxy
	name          string
	kills, midway int
}

func isScriptCall(args []string) bool {
	return len(args) > 1 && (args[0] == "FCALL" || strings.HasPrefix(args[0], "EVALSHA"))
}

func (k *killedClient) run() {
	k.Helper()
	want := k.end()
	actions := []faultproxy.Action{faultproxy.Drop, faultproxy.Pass}
	for n := 0; !k.Failed(); n += counts(2, 1) {
		do := actions
		if !proctest.Long() {
			do = actions[n/2%2:][:1]
		}
		for _, do := range do {
			if !k.kill(n, do) {
				k.Logf("%d kills, %d of them between the first batch and the last", k.kills, k.midway)
				if k.kills == 0 {
					k.Error("no process was killed: this run proves nothing")
				}
				return
			}
			sameState(k.T, fmt.Sprintf("killed at call %d", n), k.end(), want)
		}
	}
}

// kill runs the job on the stock and kills it at the n-th call. It reports whether there was such
// a call.
func (k *killedClient) kill(n int, do faultproxy.Action) bool {
	k.Helper()
	k.server.Must("DEBUG", "RELOAD", "NOSAVE")
	started := make(chan *proctest.Process, 1)
	fault := k.proxy.Inject(faultproxy.Fault{
		Match: isScriptCall, Do: do, Skip: n, Before: func([]string) { (<-started).Kill() },
	})
	defer fault.Remove()
	p := proctest.Start(k, proctest.Options{}, "upkeep", "redis://"+k.proxy.Addr(), k.name)
	started <- p
	if err := p.Wait(patience); err == nil {
		return false
	}
	<-fault.Done()
	k.kills++
	if p.Await("batch", 1, 0) && !p.Await("done", 1, 0) {
		k.midway++
	}
	return true
}

// end runs the job on the stock, or on what a killed process has left, and returns the resulting
// state.
func (k *killedClient) end() string {
	k.Helper()
	if k.kills == 0 {
		k.server.Must("DEBUG", "RELOAD", "NOSAVE")
	}
	e := mustOpenUpkeep(k.T, k.server.URL(), upkeepLater)
	defer closeUpkeep(k.T, e)
	if err := upkeep[k.name](k.Context(), e, func() {}); err != nil {
		k.Fatal(err)
	}
	return stateOf(k.T, e)
}

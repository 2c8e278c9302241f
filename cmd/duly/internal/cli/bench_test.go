package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/open"
)

// benchEnv returns the Env of a bench in a synctest bubble. It records the opened URLs.
func benchEnv(out, errs io.Writer, opened *[]string, args ...string) Env {
	return Env{
		Args: append([]string{"duly", "bench"}, args...), Stdin: strings.NewReader(""), Stdout: out, Stderr: errs,
		Getenv: func(name string) string {
			if name == "DULY_URL" {
				return "http://ignored"
			}
			return ""
		},
		Open: func(_ context.Context, url string, _ ...open.Option) (contract.Engine, error) {
			*opened = append(*opened, url)
			return &slowEngine{Engine: model.New(model.Config{})}, nil
		},
		Clock: clock.System(),
	}
}

// slowEngine advances the clock of the bubble, which is otherwise stopped.
type slowEngine struct{ contract.Engine }

func (e *slowEngine) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	time.Sleep(time.Millisecond)
	return e.Engine.Push(ctx, jobs)
}

// C15.28: bench, with --json.
func TestBenchMeasuresAllPhases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		var opened []string
		code := Run(t.Context(), benchEnv(&out, &errs, &opened,
			"--data", dir, "--jobs", "200", "--rate", "100", "--repeat", "1", "--json"))
		if code != exitOK {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		var r bench.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Phases) != len(bench.Phases()) || r.Disk == nil || r.Disk.Rate != 0 && r.Disk.P50 > r.Disk.Max ||
			r.Load.Jobs != 200 {
			t.Errorf("%+v", r)
		}
		last := r.Phases[len(r.Phases)-1].Life
		if last == nil || last.Basis == bench.ServerCPU || len(last.Costs) != 3*len(bench.Kinds()) {
			t.Errorf("%+v", last)
		}
		if len(opened) != 1 || !strings.HasPrefix(opened[0], open.File(dir)) || r.URL != opened[0] {
			t.Errorf("opened %q, reported %q", opened, r.URL)
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%d files remain, %v", len(left), err)
	}
}

func TestBenchKeepsStoreOfURL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := filepath.Join(dir, "jobs.db")
	if err := os.WriteFile(store, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		var opened []string
		code := Run(t.Context(), benchEnv(&out, &errs, &opened,
			"--url", open.File(store), "--phases", "push,take", "--jobs", "200", "--reopen"))
		if code != exitOK || len(opened) != 2 || opened[0] != open.File(store) {
			t.Fatalf("exit %d, opened %q: %s", code, opened, &errs)
		}
		for _, want := range []string{"\npush ", "\ntake ", "disk "} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%d files remain, want only the store; %v", len(left), err)
	}
}

func TestBenchJobSelectsKinds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args   []string
		phases []bench.Phase
		costs  int
	}{
		"added": {
			[]string{"--phases", "push", "--job", "tries,tries,all", "--batch", "1,50"},
			[]bench.Phase{"push", "life"}, 2 * 3,
		},
		"in place": {
			[]string{"--phases", "life,push", "--job", "order", "--batch", "50"}, []bench.Phase{"life", "push"}, 2,
		},
		"every": {
			[]string{"--phases", "life", "--job", "every", "--batch", "10"},
			[]bench.Phase{"life"}, len(bench.Kinds()),
		},
		"backlog": {
			[]string{"--job", "id", "--batch", "10", "--backlog-ready", "10"}, bench.Phases(), 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				var opened []string
				args := []string{"--data", dir, "--jobs", "100", "--rate", "100", "--repeat", "1", "--json"}
				args = append(args, tt.args...)
				if code := Run(t.Context(), benchEnv(&out, &errs, &opened, args...)); code != exitOK {
					t.Fatalf("exit %d: %s", code, &errs)
				}
				var r bench.Report
				if err := json.Unmarshal(out.Bytes(), &r); err != nil {
					t.Fatal(err)
				}
				var phases []bench.Phase
				for i := range r.Phases {
					phases = append(phases, r.Phases[i].Phase)
					if of := r.Phases[i].Life; of != nil && len(of.Costs) != tt.costs {
						t.Errorf("%d costs, want %d: %+v", len(of.Costs), tt.costs, of.Costs)
					}
				}
				if !slices.Equal(phases, tt.phases) {
					t.Errorf("phases %v, want %v", phases, tt.phases)
				}
			})
		})
	}
}

func TestBenchRejectsInvalidFlags(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.do("bench", "--jobs", "0")
	r.do("bench", "--phases", "pull")
	r.do("bench", "--batch", "1001", "--backlog-ready", "-1")
	r.do("bench", "--batch", "1,ten")
	r.do("bench", "--batch", "10,2000", "--job", "every")
	r.do("bench", "--job", "plain,bare")
	r.do("bench", "--phases", "push,idle")
	r.do("bench", "--queues", "101")
	r.do("bench", "--compare")
	r.do("bench", "--url", "redis://:s3cret@127.0.0.1:1", "--shards", "6")
	r.do("bench", "--url", "redis://:s3cret@127.0.0.1:1", "--against", "redis://:s3cret@127.0.0.1:2")
	r.do("bench", "--url", "redis://127.0.0.1:1", "--phases", "spread", "--against", "http://s3cret@127.0.0.1:2")
	r.do("bench", "--url", "http://s3cret@127.0.0.1:1", "--sync-delay", "2ms")
	r.do("bench", "--url", "http://s3cret@127.0.0.1:1", "--reopen")
	r.do("bench", "--url", "redis://:s3cret@127.0.0.1:1", "--sync-delay", "2ms")
	r.do("bench", "--url", "http://s3cret@127.0.0.1:1", "--data", ".")
	r.do("bench", "--url", "http://s3cret@127.0.0.1:1")
	r.do("bench", "more")
	r.golden("bench-misuse")
}

// measured returns a sample report.
func measured() *bench.Report {
	r := &bench.Report{
		URL: "sqlite:bench.db", Machine: bench.Machine{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26"}, Repeat: 3,
		Disk:      &bench.Disk{Dir: ".", P50: 2023, P99: 2061.2, Max: 10_400, Rate: 480.4},
		SyncDelay: 2000,
		Load: bench.LoadView{
			Jobs: 100_000, Seconds: 10, Batch: 100, Callers: 4, Goroutines: 64, Concurrency: 64, Body: 100, Rate: 1000,
			BacklogReady: 1_000_000, BacklogDelayed: 1_000_000, Reopened: true,
		},
	}
	rates := []float64{131_415, 52_000.6, 61_234, 9.96, 800, 999.7}

	for i, p := range bench.Phases()[:6] {
		r.Phases = append(r.Phases, bench.Result{
			Phase: p, Jobs: 100_000, Seconds: 100_000 / rates[i], PerSecond: rates[i], Slowest: rates[i] * 0.9,
			Fastest: rates[i] * 1.1, CPU: 12.34, Runs: 3,
			Latency: &bench.Latency{Of: "call", Count: 1000, Min: 0.5, P50: 412.34, P99: 1234.5, Max: 2_345_678},
		})
	}

	r.Phases = append(r.Phases, lifeResult(bench.ProcessCPU))
	r.Phases[3].Latency = nil
	r.Phases[3].Cut = 2
	late := &r.Phases[5]
	late.Latency = &bench.Latency{Of: "lateness", Count: 30_000, Min: -1200, P50: 700, P99: 2100, Max: 9000}
	return r
}

// lifeResult returns a result of the phase life.
func lifeResult(basis bench.Basis) bench.Result {
	table := &bench.LifeTable{Basis: basis, Rounds: 3, Callers: 4, Costs: []bench.LifeCost{
		{Kind: bench.Plain, Batch: 1, Jobs: 2000, Push: 12.34, Reserve: 10.2, Ack: 6, Sum: 28.54, ToPlain: 1},
		{Kind: bench.All, Batch: 50, Jobs: 10_000, Push: 6.5, Reserve: 0.75, Ack: 3, Sum: 10.25, ToPlain: 1.846},
	}}
	if basis == bench.ServerCPU {
		bare := bench.LifeCost{
			Kind: bench.Bare, Batch: 1, Jobs: 2000, Push: 5, Reserve: 4, Ack: 1, Sum: 10, ToPlain: 0.35, ToBare: 1,
		}
		table.Costs = append([]bench.LifeCost{bare}, table.Costs...)
		table.Costs[1].ToBare, table.Costs[2].ToBare = 2.854, 2.2
	} else {
		table.Cut = 1
	}
	return bench.Result{Phase: bench.Life, Jobs: 42_000, Runs: 3, Life: table}
}

// spreadResult returns a result of the phase spread.
func spreadResult() bench.Result {
	return bench.Result{Phase: bench.Spread, Jobs: 60_000, Runs: 3, Spread: &bench.SpreadTable{
		Shards: 8, Rounds: 3, Jobs: 20_000, Against: "redis 7.0.15, append-only file on",
		Nodes: []bench.NodeShards{
			{Node: "10.0.0.1:6379", Shards: 4}, {Node: "10.0.0.2:6379", Shards: 2}, {Node: "10.0.0.3:6379", Shards: 2},
		},
		Costs: []bench.SpreadCost{
			{Batch: 50, Callers: 4, Cluster: true, Shards: 8, Push: 1.5, Take: 2, Sum: 3.5, All: 7.25, ToServer: 0.5},
			{Batch: 1, Callers: 512, Shards: 1, Push: 3, Take: 4, Sum: 7, All: 7, ToServer: 1},
		},
	}}
}

// gauged returns a report of a server with a gauge, compared with no backlog.
func gauged(counts bool) *bench.Report {
	r := measured()
	r.URL, r.Disk, r.SyncDelay, r.Load.Reopened = "redis+cluster://10.0.0.1", nil, 0, false
	r.Against = "redis://10.0.0.9"
	r.Server = &bench.ServerView{Server: "redis 7.0.15, append-only file on", Resolution: "bounds that double",
		NativePush: 2.5, NativeTake: 3.2}
	r.Server.Life = &bench.LifeView{CPU: 7.3456, Native: 4.321, Ratio: 1.7, Counts: counts}
	r.Phases = r.Phases[:6] // without the phase life, which has a separate table

	for i := range r.Phases {
		r.Phases[i].Cut = 0
		r.Phases[i].Server = &bench.ServerCost{CPU: 3.456,
			Scripts: &bench.ScriptCost{Calls: 2000, Mean: 212.3, P50: 264, P99: 528, P9999: 1056}}
	}

	calls := bench.Result{Phase: bench.Calls, Jobs: 20_000, Seconds: 1, PerSecond: 20_000, Runs: 1, Parts: []bench.Part{{
		Name: "push", Jobs: 20_000, Seconds: 1, Latency: &bench.Latency{Of: "call", Count: 400, Min: 100, P50: 200, P99: 300,
			Max: 400}, Server: r.Phases[0].Server,
	}}}
	native := bench.Result{Phase: bench.NativePush, Jobs: 100_000, Seconds: 0.5, PerSecond: 200_000, Slowest: 190_000,
		Fastest: 210_000, Runs: 3, Server: &bench.ServerCost{CPU: 2.1}}
	r.Phases = append(r.Phases, native, calls,
		lifeResult(bench.ServerCPU), spreadResult(),
		bench.Result{Phase: bench.Memory, Jobs: 200_000, Memory: &bench.MemoryView{
			Ready: 311.4, Delayed: 329.8, Kinds: []bench.KindMemory{
				{Kind: bench.Plain, Bytes: 311.4, ToPlain: 1}, {Kind: bench.Order, Bytes: 412.6, ToPlain: 1.325},
			},
		}},
		bench.Result{Phase: bench.Idle, Seconds: 60, Idle: &bench.IdleView{Queues: 100, Requests: 44, PerSecond: 44.0 / 60}})
	if counts {
		without := measured().Phases[0]
		without.PerSecond, without.Server = 140_000,
			&bench.ServerCost{CPU: 3, Scripts: &bench.ScriptCost{Calls: 2000, Mean: 200}}
		r.Without = []bench.Result{without}
		r.Server.Life.Native = 0
	}
	return r
}

// fakeGauge is a gauge of a server without statistics.
type fakeGauge struct{ closed bool }

func (*fakeGauge) About() bench.About                          { return bench.About{Server: "mute 1"} }
func (*fakeGauge) Read(context.Context) (bench.Reading, error) { return bench.Reading{}, nil }
func (m *fakeGauge) Native(int, int) bench.Native              { return m }
func (m *fakeGauge) Streams(int, int) bench.Native             { return m }
func (m *fakeGauge) Close()                                    { m.closed = true }
func (*fakeGauge) Lanes() int                                  { return 1 }
func (*fakeGauge) Most() int                                   { return 50 }
func (*fakeGauge) Push(context.Context, int, int) error        { return nil }
func (*fakeGauge) Ack(context.Context, int, []string) error    { return nil }
func (*fakeGauge) Remove(context.Context) error                { return nil }
func (*fakeGauge) Reserve(_ context.Context, _, n int) ([]string, error) {
	return make([]string, n), nil
}

func (*fakeGauge) Watch(context.Context) (func(context.Context) (int64, error), error) {
	return func(context.Context) (int64, error) { return 70, nil }, nil
}

func TestBenchReadsGauge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		var opened []string
		server := &fakeGauge{}
		env := benchEnv(&out, &errs, &opened,
			"--url", "redis://:s3cret@h", "--jobs", "200", "--rate", "100", "--repeat", "1", "--json")
		env.Gauge = func(url string) func(context.Context) (bench.Gauge, error) {
			if url != "redis://:s3cret@h" {
				t.Errorf("asked for the gauge of %q", url)
			}
			return func(context.Context) (bench.Gauge, error) { return server, nil }
		}
		if code := Run(t.Context(), env); code != exitOK {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		var r bench.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Phases) != len(bench.GaugePhases()) || r.Server == nil || r.Server.Server != "mute 1" ||
			r.Load.Batch != 50 || r.Load.Concurrency != 100 {
			t.Errorf("%d phases, %+v, %+v", len(r.Phases), r.Server, r.Load)
		}
		for i := range r.Phases {
			of := r.Phases[i].Life
			if of != nil && (of.Basis != bench.ServerCPU || len(of.Costs) != 3*(len(bench.Kinds())+1)) {
				t.Errorf("%+v", of)
			}
		}
		if !server.closed || r.URL != "redis://***@h" {
			t.Errorf("closed: %v; reported %q", server.closed, r.URL)
		}
	})
}

func TestBenchReport(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{env: Env{Stdout: &out, Clock: clock.NewFake(), Terminal: func(any) bool { return false }}}
	good, bad := measured(), measured()
	bad.Disk.P50, bad.SyncDelay, bad.Load.BacklogReady, bad.Load.BacklogDelayed = 1.2, 0, 0, 0
	bad.Phases = bad.Phases[5:6]
	bad.Phases[0].Early, bad.Phases[0].Behind, bad.Phases[0].Either = 1, 7, 430

	for _, r := range []*bench.Report{good, bad, gauged(true), gauged(false)} {
		p := a.newPrinter()
		if err := p.benchReport(r); err != nil {
			t.Fatal(err)
		}
		p.printf("\n")
		p.flush()
	}

	compareGolden(t, "bench-report", out.String())
	if err := earlyError(good); err != nil {
		t.Error(err)
	}
	if err := earlyError(bad); err == nil || !strings.Contains(err.Error(), "1 job came before") {
		t.Errorf("an early job: %v", err)
	}
}

func TestBenchShowsBarPerStep(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	c := clock.NewFake()
	b := &benchBar{app: &app{env: Env{Stderr: &errs, Clock: c, Terminal: func(any) bool { return true }}}}

	for _, at := range []bench.Progress{
		{Loading: true, Done: 5, Total: 10}, {Phase: bench.Take, Run: 1, Runs: 3, Loading: true, Done: 1, Total: 10},
		{Phase: bench.Take, Run: 1, Runs: 3, Done: 10, Total: 10},
	} {
		c.Advance(time.Second)
		b.show(at)
	}

	b.end()

	for _, want := range []string{
		"load backlog  [███████████████░", "take 1/3, loading  ",
		"take 1/3  [██████████████████████████████] 100%  10",
	} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no %q in %q", want, &errs)
		}
	}

	if !strings.HasSuffix(errs.String(), "\r\x1b[K") {
		t.Errorf("the bar stays: %q", &errs)
	}
}

func TestMicrosecondsArePrintedShort(t *testing.T) {
	t.Parallel()
	for us, want := range map[float64]string{
		0: "0s", 0.5: "500ns", 23.4: "23.4µs", 999.96: "1ms", 1234.5: "1.23ms",
		-1234.5: "-1.23ms", 61_234_567: "1m1.2s",
	} {
		if got := micros(us); got != want {
			t.Errorf("micros(%g) = %q, want %q", us, got, want)
		}
	}
}

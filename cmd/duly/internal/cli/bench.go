package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/open"
)

// benchFlags are the flags of `duly bench`.
type benchFlags struct {
	bench.Config
	phases    []string
	kinds     []string
	against   string // URL of the second server for the phase spread
	folder    string // folder for a temporary file
	syncDelay time.Duration
	// batches and concurrency are zero if they are not set, because the defaults depend on the URL.
	batches     []int
	concurrency int
}

// everyKind is the value of --job for all kinds.
const everyKind = "every"

// defaultLoad is the default load. gaugeLoad has the differences for a server with a
// gauge.
var (
	defaultLoad = bench.Load{
		Jobs: 100_000, Time: 10 * time.Second, Batch: 100, Callers: 4, Goroutines: 64, Concurrency: 64,
		Body: 100, Rate: 1000, Queues: 100,
	}
	gaugeLoad = bench.Load{Batch: 50, Concurrency: 100}
)

const benchLong = `Measures the throughput and the latency of an engine, phase by phase:

  push      push batches, from a few callers
  take      reserve and ack batches of a loaded queue
  single    push one job per call, from many goroutines
  work      empty a loaded queue with the worker
  both      push one job per call while the worker handles the jobs
  lateness  time from due to the start of the handler, at a rate of jobs that become due; and the number of early jobs
  calls     one call after the other, for each operation, in a queue with jobs
  burst     reserve and ack jobs that became due in the same millisecond
  life      push, reserve and ack jobs of each kind: the cost of each stage, and the ratio to a plain job
  publish   only with --phases: publish batches to a topic, from a few callers
  group     only with --phases: reserve and ack batches of a group of a loaded topic
  group-work   the same with a worker that handles batches
  group-lateness   lateness of delayed messages of a topic, with a worker
  tick-lateness   lateness of the runs of --rate schedules that have a tick per second each, with a worker

With a redis:// URL there are also, by default:

  native-push, native-take   push and take with bare commands of the server: the minimum work for a job
  native-publish, native-group   only with --phases: publish and group with XADD, XREADGROUP and XACK
  memory    load ready and delayed jobs, and ready jobs of each kind: bytes per job
  idle      a worker waits on empty queues: requests per second
  spread    only with --phases, and for a cluster: push and take jobs of a queue with --shards shards, in batches and
            by 512 and 64 callers of single jobs: the cost of the busiest node, compared to the server of --against

Each phase also has the CPU time of the server and the duration of its scripts. Without redis://, calls and burst are
measured only with --phases.

Without --url it creates a temporary file in a new folder in --data, and removes it at the end. --data must be on the
disk to measure (a temporary folder often is in memory). The duration of a sync on that disk is printed above the
figures. With --url it uses queues whose names begin with "bench-", and destroys them at the end. It ignores DULY_URL,
so that it does not load a server by mistake. Nothing else should use the server meanwhile.

--job selects the kinds of jobs in life and memory, and adds life to --phases:

  plain     only a body
  tries, ttl, retain, lease, backoff   this one rule
  id        an ID
  priority  one of ten priorities
  order     one of 1000 order keys
  merge     a merge key for each job
  all       tries, ID, priority, order key and TTL together
  every     each of these kinds

life measures every kind with calls of each size of --batch. It does so once per round, together with bare commands of
the server, so that the ratios are valid on a busy machine. --repeat is the number of rounds. The other phases use the
largest size.

The result of a phase is the median of its runs. Latencies are those of all runs together. A job that came before its
due time makes the command fail.`

const benchExamples = `  duly bench
  duly bench --backlog-ready 1000000 --backlog-delayed 1000000 --reopen
  duly bench --sync-delay 2ms
  duly bench --phases lateness --rate 10000 --jobs 100000 --repeat 1
  duly bench --url http://TOKEN@127.0.0.1:7777/default --json
  duly bench --url redis://127.0.0.1 --backlog-ready 1000000 --backlog-delayed 1000000 --compare
  duly bench --url redis://127.0.0.1 --phases life --repeat 9
  duly bench --url redis://127.0.0.1 --phases life,memory --job tries,all --batch 50
  duly bench --url redis+cluster://10.0.0.1 --phases spread --against redis://10.0.0.9`

func benchCommand(a *app) *cobra.Command {
	b := benchFlags{Config: bench.Config{Repeat: 3, Load: defaultLoad}}
	cmd := a.command("bench", "Measure an engine", benchLong, benchExamples,
		func(ctx context.Context, p *printer, _ []string) error {
			// Warnings about the server explain bad figures, so a benchmark always prints them.
			a.warnings = warnAlways
			return a.bench(ctx, p, &b)
		})

	cmd.Args = noArgs
	b.register(cmd)
	return cmd
}

// register adds the flags.
func (b *benchFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&b.phases, "phases", nil, "`phases` to measure, in this order (default: all)")
	f.StringSliceVar(&b.kinds, "job", nil, "`kinds` of jobs in life and memory (default: every)")
	countVar(f, &b.Load.Jobs, "jobs", "maximum number of jobs of a run")
	durationVar(f, &b.Load.Time, "time", "maximum duration of a run")
	countVar(f, &b.Repeat, "repeat", "runs of each phase")
	f.Var(countsFlag{&b.batches}, "batch", "jobs per call, several for life (default 100, redis:// 50, life 1,10,50)")
	countVar(f, &b.Load.Callers, "callers", "goroutines of push and take")
	countVar(f, &b.Load.Goroutines, "goroutines", "goroutines of single and both, each with one job per call")
	countVar(f, &b.concurrency, "concurrency", "concurrent handlers of the worker (default 64; 100 for redis://)")
	countVar(f, &b.Load.Body, "body", "bytes per body")
	countVar(f, &b.Load.Rate, "rate", "jobs that become due per second in lateness, and schedules in tick-lateness")
	countVar(f, &b.Load.Queues, "queues", "queues that idle waits for")
	countVar(f, &b.Shards, "shards", "shards of the queue in spread, a power of two up to 256 (default 8)")

	f.StringVar(&b.against, "against", "", "`URL` of the server to which spread compares")
	f.IntVar(&b.Backlog.Ready, "backlog-ready", 0, "`n` ready jobs in the queue during the phases")
	f.IntVar(&b.Backlog.Delayed, "backlog-delayed", 0, "`n` jobs due tomorrow in the queue during the phases")
	f.BoolVar(&b.Backlog.Reopen, "reopen", false, "reopen the engine after loading the backlog")
	f.BoolVar(&b.Backlog.Compare, "compare", false, "measure without the backlog first, and compare")
	durationVar(f, &b.syncDelay, "sync-delay", "add this to every sync of the file, to simulate a slow disk")
	f.StringVar(&b.folder, "data", "", "`folder` for a temporary file (default: the current folder)")

	completeValues(cmd, "phases", texts(bench.AllPhases())...)
	completeValues(cmd, "job", append(texts(bench.Kinds()), everyKind)...)
}

// texts converts names to strings.
func texts[T ~string](names []T) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		all = append(all, string(name))
	}
	return all
}

// bench measures and prints the report. After an error or an interrupt it prints the
// phases before it.
func (a *app) bench(ctx context.Context, p *printer, b *benchFlags) error {
	// The comparison reads the CPU time of a Redis process, which other engines do not report.
	if b.against != "" && !open.Redis(b.against) {
		return usageErrorf("--against is %s, must be the redis:// URL of one server", open.Redact(b.against))
	}
	b.fillConfig(a)
	if err := b.Validate(); err != nil {
		return err
	}

	target, err := a.benchTarget(b)
	if err != nil {
		return err
	}
	defer target.remove()
	var disk *bench.Disk
	// The time of a sync explains most of what a file can do.
	if target.folder != "" {
		if disk, err = bench.MeasureDisk(ctx, target.folder, b.syncDelay, a.env.Clock); err != nil {
			return err
		}
	}

	bar := &benchBar{app: a}
	b.Namespace, b.Clock, b.Progress = target.namespace, a.env.Clock, bar.show

	// An engine in this process shares its CPU with the callers, so its CPU time is the CPU time of the process.
	b.Embedded = !isRemote(target.url) && !open.Redis(target.url)
	b.Open = a.benchOpen(b, target.url)
	report, err := bench.Run(ctx, b.Config)
	bar.end()

	// An interrupted run still prints the phases that it has measured.
	if report != nil && len(report.Phases)+len(report.Without) > 0 {
		report.Against, report.URL = open.Redact(b.against), open.Redact(target.url)
		report.Disk, report.SyncDelay = disk, float64(b.syncDelay)/float64(time.Microsecond)
		// The error of the run is more useful than that of printing its partial report.
		if printErr := p.benchReport(report); err == nil {
			err = printErr
		}
	}
	if err != nil {
		return a.withConnectHint(err, target.endpoint)
	}
	return earlyError(report)
}

// benchOpen returns the function that opens the engine of a URL.
func (a *app) benchOpen(b *benchFlags, url string) func(context.Context) (contract.Engine, error) {
	return func(ctx context.Context) (contract.Engine, error) {
		secure, err := a.tlsConfig("")
		if err != nil {
			return nil, err
		}
		return a.env.Open(ctx, url, open.Log(a.engineLog(url)), open.SyncDelay(b.syncDelay), open.TLS(secure))
	}
}

// fillConfig sets the fields of the Config from the flags.
func (b *benchFlags) fillConfig(a *app) {
	for _, name := range b.phases {
		b.Phases = append(b.Phases, bench.Phase(name))
	}
	// Without --phases, the default phases include the phase life.
	if len(b.kinds) > 0 && len(b.phases) > 0 && !slices.Contains(b.Phases, bench.Life) {
		b.Phases = append(b.Phases, bench.Life)
	}
	for _, name := range b.kinds {
		// The value contains all kinds, so the names after it add nothing.
		if name == everyKind {
			b.Kinds = bench.Kinds()
			break
		}
		b.Kinds = append(b.Kinds, bench.Kind(name))
	}

	// Only Redis has a gauge. Its absence selects the defaults of a file.
	if a.env.Gauge != nil {
		b.Gauge = a.env.Gauge(a.url)
	}
	if b.against != "" {
		b.Against = bench.Target{Open: a.benchOpen(b, b.against)}
		if a.env.Gauge != nil {
			b.Against.Gauge = a.env.Gauge(b.against)
		}
	}

	// Redis needs other batches than a file to be busy.
	if b.Gauge != nil {
		b.Load.Batch, b.Load.Concurrency = gaugeLoad.Batch, gaugeLoad.Concurrency
	}
	b.Batches = []int{1, 10, 50}

	// life measures each size. The other phases have only one, the largest.
	if len(b.batches) > 0 {
		b.Load.Batch, b.Batches = slices.Max(b.batches), b.batches
	}
	if b.concurrency != 0 {
		b.Load.Concurrency = b.concurrency
	}
}

// earlyError returns an error if a job came before its due time.
func earlyError(report *bench.Report) error {
	// Never early is a promise, so a single early job fails the benchmark.
	var early int64
	for _, phases := range [][]bench.Result{report.Without, report.Phases} {
		for i := range phases {
			early += phases[i].Early
		}
	}
	if early == 0 {
		return nil
	}
	return contract.Errorf(duly.CodeInternal, "%s came before the due time", plural(early, "job"))
}

// benchTarget is the engine that `duly bench` measures.
type benchTarget struct {
	endpoint
	folder string // folder of the file; "" for a server
	remove func() // removes a temporary file
}

// benchTarget returns the engine of --url, else a temporary file.
func (a *app) benchTarget(b *benchFlags) (t benchTarget, err error) {
	// Every return has a remove function, so the caller can defer it before it looks at the URL.
	t.remove = func() {}
	switch {
	// DULY_URL is ignored here, so that a benchmark never loads a server by mistake.
	case a.url == "":
		if t, err = a.temporaryTarget(b.folder); err != nil {
			return t, err
		}
	case b.folder != "":
		return t, usageErrorf("--data is for a temporary file; leave it out, or --url")
	default:
		if t.endpoint, err = a.completeEndpoint(endpoint{url: a.url}); err != nil {
			return t, err
		}
		if path := open.Path(t.url); path != "" { // the engine reports errors of the path
			t.folder = filepath.Dir(path)
		}
	}

	// These flags change how this process opens a file. A server would ignore them.
	if isRemote(t.url) || open.Redis(t.url) {
		switch {
		case b.syncDelay > 0:
			return t, usageErrorf("--sync-delay is for a sqlite: file; %s syncs by itself", open.Redact(t.url))
		case b.Backlog.Reopen:
			return t, usageErrorf("--reopen is for a sqlite: file; a server keeps its own open")
		}
	}
	return t, nil
}

// temporaryTarget returns a file in a new folder, because an engine creates further files
// next to its own.
func (a *app) temporaryTarget(parent string) (t benchTarget, err error) {
	if parent == "" {
		parent = "."
	}
	if t.folder, err = os.MkdirTemp(parent, "duly-bench-"); err != nil {
		return t, withHint(err, "choose a writable folder: --data")
	}
	removeFolder := func() { os.RemoveAll(t.folder) }
	// A second signal ends the program without the deferred calls.
	removeHook := a.onAbort(removeFolder)
	t.remove = func() { removeHook(); removeFolder() }
	t.endpoint = endpoint{url: open.File(filepath.Join(t.folder, "bench.db")), namespace: contract.NamespaceOr(a.namespace)}
	return t, nil
}

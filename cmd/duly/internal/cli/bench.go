package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench"
	"github.com/dulymq/duly/open"
)

// benchFlags are what the flags of `duly bench` say.
type benchFlags struct {
	bench.Config
	phases    []string
	kinds     []string
	against   string // URL of the one server for spread
	folder    string // where the file of its own is made
	syncDelay time.Duration
	// batches and concurrency are zero until they are given: what is usual differs.
	batches     []int
	concurrency int
}

// everyKind is what --job calls all kinds together.
const everyKind = "every"

// benchUsual is the load where nothing else is said; benchGauge is what
// differs where the server can be asked what it has used.
var (
	benchUsual = bench.Load{
		Jobs: 100_000, Time: 10 * time.Second, Batch: 100, Callers: 4, Goroutines: 64, Concurrency: 64, Body: 100, Rate: 1000, Queues: 100,
	}
	benchGauge = bench.Load{Batch: 50, Concurrency: 100}
)

func benchCommand(a *app) *cobra.Command {
	b := benchFlags{Config: bench.Config{Repeat: 3, Load: benchUsual}}
	cmd := a.command("bench", "Measure an engine",
		`Measures how many jobs a second an engine takes, hands out and ends, and how late it is, phase by phase:

  push      batches, from a few callers
  take      reserve and ack batches of a loaded queue
  single    push one job per call, from many goroutines
  work      empty a loaded queue through the worker
  both      push one job per call while the worker works on them
  lateness  handler entry minus due moment, at a rate of jobs that fall due; and how many came early
  calls     one call after the other, each operation by itself, in a queue that holds jobs
  burst     reserve and ack jobs that have fallen due in the same millisecond
  life      push, reserve and ack jobs of each kind: what each stage costs, and the ratio to a plain job
  publish   only if --phases names it: batches to a topic, from a few callers
  group     only if --phases names it: reserve and ack batches of a group of a loaded topic
  group-work   the same through a worker that handles batches
  group-lateness   lateness of delayed messages of a topic, through a worker

With a redis:// URL there are also, and by default:

  native-push, native-take   push and take by bare commands of the server: what is necessary to keep a job at all
  native-publish, native-group   only if --phases names them: publish and group by XADD, XREADGROUP and XACK
  memory    load ready and delayed jobs, and ready ones of each kind: bytes per job
  idle      a worker waits on empty queues: requests per second
  spread    only if --phases names it, and for a cluster: push and take jobs of a queue with --shards shards, in
            batches and by 512 and 64 callers of single jobs: what the busiest node takes, beside the same on the one
            server of --against

and each phase tells what it took of the server's processor, and how long its scripts ran. Without one, calls and burst are
done if --phases names them.

Without --url it makes a file of its own in a new folder under --data, which must be on the disk that is meant (a temporary
folder often is memory), and removes it at the end; what a sync costs on that disk is printed above the figures.
With --url it works in queues of its own whose names begin with "bench-", and destroys them at the end. DULY_URL is not
looked at: nobody wants to load a server because a variable was set. Nothing else should use the server meanwhile.

--job names the kinds of jobs in life and memory and adds life to --phases:

  plain     a body and nothing else
  tries, ttl, retain, lease, backoff   this one rule of its own
  id        an ID of its own
  priority  one of ten priorities
  order     one of 1000 order keys
  merge     a merge key of its own
  all       tries, ID, priority, order key and TTL together
  every     each of these kinds

life measures every kind in calls of each size of --batch and does so once per round, bare commands of the server too,
so that its ratios hold on a busy machine. There are as many rounds as --repeat. The other phases use the largest size.

A phase is the median of its runs; latencies are those of all runs together. A job that came before its due moment makes
the command fail.`,
		`  duly bench
  duly bench --backlog-ready 1000000 --backlog-delayed 1000000 --reopen
  duly bench --sync-delay 2ms
  duly bench --phases lateness --rate 10000 --jobs 100000 --repeat 1
  duly bench --url http://TOKEN@127.0.0.1:7777/default --json
  duly bench --url redis://127.0.0.1 --backlog-ready 1000000 --backlog-delayed 1000000 --compare
  duly bench --url redis://127.0.0.1 --phases life --repeat 9
  duly bench --url redis://127.0.0.1 --phases life,memory --job tries,all --batch 50
  duly bench --url redis+cluster://10.0.0.1 --phases spread --against redis://10.0.0.9`,
		func(ctx context.Context, p *printer, _ []string) error {
			a.hears = hearAll
			return a.bench(ctx, p, &b)
		})
	cmd.Args = noArgs
	b.register(cmd)
	return cmd
}

func (b *benchFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&b.phases, "phases", nil, "`phases` to go through, in this order (default: all)")
	f.StringSliceVar(&b.kinds, "job", nil, "`kinds` of jobs in life and memory (default: every)")
	countVar(f, &b.Load.Jobs, "jobs", "most jobs of a run")
	durationVar(f, &b.Load.Time, "time", "longest time of a run")
	countVar(f, &b.Repeat, "repeat", "runs of each phase")
	f.Var(countsFlag{&b.batches}, "batch", "jobs per call, several sizes for life (default 100, redis:// 50, life 1,10,50)")
	countVar(f, &b.Load.Callers, "callers", "goroutines of push and take")
	countVar(f, &b.Load.Goroutines, "goroutines", "goroutines of single and both, each with one job per call")
	countVar(f, &b.concurrency, "concurrency", "jobs that the worker runs at once (default 64; 100 for redis://)")
	countVar(f, &b.Load.Body, "body", "bytes of a body")
	countVar(f, &b.Load.Rate, "rate", "jobs that fall due per second in lateness")
	countVar(f, &b.Load.Queues, "queues", "queues that idle waits on")
	countVar(f, &b.Shards, "shards", "shards of the queue in spread, a power of two up to 256 (default 8)")
	f.StringVar(&b.against, "against", "", "`URL` of the one server that spread compares with")
	f.IntVar(&b.Backlog.Ready, "backlog-ready", 0, "`n` ready jobs that lie in the queue meanwhile")
	f.IntVar(&b.Backlog.Delayed, "backlog-delayed", 0, "`n` jobs due tomorrow that lie in the queue meanwhile")
	f.BoolVar(&b.Backlog.Reopen, "reopen", false, "close the engine and open it again when the backlog is loaded")
	f.BoolVar(&b.Backlog.Compare, "compare", false, "go through the phases without the backlog first, and compare")
	durationVar(f, &b.syncDelay, "sync-delay", "add this to every sync of the file, as if the disk were slow")
	f.StringVar(&b.folder, "data", "", "`folder` in which a file of its own is made (default: the current one)")
	fixed(cmd, "phases", texts(bench.AllPhases())...)
	fixed(cmd, "job", append(texts(bench.Kinds()), everyKind)...)
}

// texts returns names as texts.
func texts[T ~string](names []T) []string {
	all := make([]string, 0, len(names))
	for _, name := range names {
		all = append(all, string(name))
	}
	return all
}

// bench measures and prints. What was measured before an error or an
// interrupt is printed, and then the error.
func (a *app) bench(ctx context.Context, p *printer, b *benchFlags) error {
	if b.against != "" && !open.Redis(b.against) {
		return misusef("--against is %s, must be the redis:// URL of one server", open.Redact(b.against))
	}
	b.complete(a)
	if err := b.Validate(); err != nil {
		return err
	}
	target, err := a.benchTarget(b)
	if err != nil {
		return err
	}
	defer target.remove()
	var disk *bench.Disk
	if target.folder != "" {
		if disk, err = bench.MeasureDisk(ctx, target.folder, b.syncDelay, a.env.Clock); err != nil {
			return err
		}
	}
	bar := &benchBar{app: a}
	b.Namespace, b.Clock, b.Progress = target.namespace, a.env.Clock, bar.show
	b.Embedded = !remote(target.url) && !open.Redis(target.url)
	b.Open = a.benchOpen(b, target.url)
	report, err := bench.Run(ctx, b.Config)
	bar.end()
	if report != nil && len(report.Phases)+len(report.Without) > 0 {
		report.Against = open.Redact(b.against)
		report.URL, report.Disk, report.SyncDelay = open.Redact(target.url), disk, float64(b.syncDelay)/float64(time.Microsecond)
		if printed := p.benchReport(report); err == nil {
			err = printed
		}
	}
	if err != nil {
		return a.unreachable(err, target.place)
	}
	return benchVerdict(report)
}

// benchOpen returns the function that opens the engine of a URL.
func (a *app) benchOpen(b *benchFlags, url string) func(context.Context) (duly.Contract, error) {
	return func(ctx context.Context) (duly.Contract, error) {
		secure, err := a.trust("")
		if err != nil {
			return nil, err
		}
		return a.env.Open(ctx, url, open.Log(a.engineLog(url)), open.SyncDelay(b.syncDelay), open.TLS(secure))
	}
}

// complete puts what the flags say into the Config.
func (b *benchFlags) complete(a *app) {
	for _, name := range b.phases {
		b.Phases = append(b.Phases, bench.Phase(name))
	}
	if len(b.kinds) > 0 && len(b.phases) > 0 && !slices.Contains(b.Phases, bench.Life) {
		b.Phases = append(b.Phases, bench.Life)
	}
	for _, name := range b.kinds {
		if name == everyKind {
			b.Kinds = bench.Kinds()
			break
		}
		b.Kinds = append(b.Kinds, bench.Kind(name))
	}
	if a.env.Gauge != nil {
		b.Gauge = a.env.Gauge(a.url)
	}
	if b.against != "" {
		b.Against = bench.Target{Open: a.benchOpen(b, b.against)}
		if a.env.Gauge != nil {
			b.Against.Gauge = a.env.Gauge(b.against)
		}
	}
	if b.Gauge != nil {
		b.Load.Batch, b.Load.Concurrency = benchGauge.Batch, benchGauge.Concurrency
	}
	b.Batches = []int{1, 10, 50}
	if len(b.batches) > 0 {
		b.Load.Batch, b.Batches = slices.Max(b.batches), b.batches
	}
	if b.concurrency != 0 {
		b.Load.Concurrency = b.concurrency
	}
}

// benchVerdict is the error of an engine that broke the contract.
func benchVerdict(report *bench.Report) error {
	var early int64
	for _, of := range [][]bench.Result{report.Without, report.Phases} {
		for i := range of {
			early += of[i].Early
		}
	}
	if early == 0 {
		return nil
	}
	return duly.Errorf(duly.CodeInternal, "%s came before the due moment", plural(early, "job"))
}

package bench

import (
	"cmp"
	"runtime"
	"slices"
)

// Report is the result of a measurement. Its JSON is for programs: the unit of each number is in
// its name.
type Report struct {
	// URL is the engine's URL without secrets; set by the caller.
	URL string `json:"url,omitempty"`
	// Against is the URL of the other server in the phase spread, without secrets. The caller of
	// Run sets it.
	Against string  `json:"against,omitempty"`
	Machine Machine `json:"machine"`
	// Disk is set by the caller, if the engine's disk is on this machine.
	Disk *Disk `json:"disk,omitempty"`
	// Time added to each sync, in µs; set by the caller of Run.
	SyncDelay float64  `json:"sync_delay_us,omitempty"`
	Load      LoadView `json:"load"`
	Repeat    int      `json:"repeat"`
	Phases    []Result `json:"phases"`
	// Without has the results of the phases without the backlog, if the configuration asked for
	// them.
	Without []Result `json:"without_backlog,omitempty"`
	// Server has the costs of the server. It is nil if there was no gauge.
	Server *ServerView `json:"server,omitempty"`
}

// Machine is the measuring machine. The engine may run on another machine.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"` // number of CPUs that the process can use concurrently
	Go   string `json:"go"`
}

// LoadView shows the used [Load] and [Backlog].
type LoadView struct {
	Jobs           int     `json:"jobs"`
	Seconds        float64 `json:"time_s"`
	Batch          int     `json:"batch"`
	Callers        int     `json:"callers"`
	Goroutines     int     `json:"goroutines"`
	Concurrency    int     `json:"concurrency"`
	Body           int     `json:"body_bytes"`
	Rate           int     `json:"rate_per_second"`
	Queues         int     `json:"queues"`
	BacklogReady   int     `json:"backlog_ready"`
	BacklogDelayed int     `json:"backlog_delayed"`
	Reopened       bool    `json:"reopened"`
}

// Result sums up the runs of one phase.
type Result struct {
	Phase Phase `json:"phase"`
	// Jobs, Seconds and PerSecond are from the run with the median rate (if the number of runs is
	// even, the slower of the two in the middle).
	Jobs      int64   `json:"jobs"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	// Slowest and Fastest are the lowest and the highest rate.
	Slowest float64 `json:"slowest_per_second"`
	Fastest float64 `json:"fastest_per_second"`
	// CPU is the CPU time per job that this process used in the median run. It includes an embedded
	// engine. Other load on the machine hardly affects it. 0 means that the CPU time is unknown.
	CPU float64 `json:"cpu_us_per_job"`
	// Runs is the number of runs. Cut is the number of runs that ended at their time limit.
	Runs int `json:"runs"`
	Cut  int `json:"cut_by_time"`
	// Latency covers all runs; nil in phases without latencies.
	Latency *Latency `json:"latency,omitempty"`
	// Early, Behind and Either are for Lateness, over all runs: jobs delivered before they were
	// due, jobs pushed after they were due, and the possible error of the latencies, because the
	// engine's clock differs from this process's clock.
	Early  int64   `json:"early"`
	Behind int64   `json:"behind"`
	Either float64 `json:"clock_error_us"`
	// Server is the server's cost of the phase; nil without a gauge.
	Server *ServerCost `json:"server,omitempty"`
	// Parts is set in the phase calls, Life in life, Spread in spread, Memory in memory, and Idle
	// in idle.
	Parts  []Part       `json:"parts,omitempty"`
	Life   *LifeTable   `json:"life,omitempty"`
	Spread *SpreadTable `json:"spread,omitempty"`
	Memory *MemoryView  `json:"memory,omitempty"`
	Idle   *IdleView    `json:"idle,omitempty"`
}

// Latency is a distribution in microseconds.
type Latency struct {
	Of    string  `json:"of"` // name of the timed operation
	Count int64   `json:"count"`
	Min   float64 `json:"min_us"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	Max   float64 `json:"max_us"`
}

func newReport(cfg Config) *Report {
	l := cfg.Load
	return &Report{
		Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version()},
		Load: LoadView{
			Jobs: l.Jobs, Seconds: l.Time.Seconds(), Batch: l.Batch, Callers: l.Callers, Goroutines: l.Goroutines,
			Concurrency: l.Concurrency, Body: l.Body, Rate: l.Rate, Queues: l.Queues,
			BacklogReady: cfg.Backlog.Ready, BacklogDelayed: cfg.Backlog.Delayed, Reopened: cfg.Backlog.Reopen,
		},
		Repeat: cfg.Repeat,
		Phases: []Result{},
	}
}

// summarize combines a phase's runs into one result.
func summarize(p Phase, s spec, runs []*run, offset clockOffset) Result {
	// Sorts a copy, because the caller needs its runs in their order.
	runs = slices.Clone(runs)
	rate := func(r *run) float64 { return perSecond(r.done.Load(), r.elapsed) }
	slices.SortStableFunc(runs, func(a, b *run) int { return cmp.Compare(rate(a), rate(b)) })
	median := runs[(len(runs)-1)/2]
	result := Result{
		Phase: p, Runs: len(runs), Jobs: median.done.Load(), Seconds: median.elapsed.Seconds(), PerSecond: rate(median),
		Slowest: rate(runs[0]), Fastest: rate(runs[len(runs)-1]),
	}
	if n := median.done.Load(); n > 0 {
		result.CPU = micros(median.cpu) / float64(n)
	}

	all := &Histogram{}
	for _, r := range runs {
		all.Add(&r.latency)
		result.Early += r.early.Load()
		result.Behind += r.behind.Load()
		if r.cut() {
			result.Cut++
		}
	}

	if s.apart {
		result.Either = micros(offset.either)
	}
	if s.of != "" {
		result.Latency = latencyOf(s.of, all)
	}

	return result
}

func latencyOf(of string, h *Histogram) *Latency {
	return &Latency{
		Of: of, Count: h.Count(), Min: micros(h.Min()), P50: micros(h.Percentile(50)), P99: micros(h.Percentile(99)),
		Max: micros(h.Max()),
	}
}

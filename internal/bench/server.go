package bench

import "slices"

// ServerView describes the gauge and the total cost of all phases for the server.
type ServerView struct {
	Server string `json:"server"`
	// Resolution is the precision of the scripts' percentiles.
	Resolution string `json:"script_percentiles"`
	// NativePush and NativeTake are limits for the cost of the native work per job, in µs of CPU
	// time. Above them the ratio does not count. 0 means that the limit is unknown.
	NativePush float64 `json:"native_push_bound_us"`
	NativeTake float64 `json:"native_take_bound_us"`
	// Life is nil unless push and take were measured.
	Life *LifeView `json:"life,omitempty"`
}

// LifeView is the server's cost of a job from its push to its ack, push and take together, in
// microseconds of CPU time.
type LifeView struct {
	CPU float64 `json:"cpu_us_per_job"`
	// Native is the cost of the native work, in µs of CPU time per job, or 0 if it was not
	// measured.
	Native float64 `json:"native_cpu_us_per_job"`
	// Ratio is CPU divided by Native.
	Ratio float64 `json:"ratio"`
	// Counts reports whether the native work was within its limits. If not, the machine was busy
	// with other work, and the ratio is meaningless.
	Counts bool `json:"counts"`
}

// ServerCost is the server's cost of one phase.
type ServerCost struct {
	// CPU is the cost in the median run.
	CPU float64 `json:"cpu_us_per_job"`
	// Scripts is nil if no script ran.
	Scripts *ScriptCost `json:"scripts,omitempty"`
}

// ScriptCost is the duration of the scripts of all runs. A percentile is a limit that this share
// of the calls did not exceed: see ServerView.Resolution.
type ScriptCost struct {
	Calls int64   `json:"calls"`
	Mean  float64 `json:"us_per_call"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P9999 float64 `json:"p9999_us"`
}

// Part has the result of one operation of the phase calls.
type Part struct {
	Name    string      `json:"name"`
	Jobs    int64       `json:"jobs"`
	Seconds float64     `json:"seconds"`
	Latency *Latency    `json:"latency"`
	Server  *ServerCost `json:"server,omitempty"`
}

// MemoryView has the memory of one waiting job, or 0 for jobs that were not loaded.
type MemoryView struct {
	Ready   float64 `json:"bytes_per_ready_job"`
	Delayed float64 `json:"bytes_per_delayed_job"`
	// Kinds is the memory of a ready job of each kind.
	Kinds []KindMemory `json:"kinds,omitempty"`
}

// KindMemory has the memory of one ready job of a kind.
type KindMemory struct {
	Kind  Kind    `json:"kind"`
	Bytes float64 `json:"bytes_per_ready_job"`
	// ToPlain is Bytes divided by the Bytes of a plain job, or 0 if that is unknown.
	ToPlain float64 `json:"ratio_to_plain"`
}

// IdleView has the number of requests that a worker sends while there are no jobs.
type IdleView struct {
	Queues    int     `json:"queues"`
	Requests  int64   `json:"requests"`
	PerSecond float64 `json:"requests_per_second"`
}

func newServerView(a About) *ServerView {
	return &ServerView{Server: a.Server, Resolution: a.Resolution, NativePush: micros(a.NativePush),
		NativeTake: micros(a.NativeTake)}
}

// costOf sums up the server's cost of all runs.
func costOf(runs []*run) *ServerCost {
	var per []float64
	var scripts Timings
	for _, r := range runs {
		if n := r.done.Load(); n > 0 {
			per = append(per, micros(r.server.CPU)/float64(n))
		}
		scripts = scripts.Plus(r.server.Scripts)
	}

	c := &ServerCost{}
	if len(per) > 0 {
		slices.Sort(per)
		c.CPU = per[(len(per)-1)/2]
	}

	if scripts.Count > 0 {
		c.Scripts = &ScriptCost{
			Calls: scripts.Count, Mean: micros(scripts.Time) / float64(scripts.Count), P50: micros(scripts.Percentile(50)),
			P99: micros(scripts.Percentile(99)), P9999: micros(scripts.Percentile(99.99)),
		}
	}

	return c
}

// rateLife sums up the cost of a job from push to ack.
func (r *Report) rateLife() {
	if r.Server == nil {
		return
	}
	cpu := map[Phase]float64{}
	for i := range r.Phases {
		if p := &r.Phases[i]; p.Server != nil {
			cpu[p.Phase] = p.Server.CPU
		}
	}

	// Without both a push and a take, the cost of a whole job is unknown.
	if cpu[Push] == 0 || cpu[Take] == 0 {
		return
	}
	l := &LifeView{CPU: cpu[Push] + cpu[Take]}
	r.Server.Life = l
	push, take := cpu[NativePush], cpu[NativeTake]
	if push == 0 || take == 0 {
		return
	}

	l.Native = push + take
	l.Ratio = l.CPU / l.Native
	within := func(cost, bound float64) bool { return bound == 0 || cost <= bound }
	l.Counts = within(push, r.Server.NativePush) && within(take, r.Server.NativeTake)
}

package bench

import "slices"

// ServerView is what the gauge was, and what the phases together say of the
// server.
type ServerView struct {
	Server string `json:"server"`
	// Resolution says how exactly the scripts' percentiles are known.
	Resolution string `json:"script_percentiles"`
	// NativePush and NativeTake are what the native work may cost per job for
	// the comparison to count; 0: nobody knows.
	NativePush float64 `json:"native_push_bound_us"`
	NativeTake float64 `json:"native_take_bound_us"`
	// Life is nil unless push and take were measured.
	Life *LifeView `json:"life,omitempty"`
}

// LifeView is what a job costs the server from its push to its ack, in
// microseconds of processor time: push and take together.
type LifeView struct {
	CPU float64 `json:"cpu_us_per_job"`
	// Native is the same of the native work; 0 where it was not measured.
	Native float64 `json:"native_cpu_us_per_job"`
	// Ratio is CPU by Native.
	Ratio float64 `json:"ratio"`
	// Counts reports whether the native work was within its bounds. If it was not,
	// the machine had other things to do, and the ratio says nothing.
	Counts bool `json:"counts"`
}

// ServerCost is what one phase costs the server.
type ServerCost struct {
	// CPU is the median run's.
	CPU float64 `json:"cpu_us_per_job"`
	// Scripts is nil where none ran.
	Scripts *ScriptCost `json:"scripts,omitempty"`
}

// ScriptCost is how long the scripts of all runs took. A percentile is a bound
// that so many did not exceed: see ServerView.Resolution.
type ScriptCost struct {
	Calls int64   `json:"calls"`
	Mean  float64 `json:"us_per_call"`
	P50   float64 `json:"p50_us"`
	P99   float64 `json:"p99_us"`
	P9999 float64 `json:"p9999_us"`
}

// Part is one operation of the phase calls.
type Part struct {
	Name    string      `json:"name"`
	Jobs    int64       `json:"jobs"`
	Seconds float64     `json:"seconds"`
	Latency *Latency    `json:"latency"`
	Server  *ServerCost `json:"server,omitempty"`
}

// MemoryView is what memory one waiting job takes; 0 where none was loaded.
type MemoryView struct {
	Ready   float64 `json:"bytes_per_ready_job"`
	Delayed float64 `json:"bytes_per_delayed_job"`
	// Kinds is what a ready job of each kind takes.
	Kinds []KindMemory `json:"kinds,omitempty"`
}

// KindMemory is what memory one ready job of a kind takes.
type KindMemory struct {
	Kind  Kind    `json:"kind"`
	Bytes float64 `json:"bytes_per_ready_job"`
	// ToPlain is Bytes by those of a plain job; 0 where these are not known.
	ToPlain float64 `json:"ratio_to_plain"`
}

// IdleView is what a worker asks of the server while there is nothing to do.
type IdleView struct {
	Queues    int     `json:"queues"`
	Requests  int64   `json:"requests"`
	PerSecond float64 `json:"requests_per_second"`
}

func newServerView(a About) *ServerView {
	return &ServerView{Server: a.Server, Resolution: a.Resolution, NativePush: micros(a.NativePush), NativeTake: micros(a.NativeTake)}
}

// costOf sums up what runs cost the server.
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

// rateLife sums up what a whole life costs.
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

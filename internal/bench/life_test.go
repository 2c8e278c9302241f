package bench

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// costs returns the table's costs of a kind with the given batch size.
func costs(t *testing.T, table *LifeTable, kind Kind, batch int) LifeCost {
	t.Helper()
	for _, c := range table.Costs {
		if c.Kind == kind && c.Batch == batch {
			return c
		}
	}
	t.Fatalf("no %s jobs, %d per call, in %+v", kind, batch, table.Costs)
	return LifeCost{}
}

func TestLifeMeasuresEveryStageOfEveryKind(t *testing.T) {
	t.Parallel()
	g := &gauge{native: time.Microsecond}
	e := g.on(newEngine())
	push := e.push
	e.push = func(jobs []duly.Job) {
		if push(jobs); jobs[0].Tries > 0 {
			g.cpu.Add(int64(100 * time.Microsecond)) // twice the cost of a plain push
		}
	}
	cfg := g.gauged(Config{
		Phases: []Phase{Life}, Repeat: 3, Kinds: []Kind{Order, Tries}, Batches: []int{1, 50}, Load: Load{Jobs: 1500},
	})
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		of := r.Phases[0]
		table := of.Life
		if table == nil || table.Basis != ServerCPU || table.Rounds != 3 || table.Callers != 4 {
			t.Fatalf("%+v", table)
		}
		if of.Jobs != 3*8*1500 || table.Cut != 0 || of.Runs != 3 || len(table.Costs) != 8 {
			t.Errorf("%+v", of)
		}

		// A call costs 100 µs, so calls of 50 jobs cost 2 µs a job.
		about := func(got, want float64) bool { return got > want*0.99 && got < want*1.01 }
		for _, want := range []LifeCost{
			{Kind: Bare, Batch: 50, Push: 1, Reserve: 0, Ack: 1, Sum: 2, ToPlain: 2. / 6, ToBare: 1},
			{Kind: Plain, Batch: 50, Push: 2, Reserve: 2, Ack: 2, Sum: 6, ToPlain: 1, ToBare: 3},
			{Kind: Tries, Batch: 50, Push: 4, Reserve: 2, Ack: 2, Sum: 8, ToPlain: 8. / 6, ToBare: 4},
			{Kind: Order, Batch: 50, Push: 2, Reserve: 2, Ack: 2, Sum: 6, ToPlain: 1, ToBare: 3},
			{Kind: Plain, Batch: 1, Push: 100, Reserve: 100, Ack: 100, Sum: 300, ToPlain: 1, ToBare: 150},
		} {
			got := costs(t, table, want.Kind, want.Batch)
			if !about(got.Push, want.Push) || got.Reserve != want.Reserve && !about(got.Reserve, want.Reserve) ||
				!about(got.Ack, want.Ack) || !about(got.Sum, want.Sum) ||
				!about(got.ToPlain, want.ToPlain) || !about(got.ToBare, want.ToBare) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		if got := costs(t, table, Plain, 50).Jobs; got != 1500 {
			t.Errorf("%d jobs in a round", got)
		}
		if table.Costs[0].Kind != Bare || table.Costs[1].Kind != Plain || table.Costs[0].Batch != 1 {
			t.Errorf("the table begins with %+v, %+v", table.Costs[0], table.Costs[1])
		}
		// This phase has two natives: one for jobs and one for topics.
		if g.removed.Load() != 4 || g.stored.Load() != 0 {
			t.Errorf("removed %d times, %d are stored", g.removed.Load(), g.stored.Load())
		}
		for q, s := range e.stats {
			if c := s.Counters; c.Pushed != c.Acked || c.Stalled != 0 {
				t.Errorf("%s: %+v", q, c)
			}
		}
	})
}

func TestLifeWithoutAGaugeMeasuresElapsedTime(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = time.Millisecond
	cfg := Config{Phases: []Phase{Life}, Kinds: []Kind{Plain}, Load: Load{Jobs: 200, Batch: 50, Callers: 1}}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		table := r.Phases[0].Life
		if table.Basis != Elapsed || len(table.Costs) != 1 {
			t.Fatalf("%+v", table)
		}
		want := LifeCost{Kind: Plain, Batch: 50, Jobs: 200, Push: 20, Reserve: 20, Ack: 20, Sum: 60, ToPlain: 1}
		if got := table.Costs[0]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

func TestLifeOfAnEmbeddedEngineMeasuresCPUTime(t *testing.T) {
	t.Parallel()
	if cpuTime() == 0 {
		t.Skip("this system does not report its processor time")
	}
	cfg := Config{Phases: []Phase{Life}, Kinds: []Kind{Plain}, Embedded: true, Load: Load{Batch: 50}}
	measure(t, newEngine(), cfg, func(t *testing.T, r *Report, err error) {
		if err != nil || r.Phases[0].Life.Basis != ProcessCPU {
			t.Errorf("%+v, %v", r.Phases, err)
		}
	})
}

// Jobs that were pushed within the time limit go through all other stages as well.
func TestTimeLimitOfLifeEndsOnlyThePushes(t *testing.T) {
	t.Parallel()
	e := newEngine()
	e.slow = 10 * time.Millisecond
	cfg := Config{
		Phases: []Phase{Life}, Kinds: []Kind{Plain}, Batches: []int{1},
		Load: Load{Jobs: 5000, Time: 100 * time.Millisecond, Callers: 2},
	}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil {
			t.Fatal(err)
		}
		of := r.Phases[0]
		cost := of.Life.Costs[0]
		if of.Life.Cut != 1 || of.Jobs < 18 || of.Jobs > 22 || cost.Jobs != 2000 || cost.Push < 4500 {
			t.Errorf("%+v, %+v", of, of.Life)
		}
	})
}

func TestJobsHaveOnlyTheSettingsOfTheirKind(t *testing.T) {
	t.Parallel()
	e := newEngine()
	var mu sync.Mutex
	jobs := map[Kind]map[string]duly.Job{}
	e.push = func(of []duly.Job) {
		mu.Lock()
		defer mu.Unlock()
		kind, _, _ := strings.Cut(strings.TrimPrefix(suffix(of[0].Queue), "life-"), "-")
		if jobs[Kind(kind)] == nil {
			jobs[Kind(kind)] = map[string]duly.Job{}
		}
		for _, job := range of {
			jobs[Kind(kind)][job.Queue+"/"+job.ID] = job
		}
	}

	cfg := Config{Phases: []Phase{Life}, Load: Load{Jobs: 2000, Batch: 50}}
	measure(t, e, cfg, func(t *testing.T, r *Report, err error) {
		if err != nil || len(r.Phases[0].Life.Costs) != len(Kinds()) {
			t.Fatalf("%+v, %v", r.Phases, err)
		}
		for _, kind := range Kinds() {
			// 1000 to warm up and 2000 to measure.
			if len(jobs[kind]) != 3000 {
				t.Errorf("%s: %d IDs of 3000 jobs", kind, len(jobs[kind]))
			}
			checkKind(t, kind, slices.Collect(maps.Values(jobs[kind])))
		}
	})
}

// checkKind checks that jobs have the settings of their kind and no other settings.
func checkKind(t *testing.T, kind Kind, jobs []duly.Job) {
	t.Helper()
	has := func(kinds ...Kind) bool { return slices.Contains(kinds, kind) }
	keys, merges, priorities := map[string]bool{}, map[string]bool{}, map[int]bool{}
	for _, j := range jobs {
		keys[j.OrderKey], merges[j.Queue+j.Merge.Key], priorities[j.Priority] = true, true, true
		if (j.Tries > 0) != has(Tries, All) || j.Made == has(ID, All) || (j.TTL == time.Hour) != has(TTL, All) ||
			(j.Retain == time.Minute) != has(Retain) || (j.Lease > 0) != has(Lease) || (j.Backoff != "") != has(Backoff) {
			t.Errorf("a %s job: %+v", kind, j)
			return
		}
		if !j.Made && (len(j.ID) < 16 || len(j.ID) > 20) {
			t.Errorf("a %s job's ID is %q", kind, j.ID)
			return
		}
	}

	for _, of := range []struct {
		what      string
		got, want int
		in        bool
	}{
		{"order keys", len(keys), 1000, has(Order, All)},
		{"merge keys", len(merges), 3000, has(Merge)},
		{"priorities", len(priorities), 10, has(Priority, All)},
	} {
		if of.in && of.got != of.want || !of.in && of.got > 2 {
			t.Errorf("%s jobs have %d %s", kind, of.got, of.what)
		}
	}
}

func TestErrorsOfLifeNameTheKind(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, op := range []string{"push", "reserve", "settle", "destroy"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			e := newEngine()
			e.fail = failOnce(op, 1, broken)
			cfg := Config{Phases: []Phase{Life}, Kinds: []Kind{Plain}, Load: Load{Batch: 50}}
			measure(t, e, cfg, func(t *testing.T, _ *Report, err error) {
				if !errors.Is(err, broken) || !strings.Contains(err.Error(), "life: plain jobs, 50 per call: ") {
					t.Errorf("got %v", err)
				}
			})
		})
	}

	for _, op := range []string{"native push", "native take", "native ack"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			g := &gauge{fail: failOnce(op, 1, broken)}
			cfg := g.gauged(Config{Phases: []Phase{Life}})
			measure(t, g.on(newEngine()), cfg, func(t *testing.T, _ *Report, err error) {
				if !errors.Is(err, broken) || !strings.Contains(err.Error(), "life: bare jobs, 50 per call: ") {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

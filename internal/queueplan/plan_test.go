package queueplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// rig is an engine with a queue.
type rig struct {
	t      *testing.T
	engine *model.Engine
	clock  *clock.Fake
	queue  duly.QueueRef
}

func newRig(t *testing.T) *rig {
	t.Helper()
	c := clock.NewFake()
	e := model.New(model.Config{Clock: c, Manual: true})
	t.Cleanup(func() { e.Close() })
	return &rig{t: t, engine: e, clock: c, queue: duly.Q("mail")}
}

// push pushes n jobs.
func (r *rig) push(n int) {
	r.t.Helper()
	jobs := make([]duly.Job, n)
	for i := range jobs {
		jobs[i] = duly.Job{Queue: r.queue.Name}
		jobs[i].ID, jobs[i].Made = duly.MakeID(&jobs[i]), true
	}
	results, err := r.engine.Push(r.t.Context(), jobs)
	for i := range results {
		err = errors.Join(err, results[i].Err)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// reserve leases up to n jobs.
func (r *rig) reserve(n int) []duly.Delivery {
	r.t.Helper()
	ds, err := r.engine.Reserve(r.t.Context(), duly.ReserveParams{Queues: []string{r.queue.Name}, Max: n})
	if err != nil {
		r.t.Fatal(err)
	}
	return ds
}

// die pushes n jobs and buries them.
func (r *rig) die(n int) {
	r.t.Helper()
	r.push(n)
	r.settle(duly.Bury, r.reserve(n)...)
}

func (r *rig) settle(as duly.Settlement, ds ...duly.Delivery) {
	r.t.Helper()
	requests := make([]duly.SettleRequest, len(ds))
	for i := range ds {
		requests[i] = duly.SettleRequest{Receipt: ds[i].Receipt, As: as}
	}
	errs, err := r.engine.Settle(r.t.Context(), "", requests)
	if err = errors.Join(append(errs, err)...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) plan(patch duly.QueueConfig) (*Plan, error) {
	return Of(r.t.Context(), r.engine, r.queue, patch, r.clock.Now())
}

// apply makes the change of a plan, with its effects checked.
func (r *rig) apply(patch duly.QueueConfig, effects ...string) {
	r.t.Helper()
	p, err := r.plan(patch)
	if err != nil {
		r.t.Fatal(err)
	}
	if !slices.Equal(p.Effects, effects) {
		r.t.Errorf("the effects are %q, want %q", p.Effects, effects)
	}
	if err := r.engine.Configure(r.t.Context(), r.queue, patch); err != nil {
		r.t.Fatal(err)
	}
	if got, err := r.engine.Config(r.t.Context(), r.queue); err != nil || got != p.After {
		r.t.Errorf("the configuration is %+v, %v; the plan has %+v", got, err, p.After)
	}
}

// The stated effect equals the result, for each kind of effect.
func TestEffectEqualsTheResult(t *testing.T) {
	t.Parallel()
	t.Run("max leased", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.push(50)
		ds := r.reserve(31)
		r.apply(duly.QueueConfig{MaxLeased: 10},
			"31 jobs are leased now and max_leased is 10: no job is reserved before 22 leases have ended.")
		r.settle(duly.Ack, ds[:21]...)
		if got := r.reserve(1); len(got) != 0 {
			t.Error("a job was reserved after 21 leases have ended")
		}
		r.settle(duly.Ack, ds[21])
		if got := r.reserve(2); len(got) != 1 {
			t.Errorf("%d jobs were reserved after 22 leases have ended, want 1", len(got))
		}
		r.apply(duly.QueueConfig{MaxLeased: 20})
	})

	t.Run("max jobs", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.push(5)
		ds := r.reserve(3)
		r.apply(duly.QueueConfig{MaxJobs: 4},
			"5 jobs are not finished and max_jobs is 4: pushes are refused before 2 jobs have finished.")
		r.settle(duly.Ack, ds[0])
		if results, err := r.engine.Push(t.Context(), []duly.Job{{Queue: r.queue.Name}}); err != nil || results[0].Err == nil {
			t.Errorf("a push after one job has finished is not refused: %v", err)
		}
		r.settle(duly.Ack, ds[1])
		r.push(1)
	})

	t.Run("dead count", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.die(9)
		r.apply(duly.QueueConfig{DeadCount: 3}, "6 dead jobs are dropped, the oldest first: the queue has 9 and dead_count is 3.")
		r.wantDead(3)
	})

	t.Run("dead age", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.die(1)
		r.clock.Advance(2 * time.Hour)
		r.die(4)
		r.apply(duly.QueueConfig{DeadAge: time.Hour}, "1 dead job is dropped: older than the dead_age of 1h.")
		r.wantDead(4)
		r.apply(duly.QueueConfig{DeadAge: 2 * time.Hour})
	})

	t.Run("rate", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.push(100)
		r.apply(duly.QueueConfig{Rate: duly.Rate{PerSecond: 10, Burst: 20}},
			"100 jobs are ready now: at this rate, the last one is delivered after 8s.")
		left, passed := 100, time.Duration(0)
		for ; left > 0; passed += time.Second {
			if passed > 0 {
				r.clock.Advance(time.Second)
			}
			left -= len(r.reserve(100))
		}
		if passed -= time.Second; passed != 8*time.Second {
			t.Errorf("the last job was delivered after %s", passed)
		}
	})
}

// wantDead steps the queue and checks the number of its dead jobs.
func (r *rig) wantDead(want int64) {
	r.t.Helper()
	r.reserve(1)
	if s, err := r.engine.Stats(r.t.Context(), r.queue); err != nil || s.Sizes.Dead != want {
		r.t.Errorf("%d jobs are dead, want %d: %v", s.Sizes.Dead, want, err)
	}
}

func TestManyOldDeadJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 2 {
		r.die(duly.MaxBatch)
	}
	r.clock.Advance(time.Hour)
	p, err := r.plan(duly.QueueConfig{DeadAge: time.Minute})
	if want := "1000 or more dead jobs are dropped: they are older than the dead_age of 1m."; err != nil ||
		!slices.Equal(p.Effects, []string{want}) {
		t.Errorf("%q, %v", p.Effects, err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(1)
	for _, tt := range []struct {
		patch duly.QueueConfig
		want  string
	}{
		{duly.QueueConfig{}, ""},
		{duly.QueueConfig{MaxLeased: 5}, "max_leased none 5"},
		{duly.QueueConfig{MaxLeased: duly.None}, ""},
		{duly.QueueConfig{Rate: duly.Rate{PerSecond: 2.5}, Adapt: duly.Adapt{Floor: 0.1}},
			"rate none 2.5, burst none 3, adapt none 0.1"},
		{duly.QueueConfig{Defaults: duly.Defaults{Tries: 3, TTL: time.Hour}}, "defaults.tries 16 3, defaults.ttl none 1h"},
	} {
		p, err := r.plan(tt.patch)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range p.Changes {
			got = append(got, c.Field+" "+c.From+" "+c.To)
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("the changes are %q, want %q", text, tt.want)
		}

		// The way back has the same fields.
		var back []string
		for _, c := range changes(p.After, p.Before) {
			back = append(back, c.Field+" "+c.To+" "+c.From)
		}
		slices.Sort(back)
		slices.Sort(got)
		if !slices.Equal(back, got) {
			t.Errorf("the way back is %q, want %q", back, got)
		}
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(1)
	slow := time.Minute
	requests := []duly.SettleRequest{{Receipt: r.reserve(1)[0].Receipt, As: duly.Release, Slow: &slow}}
	if errs, err := r.engine.Settle(t.Context(), "", requests); errors.Join(append(errs, err)...) != nil {
		t.Fatal(errs, err)
	}
	p, err := r.plan(duly.QueueConfig{Reopen: true})
	if want := "The queue opens now, 1m before its closing ends."; err != nil || !slices.Equal(p.Effects, []string{want}) {
		t.Errorf("%q, %v", p.Effects, err)
	}
	if p, err := r.plan(duly.QueueConfig{MaxLeased: 3}); err != nil || len(p.Effects) != 0 {
		t.Errorf("a change without reopen: %q, %v", p.Effects, err)
	}
}

// missing is an engine that returns not_found for a queue that does not exist, as a server does.
type missing struct{ Engine }

func (missing) Config(context.Context, duly.QueueRef) (duly.QueueConfig, error) {
	return duly.QueueConfig{}, duly.ErrNotFound
}

func TestMissingQueueOfAServer(t *testing.T) {
	t.Parallel()
	patch := duly.QueueConfig{Shards: 4}
	p, err := Of(t.Context(), missing{}, duly.Q("mail"), patch, time.Now())
	if err != nil || !p.Creates || len(p.Changes) != 1 || p.Changes[0] != (Change{"shards", "1", "4"}) {
		t.Errorf("%+v, %v", p, err)
	}
	patch = duly.QueueConfig{MaxLeased: 4}
	if _, err := Of(t.Context(), missing{}, duly.Q("events@mail"), patch, time.Now()); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("a group that does not exist: %v", err)
	}
}

// A plan returns the error that Configure returns.
func TestPlanIsRefusedAsTheChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if p, err := r.plan(duly.QueueConfig{MaxLeased: 1}); err != nil || !p.Creates || len(p.Changes) != 1 {
		t.Errorf("a plan for a queue that does not exist: %+v, %v", p, err)
	}
	if names, err := r.engine.Queues(t.Context(), "", duly.PageParams{}); err != nil || len(names.Names) != 0 {
		t.Errorf("the plan created %v, %v", names, err)
	}

	r.push(1)
	for _, patch := range []duly.QueueConfig{
		{Shards: 3}, {MaxLeased: -5}, {Adapt: duly.Adapt{Floor: 0.5}}, {Delivery: duly.DeliverPush},
		{Push: duly.PushConfig{URL: "https://a.example"}}, {Rate: duly.Rate{PerSecond: -2}},
	} {
		_, err := r.plan(patch)
		want := r.engine.Configure(t.Context(), r.queue, patch)
		if want == nil || fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("the plan of %+v returns %v, Configure returns %v", patch, err, want)
		}
	}
	if _, err := r.plan(duly.QueueConfig{Shards: 4}); duly.CodeOf(err) != duly.CodeInvalid {
		t.Errorf("a change of the shards: %v", err)
	}
	if _, err := r.plan(duly.QueueConfig{Shards: 1, Delivery: duly.DeliverPull}); err != nil {
		t.Errorf("settings that the queue has: %v", err)
	}
}

func TestFieldsOfAGroup(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, f := range Fields(contract.DefaultGroupConfig()) {
		names[f.Name] = true
	}
	if !names["max_held"] && !names["group.max_held"] || names[""] {
		t.Errorf("the fields of a group are %v", names)
	}
}

package enginetest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// plantedShort is the number of operations that suffice to show any of the bugs.
const plantedShort = 12

// plantedTries bounds the scripts for one bug. It is several times the number that the rarest bug
// has needed.
const plantedTries = 400

// TestModelFindsPlantedBugs runs the model test against engines with one bug each. It must find all
// bugs.
func TestModelFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, bug := range plantedBugs() {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			findsBug(t, scripts(modelSteps), func(sc script) error { return playPlanted(t, bug, sc) })
		})
	}
}

// findsBug checks that one of the scripts fails, and that it is shortened.
func findsBug(t *testing.T, scripts *rapid.Generator[script], play func(script) error) {
	t.Helper()
	for seed := range plantedTries {
		sc := scripts.Example(seed)
		err := play(sc)
		if err == nil {
			continue
		}
		short, why := shrink(sc, err, play)
		t.Logf("found by script %d: %v\n%#v", seed, why, short)
		if len(short) > plantedShort {
			t.Errorf("the script was shortened to %d operations, want at most %d", len(short), plantedShort)
		}
		return
	}
	t.Errorf("%d scripts did not find the bug", plantedTries)
}

// TestModelFindsNothingInAGoodEngine runs the same engine without a bug. The model test must pass.
func TestModelFindsNothingInAGoodEngine(t *testing.T) {
	t.Parallel()
	for seed := range 10 {
		if err := playPlanted(t, plantedBug{}, scripts(modelSteps).Example(seed)); err != nil {
			t.Fatal(err)
		}
	}
}

// playPlanted runs one script against a model with the bug.
func playPlanted(t *testing.T, bug plantedBug, sc script) (err error) {
	synctest.Test(t, func(t *testing.T) { err = playOnModel(t, bug, sc, playBoth) })
	return err
}

// playOnModel plays a script against a model with the bug, in a bubble.
func playOnModel[T any](t *testing.T, bug plantedBug, sc script,
	play func(context.Context, *Harness, script) (T, error)) error {
	c := &skewed{Fake: clock.NewFake()}
	m := model.New(model.Config{Clock: c, MaxBody: scriptMaxBody, MaxQueues: scriptMaxQueues, OneShard: true,
		Manual: true})
	defer m.Close()
	e := &buggy{Engine: m, clock: c, bug: bug, last: map[duly.Number]duly.Receipt{}, ids: map[duly.Receipt]string{}}
	h := &Harness{Engine: e, Maintainer: e, Clock: c.Fake, Quiet: synctest.Wait}
	_, err := play(t.Context(), h, sc)
	return err
}

// skewed is a clock that an operation can misread.
type skewed struct {
	*clock.Fake
	by atomic.Int64
}

// Now implements clock.Clock.
func (c *skewed) Now() time.Time { return c.Fake.Now().Add(time.Duration(c.by.Load())) }

// plantedBug changes the input or the output of an engine.
type plantedBug struct {
	name string
	// skew is by how much the operation skewed misreads the clock.
	skewed string
	skew   time.Duration

	push      func(*duly.Job)
	pushed    func([]duly.PushResult)
	delivered func(*duly.Delivery)
	settle    func(*buggy, string, *duly.SettleRequest)
	settled   func([]error)
	info      func(*duly.JobInfo)
	update    func(*duly.Update)
	list      func(duly.ListParams, *duly.ListPage)
	keys      func(contract.KeysParams, *contract.KeyPage)
	holder    func(*contract.KeyInfo, error) error
	stats     func(*duly.Stats)
	fact      func(*contract.Fact)
	requeue   func(*duly.RequeueParams)
	configure func(*duly.QueueConfig)
	purge     func(n int) int
	deletion  func(*duly.State)
	wait      func(bool) bool
	err       func(error) error
	ignored   string // name of the operation that does nothing
	crowded   bool   // whether Reserve continues after a suspect job
}

func plantedBugs() []plantedBug {
	return []plantedBug{
		{name: "DeliversAMillisecondEarly", skewed: "reserve", skew: time.Millisecond},
		{name: "StepsAMillisecondLate", skewed: "step", skew: -time.Millisecond},
		{name: "LooksAMillisecondLate", skewed: "get", skew: -time.Millisecond},
		{name: "ForgetsTheFence", settle: func(b *buggy, _ string, o *duly.SettleRequest) {
			if p, ok := contract.ParseReceipt(o.Receipt); ok {
				o.Receipt = b.last[p.Number]
			}
		}},
		{name: "AnswersAStaleSettleAsDone", settled: func(errs []error) {
			for i := range errs {
				if errors.Is(errs[i], duly.ErrLeaseLost) {
					errs[i] = nil
				}
			}
		}},
		{name: "CountsAttemptsFromTwo", delivered: func(d *duly.Delivery) {
			if d.Failures > 0 {
				d.Attempt++
			}
		}},
		{name: "ReplacesAsItKeeps", push: func(j *duly.Job) {
			if j.Merge.Mode == duly.MergeReplace && j.Merge.MaxWait == 0 && j.Merge.Until == "" {
				j.Merge.Mode = duly.MergeKeep
			}
		}},
		{name: "MergesAcrossOrderKeys", push: func(j *duly.Job) {
			if j.Merge.Key == "n" {
				j.OrderKey = ""
			}
		}},
		{name: "IgnoresMaxWait", push: func(j *duly.Job) {
			if j.Merge.Mode == duly.MergeReplace {
				j.Merge.MaxWait = 0
			}
		}},
		{name: "FreesTheKeyAtASnooze", settle: freeAtSnooze},
		{name: "UsesATryForARelease", settle: func(_ *buggy, _ string, o *duly.SettleRequest) {
			if o.As == duly.Release && o.Delay != nil {
				o.As = duly.Nack
			}
		}},
		{name: "IgnoresTheTTL", push: func(j *duly.Job) { j.TTL = duly.None }},
		{name: "IgnoresTheTTLOfAnUpdate", update: func(u *duly.Update) { u.TTL = 0 }},
		{name: "RequeuesWithoutATTL", requeue: func(p *duly.RequeueParams) { p.TTL = 0 }},
		{name: "CountsOneMore", stats: func(st *duly.Stats) {
			if st.Counters.Stalled > 0 {
				st.Counters.Failed++
			}
		}},
		{name: "SkipsOneAtAPage", list: func(p duly.ListParams, page *duly.ListPage) {
			if p.Cursor != "" && len(page.Jobs) > 0 {
				page.Jobs = page.Jobs[1:]
			}
		}},
		{name: "IgnoresNewest", list: func(p duly.ListParams, page *duly.ListPage) {
			if p.Newest {
				slices.Reverse(page.Jobs)
			}
		}},
		{name: "BeginsAfterTheMoment", list: func(p duly.ListParams, page *duly.ListPage) {
			page.Jobs = slices.DeleteFunc(page.Jobs, func(j duly.JobInfo) bool { return momentOf(&j).Equal(p.From) })
		}},
		{name: "ExplainsAMillisecondLate", skewed: "explain", skew: -time.Millisecond},
		{name: "CountsOneMoreBehind", fact: func(f *contract.Fact) {
			if f.Code == contract.FactBehind {
				f.Count++
			}
		}},
		{name: "ForgetsTheHolder", fact: func(f *contract.Fact) { f.Holder = contract.Holder{} }},
		{name: "TakesASnoozeForARetry", fact: func(f *contract.Fact) {
			if f.Cause == contract.DelayedBySnooze {
				f.Cause = contract.DelayedByRetry
			}
		}},
		{name: "ForgetsTheNextLeaseEnd", fact: func(f *contract.Fact) {
			if f.Code == contract.FactMaxLeased {
				f.At = time.Time{}
			}
		}},
		{name: "ListsOtherKeys", list: func(p duly.ListParams, page *duly.ListPage) {
			if p.Key == "l" && len(page.Jobs) == 0 && p.Newest {
				page.Jobs = append(page.Jobs, duly.JobInfo{Job: duly.Job{ID: "other", OrderKey: "k"}})
			}
		}},
		{name: "SkipsAKeyAtAPage", keys: func(p contract.KeysParams, page *contract.KeyPage) {
			if p.Cursor != "" && len(page.Keys) > 0 {
				page.Keys = page.Keys[1:]
			}
		}},
		{name: "CountsTheHeadAsWaiting", keys: func(_ contract.KeysParams, page *contract.KeyPage) {
			for i := range page.Keys {
				page.Keys[i].Waiting++
			}
		}},
		{name: "IgnoresAPrefix", keys: func(p contract.KeysParams, page *contract.KeyPage) {
			if p.Prefix == "kk" {
				page.Keys = append(page.Keys, contract.KeyInfo{Key: "k"})
			}
		}},
		{name: "LosesAKeyForWhichNobodyWaits", holder: func(k *contract.KeyInfo, err error) error {
			if err == nil && k.Waiting == 0 {
				return contract.NoKey(duly.Q("q"), k.Key)
			}
			return err
		}},
		{name: "ShowsADelayedHeadAsReady", holder: func(k *contract.KeyInfo, err error) error {
			if k.Head.State == duly.StateDelayed {
				k.Head.State = duly.StateReady
			}
			return err
		}},
		{name: "SwapsTwoResults", pushed: func(r []duly.PushResult) {
			if len(r) == 3 {
				r[1], r[2] = r[2], r[1]
			}
		}},
		{name: "LosesResults", info: func(i *duly.JobInfo) { i.Result = nil }},
		{name: "LosesTheLastError", info: func(i *duly.JobInfo) {
			if i.State == duly.StateDead {
				i.LastError = ""
			}
		}},
		{name: "NamesNoField", err: func(err error) error {
			if errors.Is(err, duly.ErrInvalid) {
				return duly.ErrInvalid
			}
			return err
		}},
		{name: "IgnoresPause", ignored: "pause"},
		{name: "IgnoresResume", ignored: "resume"},
		{name: "DestroysNothing", ignored: "destroy"},
		{name: "DeletesInAnyState", deletion: func(state *duly.State) { *state = duly.StateNone }},
		{name: "IgnoresARate", configure: func(c *duly.QueueConfig) { c.Rate = duly.Rate{} }},
		{name: "PurgesOneMore", purge: func(n int) int {
			if n > 0 {
				n++
			}
			return n
		}},
		{name: "ReservesASuspectAmongOthers", crowded: true},
		{name: "ClosesNothing", settle: func(_ *buggy, _ string, o *duly.SettleRequest) { o.Slow = nil }},
		{name: "ClosesForAMillisecondMore", settle: func(_ *buggy, _ string, o *duly.SettleRequest) {
			if o.Slow != nil && *o.Slow > 0 && *o.Slow < duly.MaxSlow {
				longer := *o.Slow + time.Millisecond
				o.Slow = &longer
			}
		}},
		{name: "AdaptsNothing", configure: func(c *duly.QueueConfig) { c.Adapt = duly.Adapt{} }},
		{name: "ReopensNothing", configure: func(c *duly.QueueConfig) { c.Reopen = false }},
		{name: "SleepsOn", wait: func(bool) bool { return false }},
	}
}

// freeAtSnooze replaces a snoozed job with a new one, which does not hold the order key.
func freeAtSnooze(b *buggy, namespace string, o *duly.SettleRequest) {
	p, ok := contract.ParseReceipt(o.Receipt)
	if !ok || o.As != duly.Release || o.Delay == nil || b.last[p.Number] != o.Receipt {
		return
	}
	q := duly.QueueRef{Namespace: namespace, Name: p.Queue}
	for _, info := range b.page(q, duly.StateLeased) {
		if info.OrderKey != "" && info.Failures == 0 && info.Stalls == 0 && b.ids[o.Receipt] == info.ID {
			j := info.Job
			j.Due, j.Delay = time.Time{}, *o.Delay
			b.Engine.Delete(context.Background(), q, j.ID)
			b.Engine.Push(context.Background(), []duly.Job{j})
			b.freed = map[duly.Receipt]bool{o.Receipt: true}
		}
	}
}

// buggy is a model with a bug.
type buggy struct {
	*model.Engine
	clock *skewed
	bug   plantedBug
	last  map[duly.Number]duly.Receipt // last receipt of each job
	ids   map[duly.Receipt]string
	// freed has the receipts that the bug has settled itself.
	freed map[duly.Receipt]bool
}

// misread makes the clock wrong until the returned function is called.
func (b *buggy) misread(operation string) func() {
	if b.bug.skewed == operation {
		b.clock.by.Store(int64(b.bug.skew))
	}
	return func() { b.clock.by.Store(0) }
}

func (b *buggy) err(err error) error {
	if b.bug.err != nil {
		return b.bug.err(err)
	}
	return err
}

func (b *buggy) page(q duly.QueueRef, state duly.State) []duly.JobInfo {
	page, _ := b.Engine.List(context.Background(), q, duly.ListParams{State: state, Bodies: true})
	return page.Jobs
}

func (b *buggy) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if b.bug.push != nil {
			b.bug.push(&jobs[i])
		}
	}
	results, err := b.Engine.Push(ctx, jobs)
	for i := range results {
		results[i].Err = b.err(results[i].Err)
	}
	if b.bug.pushed != nil {
		b.bug.pushed(results)
	}
	return results, err
}

func (b *buggy) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	defer b.misread("reserve")()
	ds, err := b.Engine.Reserve(ctx, p)
	for b.bug.crowded && err == nil && len(ds) > 0 && len(ds) < p.Max {
		rest := p
		rest.Max -= len(ds)
		more, _ := b.Engine.Reserve(ctx, rest)
		if len(more) == 0 {
			break
		}
		ds = append(ds, more...)
	}
	for i := range ds {
		if b.bug.delivered != nil {
			b.bug.delivered(&ds[i])
		}
		if p, ok := contract.ParseReceipt(ds[i].Receipt); ok {
			b.last[p.Number], b.ids[ds[i].Receipt] = ds[i].Receipt, ds[i].ID
		}
	}
	return ds, err
}

func (b *buggy) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	ready, err := b.Engine.Wait(ctx, p)
	if b.bug.wait != nil {
		ready = b.bug.wait(ready)
	}
	return ready, err
}

func (b *buggy) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	outcomes = slices.Clone(outcomes)
	for i := range outcomes {
		if b.bug.settle != nil {
			b.bug.settle(b, namespace, &outcomes[i])
		}
	}
	errs, err := b.Engine.Settle(ctx, namespace, outcomes)
	for i := range errs {
		if b.freed[outcomes[i].Receipt] {
			errs[i] = nil
			delete(b.freed, outcomes[i].Receipt)
		}
	}
	if b.bug.settled != nil {
		b.bug.settled(errs)
	}
	return errs, err
}

func (b *buggy) Get(ctx context.Context, q duly.QueueRef, id string) (duly.JobInfo, error) {
	defer b.misread("get")()
	info, err := b.Engine.Get(ctx, q, id)
	if b.bug.info != nil {
		b.bug.info(&info)
	}
	return info, err
}

func (b *buggy) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	defer b.misread("explain")()
	x, err := b.Engine.Explain(ctx, q, id)
	for i := range x.Facts {
		if b.bug.fact != nil {
			b.bug.fact(&x.Facts[i])
		}
	}
	return x, err
}

func (b *buggy) GetJobs(
	ctx context.Context, q duly.QueueRef, ids []string, bodies bool,
) ([]contract.JobResult, error) {
	results, err := b.Engine.GetJobs(ctx, q, ids, bodies)
	for i := range results {
		if b.bug.info != nil && results[i].Err == nil {
			b.bug.info(&results[i].Info)
		}
	}
	return results, err
}

func (b *buggy) List(ctx context.Context, q duly.QueueRef, p duly.ListParams) (duly.ListPage, error) {
	page, err := b.Engine.List(ctx, q, p)
	if b.bug.list != nil {
		b.bug.list(p, &page)
	}
	return page, err
}

func (b *buggy) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	page, err := b.Engine.Keys(ctx, q, p)
	if b.bug.keys != nil {
		b.bug.keys(p, &page)
	}
	return page, err
}

func (b *buggy) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	info, err := b.Engine.Holder(ctx, q, key)
	if b.bug.holder != nil {
		err = b.bug.holder(&info, err)
	}
	return info, err
}

func (b *buggy) Stats(ctx context.Context, q duly.QueueRef) (duly.Stats, error) {
	st, err := b.Engine.Stats(ctx, q)
	if b.bug.stats != nil {
		b.bug.stats(&st)
	}
	return st, err
}

func (b *buggy) Update(ctx context.Context, q duly.QueueRef, id string, u duly.Update) error {
	if b.bug.update != nil {
		b.bug.update(&u)
	}
	return b.Engine.Update(ctx, q, id, u)
}

func (b *buggy) Requeue(ctx context.Context, q duly.QueueRef, p duly.RequeueParams) ([]duly.RequeueResult, error) {
	if b.bug.requeue != nil {
		b.bug.requeue(&p)
	}
	return b.Engine.Requeue(ctx, q, p)
}

func (b *buggy) DeleteJobs(
	ctx context.Context, q duly.QueueRef, ids []string, state duly.State,
) ([]error, error) {
	if b.bug.deletion != nil {
		b.bug.deletion(&state)
	}
	return b.Engine.DeleteJobs(ctx, q, ids, state)
}

func (b *buggy) Purge(ctx context.Context, q duly.QueueRef, state duly.State, n int) (int, error) {
	if b.bug.purge != nil {
		n = b.bug.purge(n)
	}
	return b.Engine.Purge(ctx, q, state, n)
}

func (b *buggy) Configure(ctx context.Context, q duly.QueueRef, patch duly.QueueConfig) error {
	if b.bug.configure != nil {
		b.bug.configure(&patch)
	}
	return b.Engine.Configure(ctx, q, patch)
}

func (b *buggy) Pause(ctx context.Context, q duly.QueueRef) error {
	if b.bug.ignored == "pause" {
		_, err := b.Engine.Stats(ctx, q)
		return err
	}
	return b.Engine.Pause(ctx, q)
}

func (b *buggy) Resume(ctx context.Context, q duly.QueueRef) error {
	if b.bug.ignored == "resume" {
		return nil
	}
	return b.Engine.Resume(ctx, q)
}

func (b *buggy) Destroy(ctx context.Context, q duly.QueueRef) error {
	if b.bug.ignored == "destroy" {
		return nil
	}
	return b.Engine.Destroy(ctx, q)
}

func (b *buggy) Step(ctx context.Context, q duly.QueueRef) (bool, error) {
	defer b.misread("step")()
	return b.Engine.Step(ctx, q)
}

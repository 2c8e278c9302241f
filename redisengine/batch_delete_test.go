package redisengine

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/jobs"
	"github.com/dulymq/duly/redisengine/internal/operate"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestBatchedDeletesMatchSingleOnes checks that deletes of one batch have the results of single
// deletes, for jobs of every state.
func TestBatchedDeletesMatchSingleOnes(t *testing.T) {
	t.Parallel()
	g := newGate(t, 0)
	g.batcher = &g.batchers().Remove
	push := func(j duly.Job) string {
		j.Queue = "q"
		r, err := g.e.Push(t.Context(), []duly.Job{j})
		if err != nil || r[0].Err != nil {
			t.Fatal(r, err)
		}
		return r[0].ID
	}
	settle := func(n int, as duly.Settlement) {
		ds := g.reserve(n)
		for _, d := range ds {
			if _, err := g.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: as}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	dead := push(duly.Job{})
	settle(1, duly.Bury)
	done := push(duly.Job{Retain: time.Hour})
	settle(1, duly.Ack)
	retried := push(duly.Job{Backoff: "fixed:1h"})
	settle(1, duly.Nack)
	leased, own, key := push(duly.Job{}), push(duly.Job{ID: "own"}), push(duly.Job{OrderKey: "k"})
	// The next job is blocked, because the first job holds its order key.
	next := push(duly.Job{OrderKey: "k"})
	g.reserve(3)
	ready, delayed := push(duly.Job{}), push(duly.Job{Delay: time.Hour})
	number := duly.NewNumber()
	ids := []string{leased, dead, leased, "none", done, own, own, key, ready, delayed, retried, number.String()}
	there := []bool{true, true, false, false, true, true, false, true, true, true, true, false}
	g.hold()
	answers := make([]chan error, len(ids))
	for i, id := range ids {
		g.there(i)
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- g.e.Delete(t.Context(), duly.Q("q"), id) }()
		g.there(i + 1)
	}
	counts := g.calls(func() {
		g.open()
		for i, answer := range answers {
			if err := <-answer; there[i] && err != nil || !there[i] && !errors.Is(err, duly.ErrNotFound) {
				t.Errorf("delete %d of %s in a batch returned %v, want the result of a single delete", i, ids[i], err)
			}
		}
	})
	if n := counts["FCALL"]; n != 1 {
		t.Errorf("%d script calls, want 2", n)
	}
	st := g.stats()
	if st.Sizes != (duly.Sizes{Ready: 1}) || st.Counters.Deleted != 7 {
		t.Errorf("the queue has %+v, %+v", st.Sizes, st.Counters)
	}
	if info, err := g.e.Get(t.Context(), duly.Q("q"), next); err != nil || info.State != duly.StateReady {
		t.Errorf("the next job of the key is %v, %v", info.State, err)
	}
	report, err := g.e.Check(t.Context(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("Check found %+v, %v", report.Faults, err)
	}
}

// TestDeletionsOfOneStateShareACall checks that concurrent deletions share a script call if they want
// the same state, and that each caller gets its own results.
func TestDeletionsOfOneStateShareACall(t *testing.T) {
	t.Parallel()
	g := newGate(t, 0)
	g.batcher = &g.batchers().Remove
	for _, j := range []duly.Job{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}, {ID: "later", Delay: time.Hour}} {
		j.Queue = "q"
		if r, err := g.e.Push(t.Context(), []duly.Job{j}); err != nil || r[0].Err != nil {
			t.Fatal(r, err)
		}
	}
	calls := []struct {
		state duly.State
		ids   []string
		want  []error
	}{
		{duly.StateNone, []string{"a"}, []error{nil}},
		{duly.StateReady, []string{"c", "later", "none"}, []error{nil, duly.ErrConflict, duly.ErrNotFound}},
		{duly.StateNone, []string{"none", "b"}, []error{duly.ErrNotFound, nil}},
		{duly.StateReady, []string{"later", "d", "c"}, []error{duly.ErrConflict, nil, duly.ErrNotFound}},
	}

	g.hold()
	answers := make([]chan []error, len(calls))
	for i, c := range calls {
		g.there(i)
		answers[i] = make(chan []error, 1)
		go func() {
			errs, err := g.e.DeleteJobs(t.Context(), duly.Q("q"), c.ids, c.state)
			if err != nil {
				t.Errorf("deletion of %q: %v", c.ids, err)
			}
			answers[i] <- errs
		}()
		g.there(i + 1)
	}
	counts := g.calls(func() {
		g.open()
		for i, c := range calls {
			errs := <-answers[i]
			for k, err := range errs {
				if !errors.Is(err, c.want[k]) {
					t.Errorf("deletion of %s of %q returned %v, want %v", c.ids[k], c.ids, err, c.want[k])
				}
			}
		}
	})
	if n := counts["FCALL"]; n != 2 {
		t.Errorf("%d script calls, want 2", n)
	}
	if st := g.stats(); st.Sizes != (duly.Sizes{Delayed: 1}) || st.Counters.Deleted != 4 {
		t.Errorf("the queue has %+v, %+v", st.Sizes, st.Counters)
	}
}

// TestDeleteOfALeasedJobWakesAWaiter checks that the delete of a leased job makes another job
// deliverable that max_leased held back, and wakes a waiter for it.
func TestDeleteOfALeasedJobWakesAWaiter(t *testing.T) {
	t.Parallel()
	g := newGate(t, 2)
	if err := g.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 1}); err != nil {
		t.Fatal(err)
	}
	d := g.reserve(1)[0]
	woken := make(chan bool, 1)
	go func() {
		ready, err := g.e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: duly.MaxWait})
		woken <- ready && err == nil
	}()
	redistest.Await(t, "he waits", func() bool { return g.e.Waiters() == 1 })
	g.e.Quiet()
	if len(woken) > 0 {
		t.Error("the waiter was woken before the leased job was deleted")
	}
	g.delete(d.ID)
	if !<-woken {
		t.Error("the waiter was not woken after the leased job was deleted")
	}
}

// TestDeleteContinuesWithoutItsCaller checks that a batched Delete in flight continues after its
// caller has left. A Delete that was not sent yet deletes nothing.
func TestDeleteContinuesWithoutItsCaller(t *testing.T) {
	t.Parallel()
	g := newGate(t, 2)
	b := &g.batchers().Remove
	ds := g.reserve(2)
	send, sent, proceed := b.Send, make(chan struct{}, 2), make(chan struct{})
	b.Send = func(ctx context.Context, calls []*jobs.Batched) error {
		sent <- struct{}{}
		<-proceed
		return send(ctx, calls)
	}
	leave := func(id string, ready func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan error, 1)
		go func() { answer <- g.e.Delete(ctx, duly.Q("q"), id) }()
		ready()
		cancel()
		if err := <-answer; !errors.Is(err, duly.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("a caller whose context ended got %v, want context.Canceled", err)
		}
	}

	leave(ds[0].ID, func() { <-sent })
	g.batcher = b
	go func() { _ = g.e.Delete(context.Background(), duly.Q("q"), "none") }()
	// Two batches are in flight now, and the next call waits.
	<-sent
	leave(ds[1].ID, func() { g.there(1) })
	close(proceed)
	redistest.Await(t, "it is deleted", func() bool { return g.stats().Counters.Deleted == 1 })
	if st := g.stats(); st.Sizes.Leased != 1 {
		t.Errorf("%d jobs are leased, want 1, whose Delete was never sent", st.Sizes.Leased)
	}
}

// TestRepeatedDestroyKeepsANewQueue checks that a delayed script call of Destroy does not change
// a queue that was created again meanwhile (C4.71, C10.15).
func TestRepeatedDestroyKeepsANewQueue(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
	ctx, ref := t.Context(), duly.Q("q").Normal()
	push := func(id string) {
		t.Helper()
		r, err := e.Push(ctx, []duly.Job{{Queue: "q", ID: id}})
		if err != nil || r[0].Status != duly.Created {
			t.Fatal(r, err)
		}
	}
	push("old")
	q, err := e.catalog.Read(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	tomb, err := e.catalog.Put(ctx, store.ScriptQueueSet, ref, q.Value,
		catalog.PackConfig(e.catalog.NextVersion(q.Version), q.Config, true))
	if err != nil || tomb == nil {
		t.Fatal(tomb, err)
	}
	e.catalog.Cache.Forget(q)

	for i := range 3 {
		if err := e.catalog.FinishDestroy(ctx, tomb); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			push("new")
		}
		if _, err := e.Get(ctx, duly.Q("q"), "old"); !errors.Is(err, duly.ErrNotFound) {
			t.Errorf("the old job: got %v, want not found", err)
		}
		if _, err := e.Get(ctx, duly.Q("q"), "new"); err != nil {
			t.Errorf("after %d calls the new job has the error %v", i+1, err)
		}
		if page, err := e.Queues(ctx, "", duly.PageParams{}); err != nil || len(page.Names) != 1 {
			t.Errorf("after %d calls the queues are %v, %v", i+1, page.Names, err)
		}
	}
	other := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
	if ds, err := other.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 2}); err != nil || len(ds) != 1 ||
		ds[0].ID != "new" {
		t.Errorf("another process reserved %v, %v", ds, err)
	}
}

// TestUpdateOfAChangedJobChangesNothing checks that an Update is computed from the job as it was
// read (C4.44). If the rules, the run state or the body have changed since, the script changes
// nothing.
func TestUpdateOfAChangedJobChangesNothing(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
	ctx, q := t.Context(), duly.Q("q")
	priority := 7
	changes := map[string]func() error{
		"rules":     func() error { return e.Update(ctx, q, "x", duly.Update{Priority: &priority}) },
		"body":      func() error { return e.Update(ctx, q, "x", duly.Update{Body: []byte("theirs")}) },
		"run state": func() error { return releaseOne(ctx, e) },
	}
	for what, change := range changes {
		if r, err := e.Push(ctx, []duly.Job{{Queue: "q", ID: "x", Body: []byte("old")}}); err != nil ||
			r[0].Status != duly.Created {
			t.Fatal(r, err)
		}
		read, err := e.catalog.ReadByID(ctx, q, "x")
		if err != nil {
			t.Fatal(err)
		}
		args, _, err := operate.UpdateArgs(q, duly.Update{Tries: 3, Body: []byte("ours")}, read.Rest)
		if err != nil {
			t.Fatal(err)
		}
		if err := change(); err != nil {
			t.Fatal(err)
		}

		before, _ := e.Get(ctx, q, "x")
		r, err := e.catalog.CallByID(ctx, q, "x", store.ScriptUpdate, true, args...)
		if err != nil || r.Word != "changed" {
			t.Errorf("changed %s: Update returned %q, %v", what, r.Word, err)
		}
		if after, err := e.Get(ctx, q, "x"); err != nil || !reflect.DeepEqual(after, before) {
			t.Errorf("changed %s: Update changed the job from %+v to %+v, %v", what, before, after, err)
		}
		if err := e.Delete(ctx, q, "x"); err != nil {
			t.Fatal(err)
		}
	}
}

// releaseOne reserves a job and releases it.
func releaseOne(ctx context.Context, e *Engine) error {
	ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if err != nil {
		return err
	}
	_, err = e.Settle(ctx, "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Release}})
	return err
}

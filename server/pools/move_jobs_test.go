package pools_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/pools"
)

// Calls find an ID in both pools, and a repeated push creates no second job.
func TestIDNamesOneJobDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "old"})
	r.move("shop", "orders")
	r.pushJob(duly.Job{ID: "new"})
	for _, id := range []string{"old", "new"} {
		if again := r.pushJob(duly.Job{ID: id}); again.Status != duly.Exists || again.State != duly.StateReady {
			t.Errorf("%s again: %+v", id, again)
		}
		priority := 7
		r.must(r.Update(t.Context(), shop, id, duly.Update{Priority: &priority}))
		if j, err := r.Get(t.Context(), shop, id); err != nil || j.Priority != 7 {
			t.Errorf("%s: %+v, %v", id, j, err)
		}
	}

	r.lists(duly.ListParams{State: duly.StateReady}, "old", "new")

	r.must(r.Delete(t.Context(), shop, "old"))
	r.must(r.Delete(t.Context(), shop, "new"))
	if err := r.Delete(t.Context(), shop, "new"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("deleted again: %v", err)
	}
}

// lists checks the jobs of a list, in pages of one.
func (r *rig) lists(p duly.ListParams, want ...string) {
	r.t.Helper()
	var listed []string
	p.Limit = 1
	for range 100 {
		page, err := r.List(r.t.Context(), shop, p)
		r.must(err)
		for _, j := range page.Jobs {
			listed = append(listed, j.ID)
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	if !slices.Equal(listed, want) {
		r.t.Errorf("listed %v, want %v", listed, want)
	}
}

// Newest first, the jobs of the new pool come before those of the old pool (C4.112). From bounds the
// list in both pools (C4.113).
func TestNewestListsTheNewPoolFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "old1", Delay: time.Hour})
	r.pushJob(duly.Job{ID: "old3", Delay: 3 * time.Hour})
	r.move("shop", "orders")
	start := r.clock.Now()
	r.pushJob(duly.Job{ID: "new2", Delay: 2 * time.Hour})
	r.pushJob(duly.Job{ID: "new4", Delay: 4 * time.Hour})

	p := duly.ListParams{State: duly.StateDelayed}
	r.lists(p, "old1", "old3", "new2", "new4")
	p.From = start.Add(150 * time.Minute)
	r.lists(p, "old3", "new4")
	p.Newest = true
	r.lists(p, "new2", "old1")
	p.From = time.Time{}
	r.lists(p, "new4", "new2", "old3", "old1")
}

// A list continues after the move where it was during the move, in both directions (C4.116).
func TestListContinuesAfterMove(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		newest bool
		pages  int // during the move
		want   []string
	}{
		{"InOldPool", false, 1, []string{"new1", "new2"}},
		{"AtNewPool", false, 2, []string{"new1", "new2"}},
		{"InNewPool", false, 3, []string{"new2"}},
		{"NewestInNewPool", true, 1, []string{"new1"}},
		{"NewestAtOldPool", true, 2, nil},
		{"NewestInOldPool", true, 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "orders")
			for _, id := range []string{"old1", "old2"} {
				r.pushJob(duly.Job{ID: id, Delay: time.Hour})
			}
			r.move("shop", "orders")
			for _, id := range []string{"new1", "new2"} {
				r.pushJob(duly.Job{ID: id, Delay: time.Hour})
			}

			p := duly.ListParams{State: duly.StateDelayed, Newest: c.newest, PageParams: duly.PageParams{Limit: 1}}
			for range c.pages {
				page, err := r.List(t.Context(), shop, p)
				r.must(err)
				p.Cursor = page.Next
			}

			for _, id := range []string{"old1", "old2"} {
				r.must(r.Delete(t.Context(), shop, id))
			}
			r.endMove("shop")
			r.lists(p, c.want...)
		})
	}
}

// A receipt works once, in its own pool only.
func TestReceiptWorksOnlyInItsPool(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "old"})
	r.move("shop", "orders")
	r.pushJob(duly.Job{ID: "new"})
	_, first := r.reserve(1, "q")
	_, second := r.reserve(1, "q")
	receipts := []duly.Receipt{second[0], "q:0:01J0000000000000000000000A:1", first[0]}
	errs, err := r.Extend(t.Context(), "shop", receipts, time.Hour)
	if err != nil || errs[0] != nil || !errors.Is(errs[1], duly.ErrLeaseLost) || errs[2] != nil {
		t.Errorf("extended: %v, %v", errs, err)
	}

	outcomes := make([]duly.SettleRequest, len(receipts))
	for i := range receipts {
		outcomes[i] = duly.SettleRequest{Receipt: receipts[i], As: duly.Ack}
	}
	for round, want := range []error{nil, duly.ErrLeaseLost} {
		errs, err := r.Settle(t.Context(), "shop", outcomes)
		if err != nil || !errors.Is(errs[0], want) || !errors.Is(errs[1], duly.ErrLeaseLost) ||
			!errors.Is(errs[2], want) {
			t.Errorf("round %d: %v, %v", round, errs, err)
		}
	}
	stats, err := r.Stats(t.Context(), shop)
	if err != nil || stats.Counters.Acked != 2 || stats.Sizes != (duly.Sizes{}) {
		t.Errorf("%+v, %v", stats, err)
	}
}

// Jobs of an order key run in their order during a move, one at a time.
func TestOrderKeysDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "a1", OrderKey: "a"})
	r.pushJob(duly.Job{ID: "a2", OrderKey: "a"})
	r.pushJob(duly.Job{ID: "c1", OrderKey: "c", Delay: time.Hour})
	r.move("shop", "orders")
	r.pushJob(duly.Job{ID: "a3", OrderKey: "a"})
	r.pushJob(duly.Job{ID: "b1", OrderKey: "b"})
	r.pushJob(duly.Job{ID: "c2", OrderKey: "c"})
	wantIDs := func(ids []string, want ...string) {
		t.Helper()
		if !slices.Equal(ids, want) {
			t.Fatalf("reserved %v, want %v", ids, want)
		}
	}

	ids, receipts := r.reserve(10, "q")
	wantIDs(ids, "a1")
	r.clock.Advance(pools.Propagation)
	for range 3 { // while a1 runs, the time of its retry is unknown, so jobs of all keys wait
		ids, _ := r.reserve(10, "q")
		wantIDs(ids)
		r.clock.Advance(3 * time.Second)
	}
	r.ack(receipts...)
	ids, receipts = r.reserve(10, "q")
	wantIDs(ids, "a2")
	r.ack(receipts...)

	// Only c1 is left in the old pool. It is due in an hour, so a, b and c are free until then.
	var rest []string
	for range 4 {
		r.clock.Advance(3 * time.Second)
		ids, receipts = r.reserve(10, "q")
		rest = append(rest, ids...)
		r.ack(receipts...)
	}
	slices.Sort(rest)
	wantIDs(rest, "a3", "b1", "c2")

	// c1 is due within a minute, before the lease of c3 would end. So c3 is delivered only after c1
	// was acked.
	r.clock.Advance(time.Hour - 60*time.Second)
	r.pushJob(duly.Job{ID: "c3", OrderKey: "c", Lease: 5 * time.Minute})
	ids, _ = r.reserve(10, "q")
	wantIDs(ids)
	r.clock.Advance(time.Minute)
	ids, receipts = r.reserve(10, "q")
	wantIDs(ids, "c1")
	r.ack(receipts...)
	r.clock.Advance(3 * time.Second)
	ids, _ = r.reserve(10, "q")
	wantIDs(ids, "c3")
}

// The strict order of queues covers both pools.
func TestQueueOrderDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.push("shop", "low", "low1")
	r.push("shop", "high", "high1")
	r.move("shop", "orders")
	r.push("shop", "high", "high2")
	r.push("shop", "low", "low2")

	var order []string
	for range 4 {
		ids, receipts := r.reserve(1, "high", "low")
		order = append(order, ids...)
		r.ack(receipts...)
	}
	if !slices.Equal(order, []string{"high1", "high2", "low1", "low2"}) {
		t.Errorf("reserved %v", order)
	}
}

// A requeue by count starts with the dead jobs of the old pool.
func TestRequeueByCountStartsWithOldPool(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "a", 2: "a b", 3: "a b c", 9: "a b c d"} {
		r := newRig(t, "new")
		die := func(ids ...string) {
			for _, id := range ids {
				r.pushJob(duly.Job{ID: id})
				_, receipts := r.reserve(1, "q")
				errs, err := r.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: receipts[0], As: duly.Bury}})
				r.must(errors.Join(append(errs, err)...))
				r.clock.Advance(time.Second)
			}
		}
		die("a", "b")
		r.move("shop", "new")
		die("c", "d")

		results, err := r.Requeue(t.Context(), shop, duly.RequeueParams{N: n})
		r.must(err)
		var ids []string
		for _, q := range results {
			ids = append(ids, q.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("requeueing %d jobs returned %s, want %s", n, got, want)
		}
	}
}

// A deletion by IDs finds the jobs of both pools. An ID of both pools means the job of the old one.
func TestDeleteJobsDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	die := func(id string) {
		t.Helper()
		r.pushJob(duly.Job{ID: id})
		_, receipts := r.reserve(1, "q")
		errs, err := r.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: receipts[0], As: duly.Bury}})
		r.must(errors.Join(append(errs, err)...))
	}
	die("old")
	die("both")
	r.pushJob(duly.Job{ID: "old-later", Delay: time.Hour})
	r.move("shop", "orders")
	die("new")
	r.pushJob(duly.Job{ID: "new-later", Delay: time.Hour})
	other := duly.Job{Namespace: "shop", Queue: "q", ID: "both", Delay: time.Hour}
	if results, err := r.engines["orders"].Push(t.Context(), []duly.Job{other}); err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}

	ids := []string{"new", "old-later", "none", "old", "new-later", "both", "old"}
	for _, call := range []struct {
		state duly.State
		want  []error
	}{
		{duly.StateDead, []error{nil, duly.ErrConflict, duly.ErrNotFound, nil, duly.ErrConflict, nil, duly.ErrNotFound}},
		{duly.StateNone, []error{duly.ErrNotFound, nil, duly.ErrNotFound, duly.ErrNotFound, nil, nil, duly.ErrNotFound}},
	} {
		errs, err := r.DeleteJobs(t.Context(), shop, ids, call.state)
		r.must(err)
		for i, want := range call.want {
			if !errors.Is(errs[i], want) {
				t.Errorf("deletion of %s in the state %s: %v, want %v", ids[i], call.state, errs[i], want)
			}
		}
	}
}

// A read and a promotion by IDs find the jobs of both pools.
func TestGetAndPromoteJobsDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "old", Body: []byte("in old"), Delay: time.Hour})
	r.move("shop", "orders")
	r.pushJob(duly.Job{ID: "new", Body: []byte("in new"), Delay: time.Hour})
	ids := []string{"new", "none", "old"}
	want := []error{nil, duly.ErrNotFound, nil}

	errs, err := r.PromoteJobs(t.Context(), shop, ids)
	r.must(err)
	for i := range ids {
		if !errors.Is(errs[i], want[i]) {
			t.Errorf("promotion of %s: %v, want %v", ids[i], errs[i], want[i])
		}
	}
	results, err := r.GetJobs(t.Context(), shop, ids, true)
	r.must(err)
	for i, j := range results {
		if !errors.Is(j.Err, want[i]) {
			t.Errorf("get of %s: %v, want %v", ids[i], j.Err, want[i])
		} else if j.Err == nil && (string(j.Info.Body) != "in "+ids[i] || j.Info.State != duly.StateReady) {
			t.Errorf("get of %s returned %+v", ids[i], j.Info)
		}
	}
}

// A server drops the state of a move after its end, and of the ended move after orphanWindow.
func TestMoveStateIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t, "new")
	r.pushJob(duly.Job{ID: "x"})
	_, receipts := r.reserve(1, "q")
	r.ack(receipts...)
	r.move("shop", "new")
	r.endMove("shop")
	r.must(r.Advance(t.Context()))
	if moves, ended := r.Moving(), r.Ended(); moves != 0 || ended != 1 {
		t.Errorf("after the end, %d moves and %d ended moves are in memory", moves, ended)
	}

	r.clock.Advance(pools.OrphanWindow)
	r.must(r.Advance(t.Context()))
	if ended := r.Ended(); ended != 0 {
		t.Errorf("after orphanWindow, %d ended moves are in memory", ended)
	}
}

// A Find during a move returns the jobs of both pools, each once. An ID in both pools of a queue means the job
// of the old one.
func TestFindDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	push := func(queue string, priority int) {
		t.Helper()
		results, err := r.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: queue, ID: "x", Priority: priority}})
		if err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
	}
	push("b", 1)
	push("d", 1)
	r.move("shop", "orders")
	push("a", 2)
	push("c", 2)
	twin := duly.Job{Namespace: "shop", Queue: "d", ID: "x", Priority: 2}
	if results, err := r.engines["orders"].Push(t.Context(), []duly.Job{twin}); err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}

	found, err := r.Find(t.Context(), "shop", "x")
	r.must(err)
	var got []string
	for _, j := range found.Jobs {
		got = append(got, fmt.Sprint(j.Queue, j.Priority))
	}
	if want := []string{"a2", "b1", "c2", "d1"}; !slices.Equal(got, want) || found.More {
		t.Errorf("found %v, more %t, want %v", got, found.More, want)
	}
	if _, err := r.Find(t.Context(), "shop", "none"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("find of an unknown ID: %v", err)
	}
}

// During a move, a job of the new pool also waits for the jobs of its queue in the old pool. A job
// of the old pool does not.
func TestExplainDuringMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	push := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			results, err := r.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: id}})
			if err != nil || results[0].Err != nil {
				t.Fatal(results, err)
			}
		}
	}
	explain := func(id string, want ...contract.Fact) {
		t.Helper()
		x, err := r.Explain(t.Context(), duly.QueueRef{Namespace: "shop", Name: "q"}, id)
		if err != nil || !slices.Equal(x.Facts, want) {
			t.Errorf("%s: the facts are %+v, %v, want %+v", id, x.Facts, err, want)
		}
	}

	push("old-1", "old-2")
	explain("old-2", contract.Fact{Code: contract.FactBehind, Count: 1})
	r.move("shop", "orders")
	push("new-1", "new-2")
	moving := contract.Fact{Code: contract.FactMoving, Count: 2}
	explain("old-2", contract.Fact{Code: contract.FactBehind, Count: 1})
	explain("new-1", moving)
	explain("new-2", contract.Fact{Code: contract.FactBehind, Count: 1}, moving)

	for range 2 {
		ds, err := r.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{"q"}, Max: 1})
		if err != nil || len(ds) != 1 {
			t.Fatal(ds, err)
		}
		errs, err := r.Settle(t.Context(), "shop", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Ack}})
		if err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
	}
	explain("new-1")
	q := duly.QueueRef{Namespace: "shop", Name: "q"}
	if _, err := r.Explain(t.Context(), q, "none"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("explain of an unknown job: %v", err)
	}
	if _, err := r.Explain(t.Context(), q, "a b"); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("explain of a bad ID: %v", err)
	}
}

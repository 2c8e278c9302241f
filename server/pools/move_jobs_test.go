package pools_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/pools"
)

// An ID is found in either pool, and pushed again it is still one job.
func TestAnIDIsOneJobWhileMoving(t *testing.T) {
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
	var listed []string
	p := duly.ListParams{State: duly.StateReady, PageParams: duly.PageParams{Limit: 1}}
	for {
		page, err := r.List(t.Context(), shop, p)
		r.must(err)
		for _, j := range page.Jobs {
			listed = append(listed, j.ID)
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			break
		}
	}
	if !slices.Equal(listed, []string{"old", "new"}) {
		t.Errorf("listed are %v", listed)
	}
	r.must(r.Delete(t.Context(), shop, "old"))
	r.must(r.Delete(t.Context(), shop, "new"))
	if err := r.Delete(t.Context(), shop, "new"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("deleted again: %v", err)
	}
}

// What a receipt of one pool says is done there and nowhere else, once.
func TestReceiptsOfBothPools(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "old"})
	r.move("shop", "orders")
	r.pushJob(duly.Job{ID: "new"})
	_, first := r.take(1, "q")
	_, second := r.take(1, "q")
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
		if err != nil || !errors.Is(errs[0], want) || !errors.Is(errs[1], duly.ErrLeaseLost) || !errors.Is(errs[2], want) {
			t.Errorf("round %d: %v, %v", round, errs, err)
		}
	}
	stats, err := r.Stats(t.Context(), shop)
	if err != nil || stats.Counters.Acked != 2 || stats.Sizes != (duly.Sizes{}) {
		t.Errorf("%+v, %v", stats, err)
	}
}

// Jobs of an order key run in their order over the move, one at a time.
func TestOrderKeysOverAMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "a1", OrderKey: "a"})
	r.pushJob(duly.Job{ID: "a2", OrderKey: "a"})
	r.pushJob(duly.Job{ID: "c1", OrderKey: "c", Delay: time.Hour})
	r.move("shop", "orders")
	r.pushJob(duly.Job{ID: "a3", OrderKey: "a"})
	r.pushJob(duly.Job{ID: "b1", OrderKey: "b"})
	r.pushJob(duly.Job{ID: "c2", OrderKey: "c"})
	ids, receipts := r.take(10, "q")
	if !slices.Equal(ids, []string{"a1"}) {
		t.Fatalf("first are %v", ids)
	}
	r.clock.Advance(pools.Settle)
	for range 3 { // a1 runs: nobody knows what its retry will do
		if ids, _ := r.take(10, "q"); ids != nil {
			t.Fatalf("while a1 runs %v are taken", ids)
		}
		r.clock.Advance(3 * time.Second)
	}
	r.ack(receipts...)
	ids, receipts = r.take(10, "q")
	if !slices.Equal(ids, []string{"a2"}) {
		t.Fatalf("then %v", ids)
	}
	r.ack(receipts...)
	var rest []string
	for range 4 { // only c1 is left, due in an hour: a, b and c are free until then
		r.clock.Advance(3 * time.Second)
		ids, receipts = r.take(10, "q")
		rest = append(rest, ids...)
		r.ack(receipts...)
	}
	slices.Sort(rest)
	if !slices.Equal(rest, []string{"a3", "b1", "c2"}) {
		t.Fatalf("the rest is %v", rest)
	}
	r.clock.Advance(time.Hour - 60*time.Second)
	r.pushJob(duly.Job{ID: "c3", OrderKey: "c", Lease: 5 * time.Minute})
	if ids, _ := r.take(10, "q"); ids != nil {
		t.Fatalf("c3, whose lease would end behind c1's due: %v", ids)
	}
	r.clock.Advance(time.Minute)
	if ids, receipts = r.take(10, "q"); !slices.Equal(ids, []string{"c1"}) {
		t.Fatalf("at its due %v", ids)
	}
	r.ack(receipts...)
	r.clock.Advance(3 * time.Second)
	if ids, _ = r.take(10, "q"); !slices.Equal(ids, []string{"c3"}) {
		t.Fatalf("at last %v", ids)
	}
}

// Strict order of queues holds over both pools.
func TestQueueOrderOverAMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.push("shop", "low", "low1")
	r.push("shop", "high", "high1")
	r.move("shop", "orders")
	r.push("shop", "high", "high2")
	r.push("shop", "low", "low2")
	var order []string
	for range 4 {
		ids, receipts := r.take(1, "high", "low")
		order = append(order, ids...)
		r.ack(receipts...)
	}
	if !slices.Equal(order, []string{"high1", "high2", "low1", "low2"}) {
		t.Errorf("taken are %v", order)
	}
}

// A requeue by count takes the dead jobs of the pool that is left first.
func TestARequeueByCountTakesTheOldestFirst(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{1: "a", 2: "a b", 3: "a b c", 9: "a b c d"} {
		r := newRig(t, "new")
		die := func(ids ...string) {
			for _, id := range ids {
				r.pushJob(duly.Job{ID: id})
				_, receipts := r.take(1, "q")
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
			t.Errorf("%d are requeued as %s, want %s", n, got, want)
		}
	}
}

// A server forgets a move some time after its end.
func TestAMoveIsForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, "new")
	r.pushJob(duly.Job{ID: "x"})
	_, receipts := r.take(1, "q")
	r.ack(receipts...)
	r.move("shop", "new")
	r.end("shop")
	r.must(r.CarryOn(t.Context()))
	if moves, past := r.Remembered(), r.Past(); moves != 0 || past != 1 {
		t.Errorf("after its end %d moves are known, and %d that are over", moves, past)
	}

	r.clock.Advance(pools.LookBackFor)
	r.must(r.CarryOn(t.Context()))
	if past := r.Past(); past != 0 {
		t.Errorf("%d moves that are over are known for ever", past)
	}
}

package pools_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/pools"
)

// drill is a namespace whose move is watched while one of its servers misbehaves.
type drill struct {
	*rig
	accepted, seen map[string]int
	leased         int // the limit of wide
	turned         bool
}

// newDrill has two queues, and no job left in either.
func newDrill(t *testing.T) *drill {
	d := &drill{rig: newRig(t, "orders"), accepted: map[string]int{}, seen: map[string]int{}, leased: 8}
	d.must(d.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 77}))
	d.must(d.Configure(t.Context(), wide, duly.QueueConfig{Shards: 4, MaxLeased: 8}))
	return d
}

var wide = duly.QueueRef{Namespace: "shop", Name: "wide"}

// push pushes a job through a pool, or into an engine as a server does that has
// not heard.
func (d *drill) push(e duly.Engine, q duly.QueueRef, id string) {
	d.t.Helper()
	results, err := e.Push(d.t.Context(), []duly.Job{{Namespace: q.Namespace, Queue: q.Name, ID: id}})
	d.must(err)
	switch err := results[0].Err; {
	case err == nil:
		d.accepted[id]++
	case !errors.Is(err, duly.ErrFull):
		d.must(err)
	}
}

// work takes and acks what there is.
func (d *drill) work() {
	d.t.Helper()
	for {
		ids, receipts := d.take(10, "q", "wide")
		if ids == nil {
			return
		}
		for _, id := range ids {
			d.seen[id]++
		}
		d.ack(receipts...)
	}
}

// finish lets time pass until all is over, and holds it against what must be: the
// namespace is in one pool, with its settings, nothing is left in the other one,
// and what was accepted was worked on.
func (d *drill) finish(in, out string) {
	d.t.Helper()
	for range 20 {
		d.carryOn()
		d.work()
	}
	if where, err := d.Where(d.t.Context(), "shop"); err != nil || where.Pool != in || where.From != "" {
		d.t.Errorf("it is in %+v, %v", where, err)
	}
	if left := d.left(out); len(left) != 0 {
		d.t.Errorf("left behind are %v", left)
	}
	if c, err := d.Config(d.t.Context(), shop); err != nil || c.MaxJobs != 77 {
		d.t.Errorf("%s is %+v, %v", shop, c, err)
	}
	// Where a move is turned around in the moment in which the queue is removed, and
	// somebody pushes to it before its settings are back, its shards are lost; where
	// it is turned around again while a server that has read a setting stands still,
	// that may overtake the next one.
	c, err := d.Config(d.t.Context(), wide)
	if err != nil || c.Shards != 4 && in == "orders" && !d.turned || c.MaxLeased != d.leased && !d.turned || c.MaxLeased < 8 || c.MaxJobs != duly.None {
		d.t.Errorf("%s is %+v, %v", wide, c, err)
	}
	for _, q := range []duly.QueueRef{shop, wide} {
		if s, err := d.Stats(d.t.Context(), q); err != nil || s.Sizes != (duly.Sizes{}) {
			d.t.Errorf("in %s are %+v, %v", q, s.Sizes, err)
		}
	}
	for id := range d.accepted {
		if d.seen[id] != 1 {
			d.t.Errorf("%s was worked on %d times", id, d.seen[id])
		}
	}
}

// meanwhile is what happens while another server stands still at a step of a
// drain.
var meanwhile = map[string]func(d *drill){
	"nothing":   func(*drill) {},
	"removed":   func(d *drill) { d.must(d.CarryOn(d.t.Context())) },
	"late push": func(d *drill) { d.push(d.engines[contract.DefaultPool], wide, "late") },
	"removed, then a late push": func(d *drill) {
		d.must(d.CarryOn(d.t.Context()))
		d.push(d.engines[contract.DefaultPool], wide, "late")
	},
	"late push, begun to be removed": func(d *drill) {
		d.push(d.engines[contract.DefaultPool], wide, "late")
		d.must(d.CarryOn(d.t.Context()))
		d.work()
		d.must(d.CarryOn(d.t.Context()))
		d.push(d.engines[contract.DefaultPool], wide, "later")
	},
	"set": func(d *drill) {
		d.must(d.Configure(d.t.Context(), wide, duly.QueueConfig{MaxJobs: 500}))
		d.push(d.engines[contract.DefaultPool], wide, "late")
		d.must(d.Configure(d.t.Context(), wide, duly.QueueConfig{MaxJobs: duly.None}))
	},
	"ended":  func(d *drill) { d.end("shop") },
	"turned": func(d *drill) { d.turn(); d.push(d, wide, "back") },
	"turned, and settled": func(d *drill) {
		d.turn()
		d.carryOn()
		d.push(d, shop, "back")
		d.push(d, wide, "back-too")
	},
	"moved back": func(d *drill) {
		d.end("shop")
		d.move("shop", contract.DefaultPool)
		d.push(d, shop, "back")
		d.push(d, wide, "back-too")
	},
}

func (d *drill) turn() {
	_, err := d.Move(d.t.Context(), "shop", contract.DefaultPool)
	d.must(err)
}

// A server stands still or dies at any step of a drain, while others go on with
// the move, end it or turn it around, and somebody who has not heard pushes to the
// old pool. Nothing of the namespace is left there at last, no job and no setting
// is lost.
func TestAServerThatStopsInADrain(t *testing.T) {
	t.Parallel()
	for what, then := range meanwhile {
		for dies := lives; dies < deaths; dies++ {
			t.Run(fmt.Sprint(what, " dies ", dies), func(t *testing.T) {
				t.Parallel()
				for n := 1; drainStep(t, n, dies, then); n++ {
				}
			})
		}
	}
}

// drainStep stops a server at the nth step of its drain, and tells whether there
// is one.
func drainStep(t *testing.T, n int, dies death, then func(d *drill)) (more bool) {
	d := newDrill(t)
	s := &steps{}
	slow := d.stepping(s)
	d.move("shop", "orders")
	d.must(d.CarryOn(t.Context()))
	d.must(slow.CarryOn(t.Context())) // from now on it counts
	d.clock.Advance(pools.Settle)
	*s = steps{left: n, death: dies, then: func() { then(d) }}
	err := slow.CarryOn(t.Context())
	if err != nil && !errors.Is(err, errDied) {
		t.Errorf("step %d: %v", n, err)
	}
	more = s.over()
	if dies == lives {
		s.then = nil
		d.must(slow.CarryOn(t.Context()))
	}
	where, err := d.Where(t.Context(), "shop")
	d.must(err)
	out := "orders"
	if where.Pool == out {
		out = contract.DefaultPool
	}
	d.finish(where.Pool, out)
	if t.Failed() {
		t.Logf("at step %d", n)
		return false
	}
	return more
}

// What a queue may hold stays as its user has set it where that is one job for
// each shard, as a fence has it: also when a server begins anew in mid-move.
func TestABoundThatLooksLikeAFence(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 1}))
	r.push("shop", "other", "x")
	r.move("shop", "orders")
	r.carryOn()
	if left := r.left(contract.DefaultPool); len(left) != 1 {
		t.Fatalf("in the old pool are %v", left)
	}
	r.Pools = r.stepping(&steps{})
	r.carryOn()
	if c, err := r.Config(t.Context(), shop); err != nil || c.MaxJobs != 1 {
		t.Errorf("it is %+v, %v", c, err)
	}
}

// What comes to a pool after the move out of it has ended is worked off, within
// an hour by itself and later when it is said.
func TestWhatComesLateIsWorkedOff(t *testing.T) {
	t.Parallel()
	d := newDrill(t)
	d.move("shop", "orders")
	d.carryOn()
	d.end("shop")
	d.push(d.engines[contract.DefaultPool], shop, "late")
	d.finish("orders", contract.DefaultPool)
	d.clock.Advance(pools.LookBackFor)
	d.push(d.engines[contract.DefaultPool], shop, "too-late")
	for range 3 {
		d.carryOn()
	}
	if d.phase("shop") != contract.Placed {
		t.Error("it is looked for after an hour")
	}
	_, err := d.Move(t.Context(), "shop", "orders")
	d.must(err)
	d.finish("orders", contract.DefaultPool)
}

// So is what comes to the default pool by a server that has not heard of where a
// namespace was placed at first.
func TestWhatMissesTheFirstPlaceIsWorkedOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	results, err := r.engines[contract.DefaultPool].Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "late"}})
	if r.must(err); results[0].Err != nil {
		t.Fatal(results[0].Err)
	}
	r.carryOn()
	if r.phase("shop") != contract.Draining {
		t.Fatal("it is not looked for")
	}
	ids, receipts := r.take(5, "q")
	if !slices.Equal(ids, []string{"late"}) {
		t.Errorf("taken are %v", ids)
	}
	r.ack(receipts...)
	r.end("shop")
	if left := r.left(contract.DefaultPool); len(left) != 0 {
		t.Errorf("left behind are %v", left)
	}
}

// A look for what came late is made ever less often.
func TestLateComersAreLookedForLessAndLess(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "x"})
	s := &steps{}
	slow := r.stepping(s)
	r.move("shop", "orders")
	_, receipts := r.take(1, "q")
	r.ack(receipts...)
	r.carryOn()
	r.end("shop")
	looks := 0
	for range int(pools.LookBackFor / time.Second) {
		*s = steps{}
		r.must(slow.CarryOn(t.Context()))
		if s.left < -1 { // more than the placements were read
			looks++
		}
		r.clock.Advance(time.Second)
	}
	if looks < 5 || looks > 10 {
		t.Errorf("%d looks in an hour", looks)
	}
}

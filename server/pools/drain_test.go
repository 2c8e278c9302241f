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

// moveTest checks a move of a namespace while one of its servers is suspended, crashes or has an
// outdated placement.
type moveTest struct {
	*rig
	accepted, seen map[string]int // number of times that each job was accepted, and acked
	leased         int            // max_leased of the queue wide
	reversed       bool
}

// newMoveTest returns a test with two queues and no jobs.
func newMoveTest(t *testing.T) *moveTest {
	d := &moveTest{rig: newRig(t, "orders"), accepted: map[string]int{}, seen: map[string]int{}, leased: 8}
	d.must(d.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 77}))
	d.must(d.Configure(t.Context(), wide, duly.QueueConfig{Shards: 4, MaxLeased: 8}))
	return d
}

var wide = duly.QueueRef{Namespace: "shop", Name: "wide"}

// push pushes a job through Pools, or to an engine like a server with an outdated placement.
func (d *moveTest) push(e duly.Engine, q duly.QueueRef, id string) {
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

// ackAll reserves and acks all ready jobs.
func (d *moveTest) ackAll() {
	d.t.Helper()
	for {
		ids, receipts := d.reserve(10, "q", "wide")
		if ids == nil {
			return
		}
		for _, id := range ids {
			d.seen[id]++
		}
		d.ack(receipts...)
	}
}

// finish advances the move to its end, and checks the result: the namespace is in one pool with
// its settings, the other pool has no queue, and every accepted job was acked once.
func (d *moveTest) finish(in, out string) {
	d.t.Helper()
	for range 20 {
		d.advance()
		d.ackAll()
	}

	if where, err := d.Where(d.t.Context(), "shop"); err != nil || where.Pool != in || where.From != "" {
		d.t.Errorf("the placement is %+v, %v", where, err)
	}
	if left := d.queuesIn(out); len(left) != 0 {
		d.t.Errorf("pool %s still has the queues %v", out, left)
	}
	if c, err := d.Config(d.t.Context(), shop); err != nil || c.MaxJobs != 77 {
		d.t.Errorf("%s is %+v, %v", shop, c, err)
	}
	d.checkWide(in)
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

// checkWide checks the settings of wide.
func (d *moveTest) checkWide(in string) {
	d.t.Helper()
	c, err := d.Config(d.t.Context(), wide)
	if err != nil || c.MaxLeased < 8 || c.MaxJobs != duly.None {
		d.t.Errorf("%s is %+v, %v", wide, c, err)
	}

	// The number of shards is lost if the move is reversed at the moment at which the queue is
	// removed, and a job is pushed before the queue's settings are restored.
	if c.Shards != 4 && in == "orders" && !d.reversed {
		d.t.Errorf("%s has %d shards", wide, c.Shards)
	}
	// If the move is reversed twice, a suspended server may overwrite a later setting with one that
	// it has read before.
	if c.MaxLeased != d.leased && !d.reversed {
		d.t.Errorf("%s has max_leased %d, want %d", wide, c.MaxLeased, d.leased)
	}
}

// concurrentEvents happen while another server is suspended at a step of a drain.
var concurrentEvents = map[string]func(d *moveTest){
	"nothing":   func(*moveTest) {},
	"removed":   func(d *moveTest) { d.must(d.Advance(d.t.Context())) },
	"late push": func(d *moveTest) { d.push(d.engines[contract.DefaultPool], wide, "late") },
	"removed, then a late push": func(d *moveTest) {
		d.must(d.Advance(d.t.Context()))
		d.push(d.engines[contract.DefaultPool], wide, "late")
	},
	"late push, sealed": func(d *moveTest) {
		d.push(d.engines[contract.DefaultPool], wide, "late")
		d.must(d.Advance(d.t.Context()))
		d.ackAll()
		d.must(d.Advance(d.t.Context()))
		d.push(d.engines[contract.DefaultPool], wide, "later")
	},
	"settings": func(d *moveTest) {
		d.must(d.Configure(d.t.Context(), wide, duly.QueueConfig{MaxJobs: 500}))
		d.push(d.engines[contract.DefaultPool], wide, "late")
		d.must(d.Configure(d.t.Context(), wide, duly.QueueConfig{MaxJobs: duly.None}))
	},
	"ended":    func(d *moveTest) { d.endMove("shop") },
	"reversed": func(d *moveTest) { d.reverse(); d.push(d, wide, "back") },
	"reversed, and propagated": func(d *moveTest) {
		d.reverse()
		d.advance()
		d.push(d, shop, "back")
		d.push(d, wide, "back-too")
	},
	"moved back": func(d *moveTest) {
		d.endMove("shop")
		d.move("shop", contract.DefaultPool)
		d.push(d, shop, "back")
		d.push(d, wide, "back-too")
	},
}

func (d *moveTest) reverse() {
	_, err := d.Move(d.t.Context(), "shop", contract.DefaultPool)
	d.must(err)
}

// A server is suspended or crashes at any step of a drain, while other servers advance, end or
// reverse the move, and a server with an outdated placement pushes to the old pool. At the end the
// old pool has no queue, and no job and no setting is lost.
func TestServerStopsDuringDrain(t *testing.T) {
	t.Parallel()
	for what, then := range concurrentEvents {
		for kind := noCrash; kind < crashKinds; kind++ {
			t.Run(fmt.Sprint(what, " crash ", kind), func(t *testing.T) {
				t.Parallel()
				for n := 1; drainStep(t, n, kind, then); n++ {
				}
			})
		}
	}
}

// drainStep stops a server at the nth step of its drain. It reports whether there is such a
// step.
func drainStep(t *testing.T, n int, kind crash, then func(d *moveTest)) (more bool) {
	d := newMoveTest(t)
	s := &stepCounter{}
	slow := d.newCountingServer(s)
	d.move("shop", "orders")
	d.must(d.Advance(t.Context()))
	d.must(slow.Advance(t.Context())) // the time of the phase starts with this turn
	d.clock.Advance(pools.Propagation)

	*s = stepCounter{left: n, crash: kind, then: func() { then(d) }}
	err := slow.Advance(t.Context())
	if err != nil && !errors.Is(err, errCrashed) {
		t.Errorf("step %d: %v", n, err)
	}
	more = s.over()
	if kind == noCrash {
		s.then = nil
		d.must(slow.Advance(t.Context()))
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

// A bound of one job per shard, which looks like the bound of a seal, is kept, even if a server
// restarts during the move.
func TestBoundOfOneJobPerShardSurvivesAMove(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 1}))
	r.push("shop", "other", "x")
	r.move("shop", "orders")
	r.advance()
	if left := r.queuesIn(contract.DefaultPool); len(left) != 1 {
		t.Fatalf("the old pool has the queues %v", left)
	}
	r.Pools = r.newCountingServer(&stepCounter{})
	r.advance()
	if c, err := r.Config(t.Context(), shop); err != nil || c.MaxJobs != 1 {
		t.Errorf("the settings are %+v, %v", c, err)
	}
}

// Servers drain late jobs of a former pool within orphanWindow. After orphanWindow, only Move
// drains them.
func TestOrphansAreDrained(t *testing.T) {
	t.Parallel()
	d := newMoveTest(t)
	d.move("shop", "orders")
	d.advance()
	d.endMove("shop")
	d.push(d.engines[contract.DefaultPool], shop, "late")
	d.finish("orders", contract.DefaultPool)

	d.clock.Advance(pools.OrphanWindow)
	d.push(d.engines[contract.DefaultPool], shop, "too-late")
	for range 3 {
		d.advance()
	}
	if d.phase("shop") != contract.Placed {
		t.Error("servers search for orphans after orphanWindow")
	}

	_, err := d.Move(t.Context(), "shop", "orders")
	d.must(err)
	d.finish("orders", contract.DefaultPool)
}

// Servers also drain jobs that a server has pushed to the default pool because it had not seen
// the first placement of their namespace.
func TestOrphansOfFirstPlacementAreDrained(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.must(r.Assign(t.Context(), "shop", "orders"))
	job := duly.Job{Namespace: "shop", Queue: "q", ID: "late"}
	results, err := r.engines[contract.DefaultPool].Push(t.Context(), []duly.Job{job})
	if r.must(err); results[0].Err != nil {
		t.Fatal(results[0].Err)
	}
	r.advance()
	if r.phase("shop") != contract.Draining {
		t.Fatal("no server drains the job")
	}

	ids, receipts := r.reserve(5, "q")
	if !slices.Equal(ids, []string{"late"}) {
		t.Errorf("reserved %v", ids)
	}
	r.ack(receipts...)
	r.endMove("shop")
	if left := r.queuesIn(contract.DefaultPool); len(left) != 0 {
		t.Errorf("the default pool still has the queues %v", left)
	}
}

// Servers search for orphans less and less often.
func TestOrphanSearchesBecomeRare(t *testing.T) {
	t.Parallel()
	r := newRig(t, "orders")
	r.pushJob(duly.Job{ID: "x"})
	s := &stepCounter{}
	slow := r.newCountingServer(s)
	r.move("shop", "orders")
	_, receipts := r.reserve(1, "q")
	r.ack(receipts...)
	r.advance()
	r.endMove("shop")

	searches := 0
	for range int(pools.OrphanWindow / time.Second) {
		*s = stepCounter{}
		r.must(slow.Advance(t.Context()))
		if s.left < -1 { // more calls than the one that reads the placements
			searches++
		}
		r.clock.Advance(time.Second)
	}
	if searches < 5 || searches > 10 {
		t.Errorf("%d searches in an hour", searches)
	}
}

package redisengine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// TestEveryShardUsesTheClockOfItsNode checks that in a cluster every shard uses its own node's
// clock (C5.3, C5.4). The nodes' clocks differ by an hour. No job is delivered before its delay is
// over, and all times of a job are from its node's clock.
func TestEveryShardUsesTheClockOfItsNode(t *testing.T) {
	t.Parallel()
	redistest.NeedClocks(t)
	c := redistest.NewCluster(t, 0, redistest.Ahead(time.Hour))
	e := open(t, c.URL())
	ctx, q := t.Context(), duly.Q("q")
	must(t, e.Configure(ctx, q, duly.QueueConfig{Shards: clockShards}))
	offset := map[int]time.Duration{} // difference of each shard's clock from the real time
	used := map[time.Duration]bool{}
	for i := range clockShards {
		node := c.For(store.ShardTag("duly", duly.Q("q"), i) + "config")
		for k, one := range c.Nodes() {
			if one == node {
				offset[i] = time.Duration(k+1) * time.Hour
				used[offset[i]] = true
			}
		}
	}
	if len(used) < 2 {
		t.Fatal("all shards are on one node")
	}
	x := &clocks{T: t, e: e, offset: offset}
	// The replies show this process each node's clock.
	x.round(time.Second)
	// From now on the process uses the clocks that it has read from the nodes.
	x.round(0)
	for _, d := range x.round(500 * time.Millisecond) {
		errs, err := e.Extend(ctx, "", []duly.Receipt{d.Receipt}, time.Second)
		must(t, errors.Join(append(errs, err)...))
	}
	// Leases that end by different clocks make their jobs ready again, once each.
	taken := map[string]int{}
	redistest.Await(t, "the leases have run out", func() bool {
		ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: 100, Lease: time.Hour})
		must(t, err)
		for _, d := range ds {
			if taken[d.ID]++; d.Stalls != 1 || taken[d.ID] > 1 {
				t.Errorf("%s returned %d times, with %d stalls", d.ID, taken[d.ID], d.Stalls)
			}
		}
		return len(taken) == clockShards
	})
}

const clockShards = 8

// clocks is a queue whose shards are on nodes with different clocks.
type clocks struct {
	*testing.T
	e      *redisengine.Engine
	offset map[int]time.Duration // difference of each shard's clock from the process's clock
}

// round pushes a job with this delay into each shard, and reserves the jobs.
func (x *clocks) round(delay time.Duration) (taken []duly.Delivery) {
	x.Helper()
	const lease = time.Hour
	pushed := time.Now()
	fresh := map[string]bool{}
	var jobs []duly.Job
	for i := range clockShards {
		j := jobOf(i, clockShards, duly.Job{Queue: "q", Delay: delay})
		jobs, fresh[j.ID] = append(jobs, j), true
	}
	results, err := x.e.Push(x.Context(), jobs)
	must(x, err)
	for _, r := range results {
		must(x, r.Err)
	}
	redistest.Await(x, "a job comes from each shard", func() bool {
		_, err := x.e.Wait(x.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Second})
		must(x, err)
		ds, err := x.e.Reserve(x.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: clockShards, Lease: lease})
		must(x, err)
		for _, d := range ds {
			if !fresh[d.ID] {
				x.Errorf("%s was delivered twice", d.ID)
			}
			x.checkTimes(d, pushed, delay, lease)
			taken = append(taken, d)
		}
		return len(taken) == clockShards
	})
	return taken
}

// checkTimes compares a delivery's times with the clock of its node.
func (x *clocks) checkTimes(d duly.Delivery, pushed time.Time, delay, lease time.Duration) {
	x.Helper()
	now := time.Now()
	p, _ := contract.ParseReceipt(d.Receipt)
	there := x.offset[p.Shard]
	for what, m := range map[string]time.Time{"pushed": d.PushedAt, "due": d.Due.Add(-delay), "taken": d.Now,
		"the lease ends": d.LeaseEnd.Add(-lease)} {
		if m.Before(pushed.Add(there-time.Second)) || m.After(now.Add(there+time.Second)) {
			x.Errorf("shard %d: time %q is %v, but the node's clock is %v ahead of %v", p.Shard, what, m, there, now)
		}
	}
	if d.Now.Before(d.Due) || now.Sub(pushed) < delay {
		x.Errorf("shard %d: delivered early, %v after the push, at %v, due %v", p.Shard, now.Sub(pushed), d.Now, d.Due)
	}
}

func jobOf(shard, shards int, j duly.Job) duly.Job {
	j.Made = true
	for j.ID == "" || contract.ShardOf(j.ID, shards) != shard {
		j.ID = duly.MakeID(&j)
	}
	return j
}

package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// An empty queue of the old pool is removed behind a fence. Somebody might push
// to it still, a server for instance that stood still while the move was told,
// and a Destroy would take that job with it. So the queue is filled first: each
// shard gets a job that is due in the far future, and the queue's bound is set to
// as many. Once that is done a push is refused as full, and what the queue holds
// is known. If a job was quicker, the fence stands until that has gone, too.
//
// One server does so at a time (claim.go), and none that stands still in between
// destroys anything any more (timely.go). As long as a pool is the one that is
// left, nobody takes a fence of it down; where a move was turned around, that is
// done once the phase has settled (open).

// fillerName begins the IDs of the jobs that fill a queue.
const fillerName = "duly-moved-"

// fillerCallback is the destination of a filler in a push queue, where each job needs
// one. No filler is ever due.
const fillerCallback = "https://filler.invalid/"

const fillerDelay = 100 * 365 * 24 * time.Hour

// fillers are jobs that fill a queue, one for each shard. Those for fewer shards
// are among those for more, and the first is always the same.
func fillers(q duly.QueueRef, shards int) []duly.Job {
	jobs := make([]duly.Job, 0, shards)
	filled := make([]bool, shards)
	for n := 0; len(jobs) < shards; n++ {
		id := fmt.Sprint(fillerName, n)
		if at := contract.ShardOf(id, shards); !filled[at] {
			filled[at] = true
			jobs = append(jobs, duly.Job{ID: id, Namespace: q.Namespace, Queue: q.Name, Delay: fillerDelay, TTL: duly.None})
		}
	}
	return jobs
}

// isFiller tells a filler from a job that a client has named so.
func isFiller(j *duly.JobInfo) bool {
	return strings.HasPrefix(j.ID, fillerName) && j.Due.Sub(j.PushedAt) > fillerDelay/2
}

// isFenced tells whether a queue has a fence, or has begun to get one.
func isFenced(ctx context.Context, e contract.Engine, q duly.QueueRef) (bool, error) {
	first, err := e.Get(ctx, q, fillers(q, 1)[0].ID)
	if errors.Is(err, duly.ErrNotFound) {
		return false, nil
	}
	return err == nil && isFiller(&first), err
}

// remove destroys a queue of the old pool if it is empty, and tells whether it
// has.
func (m *pair) remove(ctx context.Context, q duly.QueueRef) (gone bool, err error) {
	standing, empty, err := m.fillersIn(ctx, q)
	if err != nil || !empty {
		return false, err
	}
	old, err := m.claimed(ctx)
	if err != nil {
		return false, err
	}
	fenced, err := fence(ctx, old, q, standing)
	if err != nil || !fenced {
		return false, err
	}
	return true, old.Destroy(ctx, q)
}

// fillersIn lists the fillers of a queue of the old pool; empty: there is nothing
// else in it.
func (m *pair) fillersIn(ctx context.Context, q duly.QueueRef) (ids []string, empty bool, err error) {
	stats, err := m.old.Stats(ctx, q)
	n := stats.Sizes.Delayed
	if err != nil || n > duly.MaxShards || stats.Sizes != (duly.Sizes{Delayed: n}) {
		return nil, false, err
	}
	if n == 0 {
		return nil, true, nil
	}
	page, err := m.old.List(ctx, q, duly.ListParams{State: duly.StateDelayed, PageParams: duly.PageParams{Limit: duly.MaxShards}})
	for i := range page.Jobs {
		if !isFiller(&page.Jobs[i]) {
			return nil, false, err
		}
		ids = append(ids, page.Jobs[i].ID)
	}
	return ids, int64(len(ids)) == n, err
}

// fence fills a queue of the old pool that has these fillers already, and tells
// whether it is full of them and bounded, so that nothing gets in.
func fence(ctx context.Context, old *timely, q duly.QueueRef, standing []string) (up bool, err error) {
	config, err := old.Config(ctx, q)
	if err != nil {
		return false, err
	}
	jobs := fillers(q, config.Shards)
	if config.Delivery == duly.DeliverPush {
		for i := range jobs {
			jobs[i].Callback = fillerCallback
		}
	}
	for _, id := range standing { // of a queue that had more shards
		if slices.ContainsFunc(jobs, func(j duly.Job) bool { return j.ID == id }) {
			continue
		}
		if err := old.Delete(ctx, q, id); err != nil && !errors.Is(err, duly.ErrNotFound) {
			return false, err
		}
	}
	results, err := old.Push(ctx, jobs)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(results, func(r duly.PushResult) bool { return r.Err != nil }) {
		return false, nil
	}
	err = old.Configure(ctx, q, duly.QueueConfig{Shards: config.Shards, MaxJobs: config.Shards})
	if errors.Is(err, duly.ErrInvalid) { // it is another queue by now, with other shards
		return false, nil
	}
	if err != nil {
		return false, err
	}
	stats, err := old.Stats(ctx, q)
	if err != nil {
		return false, err
	}
	now, err := old.Config(ctx, q)
	return now.Shards == config.Shards && now.MaxJobs == config.Shards && stats.Sizes == duly.Sizes{Delayed: int64(config.Shards)}, err
}

// open takes away what fences are left in the pool that jobs are pushed to, once
// in each phase: somebody may have died behind one before the move was turned
// around. Then it brings there what settings the old pool alone has.
func (m *pair) open(ctx context.Context, namespace string) error {
	m.state.mu.Lock()
	opened := m.state.opened
	m.state.mu.Unlock()
	if opened {
		return nil
	}
	err := eachName(ctx, m.new, namespace, func(q duly.QueueRef) error { return m.lower(ctx, q) })
	if err == nil {
		err = m.bringAll(ctx, namespace)
	}
	if err == nil {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		m.state.opened = true
	}
	return err
}

// lower takes the fence of a queue of the new pool down, if it has one. The bound
// that it had is that of the old pool, which is looked up first: while a fence is
// there nobody has begun to remove queues of the old pool. So the first filler,
// which says that there is one, goes last.
func (m *pair) lower(ctx context.Context, q duly.QueueRef) error {
	as, err := m.old.Config(ctx, q)
	if err != nil {
		return err
	}
	fenced, err := isFenced(ctx, m.new, q)
	if err != nil || !fenced {
		return err
	}
	fresh, err := m.pools.timely(ctx, m.new, &m.where)
	if err != nil {
		return err
	}
	config, err := fresh.Config(ctx, q)
	if err != nil {
		return err
	}
	if config.MaxJobs == config.Shards && as.MaxJobs != config.MaxJobs {
		if err := fresh.Configure(ctx, q, duly.QueueConfig{MaxJobs: as.MaxJobs}); err != nil {
			return err
		}
	}
	for _, filler := range slices.Backward(fillers(q, duly.MaxShards)) {
		if err := fresh.Delete(ctx, q, filler.ID); err != nil && !errors.Is(err, duly.ErrNotFound) {
			return err
		}
	}
	return nil
}

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

// An empty queue of the old pool is sealed before it is removed. A server that was suspended during
// the change of the phase might still push to it, and Destroy would delete that job.
//
// To seal a queue, the server fills it: each shard gets a seal job that is due in the far future,
// and the queue's bound becomes the number of shards. Then every push fails as full, and the
// content of the queue is known. If a job was pushed before that, the queue stays sealed and is
// removed when the job is gone.
//
// One server at a time removes queues (removal_lock.go), and a server that was suspended cannot
// destroy a queue later (step_engine.go). Seals of the old pool are never removed in that phase.
// After a reversal, they are removed once the phase has propagated (completeReversal).

// sealPrefix is the prefix of the IDs of seal jobs.
const sealPrefix = "duly-moved-"

// sealCallback is the destination of a seal job in a push queue, where every job needs a
// destination. It is never called, because seal jobs are never due.
const sealCallback = "https://filler.invalid/"

const sealDelay = 100 * 365 * 24 * time.Hour

// sealJobs returns the jobs that seal a queue, one for each shard. The jobs for few shards are also
// among those for more shards, and the first job is always the same.
func sealJobs(q duly.QueueRef, shards int) []duly.Job {
	jobs := make([]duly.Job, 0, shards)
	filled := make([]bool, shards)
	for n := 0; len(jobs) < shards; n++ {
		id := fmt.Sprint(sealPrefix, n)
		if at := contract.ShardOf(id, shards); !filled[at] {
			filled[at] = true
			jobs = append(jobs, duly.Job{ID: id, Namespace: q.Namespace, Queue: q.Name, Delay: sealDelay, TTL: duly.None})
		}
	}
	return jobs
}

// isSealJob reports whether a job is a seal job. An ID of the same form is not enough, because a
// caller's job may have it.
func isSealJob(j *duly.JobInfo) bool {
	return strings.HasPrefix(j.ID, sealPrefix) && j.Due.Sub(j.PushedAt) > sealDelay/2
}

// isSealed reports whether a queue is sealed, at least in part.
func isSealed(ctx context.Context, e contract.Engine, q duly.QueueRef) (bool, error) {
	first, err := e.Get(ctx, q, sealJobs(q, 1)[0].ID)
	if errors.Is(err, duly.ErrNotFound) {
		return false, nil
	}
	return err == nil && isSealJob(&first), err
}

// removeQueue removes a queue of the old pool if it is empty. It reports whether the queue is
// gone.
func (m *migratingEngine) removeQueue(ctx context.Context, q duly.QueueRef) (gone bool, err error) {
	present, empty, err := m.sealJobsIn(ctx, q)
	if err != nil || !empty {
		return false, err
	}
	old, err := m.lockRemoval(ctx)
	if err != nil {
		return false, err
	}
	// Every change from here on needs the removal lock.
	sealed, err := seal(ctx, old, q, present)
	if err != nil || !sealed {
		return false, err
	}
	return true, old.Destroy(ctx, q)
}

// sealJobsIn returns the IDs of the seal jobs in a queue of the old pool. empty reports whether the
// queue has no other job, and no schedule.
func (m *migratingEngine) sealJobsIn(ctx context.Context, q duly.QueueRef) (ids []string, empty bool, err error) {
	stats, err := m.old.Stats(ctx, q)
	n := stats.Sizes.Delayed
	// All seal jobs are delayed, and a queue has at most as many of them as it can have shards.
	if err != nil || n > duly.MaxShards || stats.Sizes != (duly.Sizes{Delayed: n}) || stats.Schedules > 0 {
		return nil, false, err
	}
	if n == 0 {
		return nil, true, nil
	}

	page, err := m.old.List(ctx, q, duly.ListParams{
		State: duly.StateDelayed, PageParams: duly.PageParams{Limit: duly.MaxShards},
	})
	for i := range page.Jobs {
		if !isSealJob(&page.Jobs[i]) {
			return nil, false, err
		}
		ids = append(ids, page.Jobs[i].ID)
	}
	return ids, int64(len(ids)) == n, err
}

// seal seals a queue of the old pool, which has some seal jobs already. It reports whether
// the queue has only seal jobs and refuses every push.
func seal(ctx context.Context, old *stepEngine, q duly.QueueRef, present []string) (sealed bool, err error) {
	config, err := old.Config(ctx, q)
	if err != nil {
		return false, err
	}
	jobs := sealJobs(q, config.Shards)
	if config.Delivery == duly.DeliverPush {
		for i := range jobs {
			jobs[i].Callback = sealCallback
		}
	}

	// A queue of the same name may have had more shards, and so more seal jobs.
	for _, id := range present {
		if slices.ContainsFunc(jobs, func(j duly.Job) bool { return j.ID == id }) {
			continue
		}
		if err := old.Delete(ctx, q, id); err != nil && !errors.Is(err, duly.ErrNotFound) {
			return false, err
		}
	}

	// Pushing seal jobs again changes nothing, so an incomplete seal is completed.
	results, err := old.Push(ctx, jobs)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(results, func(r duly.PushResult) bool { return r.Err != nil }) {
		return false, nil
	}
	// The number of shards of a queue never changes. So Configure fails if the queue was created
	// again with another number.
	err = old.Configure(ctx, q, duly.QueueConfig{Shards: config.Shards, MaxJobs: config.Shards})
	// A different number of shards means that the queue was created again.
	if errors.Is(err, duly.ErrInvalid) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return isFull(ctx, old, q, config.Shards)
}

// isFull reports whether a queue has as many delayed jobs as shards, no other job, no room for more,
// and no schedule.
func isFull(ctx context.Context, e contract.Engine, q duly.QueueRef, shards int) (bool, error) {
	stats, err := e.Stats(ctx, q)
	if err != nil {
		return false, err
	}
	config, err := e.Config(ctx, q)
	full := config.Shards == shards && config.MaxJobs == shards && stats.Sizes == duly.Sizes{Delayed: int64(shards)}
	return full && stats.Schedules == 0, err
}

// completeReversal removes the seals in the pool that jobs are pushed to, once in each phase. Seals
// may be left, because a server may have crashed after it sealed a queue and before the move was
// reversed. After that it restores the settings that only the old pool has.
func (m *migratingEngine) completeReversal(ctx context.Context, namespace string) error {
	m.state.mu.Lock()
	done := m.state.reversalDone
	m.state.mu.Unlock()
	if done {
		return nil
	}

	// A seal replaces the job limit of its queue, so it is removed before the settings are
	// restored.
	err := eachName(ctx, m.new, namespace, func(q duly.QueueRef) error { return m.unseal(ctx, q) })
	if err == nil {
		err = m.restoreAllSettings(ctx, namespace)
	}
	if err == nil {
		m.state.mu.Lock()
		defer m.state.mu.Unlock()
		m.state.reversalDone = true
	}
	return err
}

// unseal removes the seal of a queue in the new pool, if it has one. The previous limit of the
// queue is in the old pool, and is read first, because while a queue of the new pool is sealed, no
// server has started to remove queues of the old one. The first seal job marks a sealed queue, so
// it is deleted last.
func (m *migratingEngine) unseal(ctx context.Context, q duly.QueueRef) error {
	before, err := m.old.Config(ctx, q)
	if err != nil {
		return err
	}
	sealed, err := isSealed(ctx, m.new, q)
	if err != nil || !sealed {
		return err
	}
	step, err := m.pools.beginStep(ctx, m.new, &m.where)
	if err != nil {
		return err
	}

	config, err := step.Config(ctx, q)
	if err != nil {
		return err
	}
	// A caller has set another limit since, so it is kept.
	if config.MaxJobs == config.Shards && before.MaxJobs != config.MaxJobs {
		if err := step.Configure(ctx, q, duly.QueueConfig{MaxJobs: before.MaxJobs}); err != nil {
			return err
		}
	}
	for _, job := range slices.Backward(sealJobs(q, duly.MaxShards)) {
		if err := step.Delete(ctx, q, job.ID); err != nil && !errors.Is(err, duly.ErrNotFound) {
			return err
		}
	}
	return nil
}

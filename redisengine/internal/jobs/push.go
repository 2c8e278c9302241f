package jobs

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Push implements duly.Engine. It plans the jobs. The scripts decide what depends on other jobs
// or on the clock.
func (e *Jobs) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	if err := contract.CheckBatch(len(jobs), contract.BodyBytes(jobs)); err != nil {
		return nil, err
	}
	if err := e.Alive(ctx); err != nil {
		return nil, err
	}

	results := make([]duly.PushResult, len(jobs))
	if len(jobs) == 0 {
		return results, nil
	}

	// The usual call needs no grouping, and no goroutine.
	if ref, one := oneQueue(jobs); one {
		g := queueJobs{ref: ref}
		g.err = e.pushQueue(ctx, jobs, g, results)
		return answers(ctx, results, &g)
	}

	groups := groupByQueue(jobs)
	if err := e.createInOrder(ctx, jobs, groups, results); err != nil {
		return nil, err
	}

	// An error of one queue is reported only for its own jobs.
	catalog.Parallel(groups, func(g *queueJobs) error {
		g.err = e.pushQueue(ctx, jobs, *g, results)
		return nil
	})

	return answers(ctx, results, groups...)
}

// answers returns the results of a call. If some jobs are stored, a failed queue or shard is
// reported at its own jobs. Otherwise the call returns the error. After the caller has left,
// answers may still arrive and are dropped.
func answers(ctx context.Context, results []duly.PushResult, groups ...*queueJobs) ([]duly.PushResult, error) {
	at := slices.IndexFunc(groups, func(g *queueJobs) bool { return g.err != nil })
	if at < 0 {
		return results, nil
	}
	// Some queues may have stored their jobs already.
	if ctx.Err() != nil && len(groups) > 1 {
		return nil, link.Partly(groups[at].err)
	}
	// After the caller has left, late answers may still be written to the results, so the results
	// are not read.
	if ctx.Err() != nil || !slices.ContainsFunc(results, func(r duly.PushResult) bool { return r.Status != 0 }) {
		return nil, groups[at].err
	}

	for _, g := range groups[at:] {
		switch {
		// Jobs that failed one by one already have their errors.
		case g.err == nil:
		case g.places == nil:
			for i := range results {
				fail(&results[i], g.err)
			}
		default:
			for _, i := range g.places {
				fail(&results[i], g.err)
			}
		}
	}

	return results, nil
}

// fail sets the error of a job that has no answer yet.
func fail(r *duly.PushResult, err error) {
	if r.Status == 0 && r.Err == nil {
		r.Err = err
	}
}

// createInOrder creates the unknown queues in the order of the jobs that need them, because a
// namespace may lack room for all. An invalid job creates no queue and gets its error here. A
// later job may give the queue a configuration that rejects it for another reason.
func (e *Jobs) createInOrder(ctx context.Context, jobs []duly.Job, groups []*queueJobs,
	results []duly.PushResult) error {
	if !slices.ContainsFunc(groups, func(g *queueJobs) bool { return e.Cache.Get(g.ref) == nil }) {
		return nil
	}

	tried := map[duly.QueueRef]bool{}
	for i := range jobs {
		ref := refOf(&jobs[i])
		if tried[ref] || e.Cache.Get(ref) != nil {
			continue
		}

		// The plan has separate results, because each job is planned again when it is pushed.
		p := newQueuePush(e, nil, jobs, make([]duly.PushResult, len(jobs)))
		p.plan([]int{i})
		if err := p.checkTTL(ctx); err != nil {
			return err
		}
		// The job is invalid, so its error is its answer.
		if len(p.items) == 0 {
			results[i] = p.results[i]
			g := groups[slices.IndexFunc(groups, func(g *queueJobs) bool { return g.ref == ref })]
			g.refused = i + 1
			continue
		}
		tried[ref] = true
		// A full namespace fails this queue's own jobs later, not the whole call.
		if _, err := e.Create(ctx, ref, p.patchForNew()); err != nil && duly.CodeOf(err) != duly.CodeFull {
			return err
		}
	}

	return nil
}

// queueJobs has the indexes of a call's jobs for one queue; nil means all.
type queueJobs struct {
	ref    duly.QueueRef
	places []int
	// refused: the jobs below this index are invalid and already have their errors.
	refused int
	err     error // the error of jobs without an answer
}

// oneQueue returns the queue if all jobs go to the same one.
func oneQueue(jobs []duly.Job) (ref duly.QueueRef, one bool) {
	ref = refOf(&jobs[0])
	for i := range jobs[1:] {
		if refOf(&jobs[i+1]) != ref {
			return ref, false
		}
	}
	return ref, true
}

func groupByQueue(jobs []duly.Job) (groups []*queueJobs) {
	for i := range jobs {
		ref := refOf(&jobs[i])
		at := slices.IndexFunc(groups, func(g *queueJobs) bool { return g.ref == ref })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &queueJobs{ref: ref})
		}
		groups[at].places = append(groups[at].places, i)
	}
	return groups
}

// pushQueue pushes the jobs of one queue, each to the shard of its ID. If a shard has another
// configuration, the answers of the other shards are kept.
func (e *Jobs) pushQueue(ctx context.Context, jobs []duly.Job, g queueJobs, results []duly.PushResult) error {
	return e.With(ctx, g.ref, func(q *catalog.Queue) error {
		p := newQueuePush(e, q, jobs, results)
		p.refused = g.refused
		p.plan(g.places)
		if len(p.items) == 0 {
			return nil
		}

		if q == nil {
			// A queue is not created for jobs that are all invalid.
			if err := p.checkTTL(ctx); err != nil || len(p.items) == 0 {
				return err
			}
			if _, err := e.Create(ctx, g.ref, p.patchForNew()); err != nil {
				return p.refuse(err)
			}
			// With then calls this function again, which plans the jobs with the new queue's
			// defaults. The jobs before the first valid one keep their errors.
			g.refused = p.items[0].place
			return catalog.ErrRetry
		}

		err := p.send(ctx)
		// Only a stale shard's jobs are sent again. Other errors end the call.
		if errors.As(err, new(*catalog.Stale)) {
			g.places = p.unanswered()
		}

		return err
	})
}

// unanswered returns the indexes of the items that no shard has answered.
func (p *queuePush) unanswered() []int {
	// An empty list, because nil would mean all.
	places := []int{}
	for i := range p.items {
		if r := &p.results[p.items[i].place]; r.Status == 0 && r.Err == nil {
			places = append(places, p.items[i].place)
		}
	}
	return places
}

// refuse sets the answers of jobs whose queue could not be created.
func (p *queuePush) refuse(err error) error {
	if duly.CodeOf(err) != duly.CodeFull {
		return err
	}
	for i := range p.items {
		p.results[p.items[i].place].Err = err
	}
	return nil
}

// sendPush returns the sender of batched pushes.
func (e *Jobs) sendPush(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		// The wait is shorter only if every job of the batch has waited before.
		waited := !slices.ContainsFunc(calls, func(c *Batched) bool { return !c.waited })
		// Most batches need no more, so the array stays on the stack.
		all := make([]*codec.CallArgs, 0, 16)
		for _, c := range calls {
			all = append(all, &c.CallArgs)
		}
		args := slices.Concat([]string{e.Clock(), q.Version, s.Limits}, codec.PushArgs(all))
		r, durable, err := e.Write(ctx, q, s, store.ScriptPush, args, waited)
		if err != nil {
			return err
		}

		// The answers give the indexes of the jobs that were not simply created.
		from, next := 0, 0
		for _, c := range calls {
			answer := BatchReply{durable: durable, from: from, items: r.Rest[next:next]}
			for next < len(r.Rest) && placeOf(&r.Rest[next]) < from+c.Items {
				next++
				answer.items = answer.items[:len(answer.items)+1]
			}
			c.Apply(answer)
			from += c.Items
		}
		return nil
	}
}

// placeOf returns the index, from 0, of the job that an answer describes.
func placeOf(answer *rueidis.RedisMessage) int {
	return int(codec.Integer(&codec.Elements(answer)[0])) - 1
}

// answered fills in the results.
func (p *queuePush) answered(items []pushItem, r BatchReply) {
	for i := range items {
		// assignIDs has set the ID.
		p.results[items[i].place].Status = duly.Created
	}

	for k := range r.items {
		item := &items[placeOf(&r.items[k])-r.from]
		answer := codec.Elements(&r.items[k])[1:]
		if codec.Text(&answer[0]) == "taken" {
			// Another job has this number: sendLeft pushes the job under a new one.
			p.results[item.place].Status = 0
			// The shards of one call are answered concurrently.
			p.mu.Lock()
			p.left = append(p.left, *item)
			p.left[len(p.left)-1].waited = link.TimedOut(r.durable)
			p.mu.Unlock()
			continue
		}
		p.results[item.place] = item.result(p.q.Ref, answer, p.cfg.MaxJobs)
	}

	if r.durable == nil {
		return
	}

	// The jobs are stored, but not confirmed, so each gets the error.
	for i := range items {
		if result := &p.results[items[i].place]; result.Err == nil {
			result.Err = r.durable
		}
	}
}

// result parses the answer for a job that was not simply created.
func (i *pushItem) result(ref duly.QueueRef, r []rueidis.RedisMessage, maxJobs int) duly.PushResult {
	switch codec.Text(&r[0]) {
	case "exists":
		return duly.PushResult{ID: i.ID, Status: duly.Exists, State: codec.State(&r[1])}
	case "merged":
		return duly.PushResult{ID: codec.JobID(&r[1], &r[2]), Status: duly.Merged}
	case "full":
		return duly.PushResult{ID: i.ID, Err: contract.QueueFull(ref, maxJobs)}
	}
	return duly.PushResult{ID: i.ID, Err: contract.EndsTooSoon(i.Planned.TTL, i.Job.TTL == 0)}
}

// send sends the items to their shards. A failed shard does not affect the answers of the others.
func (p *queuePush) send(ctx context.Context) error {
	err := p.sendItems(ctx, p.items)
	// The retry after a stale shard also plans the jobs in left again, because they have no
	// answers.
	if err != nil && ctx.Err() != nil || errors.As(err, new(*catalog.Stale)) {
		return err
	}
	return cmp.Or(err, p.sendLeft(ctx))
}

// sendLeft pushes jobs whose numbers were taken again, under new numbers.
func (p *queuePush) sendLeft(ctx context.Context) error {
	if len(p.left) == 0 {
		return nil
	}
	left := p.left
	p.left = nil
	for i := range left {
		p.renumber(&left[i])
	}
	return p.sendItems(ctx, left)
}

func (p *queuePush) sendItems(ctx context.Context, items []pushItem) error {
	if len(p.q.Shards) == 1 {
		return p.shard(ctx, p.q.Shards[0], items)
	}
	parts := map[*catalog.Shard][]pushItem{}
	for _, item := range items {
		s := p.q.Shards[contract.ShardOf(item.ID, len(p.q.Shards))]
		parts[s] = append(parts[s], item)
	}
	err := catalog.Parallel(slices.Collect(maps.Keys(parts)), func(s *catalog.Shard) error {
		return p.shard(ctx, s,
			parts[s])
	})
	if ctx.Err() != nil && len(parts) > 1 {
		// Other shards may have stored jobs, and the error replaces all results.
		return link.Partly(err)
	}
	return err
}

func (p *queuePush) shard(ctx context.Context, s *catalog.Shard, items []pushItem) error {
	j := newBatched(len(items))
	j.Apply = func(r BatchReply) { p.answered(items, r) }
	j.waited = !slices.ContainsFunc(items, func(i pushItem) bool { return !i.waited })
	j.pack(items)
	return join(ctx, &p.e.Batchers(p.q, s).Push, j)
}

// pack adds jobs to the call. The texts of all jobs share one buffer.
func (c *Batched) pack(items []pushItem) {
	size := 0
	for i := range items {
		size += codec.NumberSize + 64 + len(items[i].Job.Body)
	}
	// Jobs with headers or long keys make it grow.
	b := make([]byte, 0, size)
	for i := range items {
		b = c.Add(b, i, &items[i].PushJob)
		c.Bytes += len(items[i].Job.Body)
	}
}

package jobs

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// sendPush runs the joint push of many callers.
func (e *Jobs) sendPush(q *catalog.Queue, s *catalog.Shard) func(context.Context, []*Batched) error {
	return func(ctx context.Context, calls []*Batched) error {
		waited := !slices.ContainsFunc(calls, func(c *Batched) bool { return !c.waited })
		all := make([]*codec.CallArgs, 0, 16) // most batches need no more
		for _, c := range calls {
			all = append(all, &c.CallArgs)
		}
		args := e.batchArgs(q, calls, append([]string{s.Limits}, codec.PackPushes(all)...)...)
		for _, c := range calls {
			args = append(args, c.Bodies...)
		}
		r, durable, err := e.Write(ctx, q, s, store.ScriptPush, args, waited)
		if err != nil {
			return err
		}

		// The answers name the places of the jobs that were not simply created.
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

// placeOf is the place, from 0, of the job that an answer is about.
func placeOf(answer *rueidis.RedisMessage) int {
	return int(codec.Integer(&codec.Elements(answer)[0])) - 1
}

// batchArgs are the arguments of a joint call: clock and version, what is said
// of all calls, and what each of them adds.
func (e *Jobs) batchArgs(q *catalog.Queue, calls []*Batched, before ...string) []string {
	n := 2 + len(before)
	for _, c := range calls {
		n += len(c.Args)
	}
	args := append(append(make([]string, 0, n), e.Clock(), q.Version), before...)
	for _, c := range calls {
		args = append(args, c.Args...)
	}
	return args
}

// BatchReply is the answer to one caller's items.
type BatchReply struct {
	items   []rueidis.RedisMessage // of pushes: about the items that were not simply created
	from    int                    // of pushes: the place of the caller's first item in the call
	Lost    []int                  // of settles and deletes: the places of receipts that are not current, of IDs that are not there
	durable error                  // stored, but not confirmed
}

// answered fills in the results.
func (p *queuePush) answered(items []pushItem, r BatchReply) {
	for i := range items {
		p.results[items[i].place].Outcome = duly.Created // its ID was filled in by identify
	}
	for k := range r.items {
		item := &items[placeOf(&r.items[k])-r.from]
		answer := codec.Elements(&r.items[k])[1:]
		if codec.Text(&answer[0]) == "taken" {
			p.results[item.place].Outcome = 0
			p.mu.Lock()
			p.left = append(p.left, *item)
			p.left[len(p.left)-1].waited = link.Waited(r.durable)
			p.mu.Unlock()
			continue
		}
		p.results[item.place] = item.result(p.q.Ref, answer, p.cfg.MaxJobs)
	}
	if r.durable == nil {
		return
	}
	for i := range items {
		if result := &p.results[items[i].place]; result.Err == nil {
			result.Err = r.durable
		}
	}
}

// result reads the answer for a job that was not simply created.
func (i *pushItem) result(ref duly.QueueRef, r []rueidis.RedisMessage, maxJobs int) duly.PushResult {
	switch codec.Text(&r[0]) {
	case "exists":
		return duly.PushResult{ID: i.ID, Outcome: duly.Exists, State: codec.State(&r[1])}
	case "merged":
		return duly.PushResult{ID: codec.JobID(&r[1], &r[2]), Outcome: duly.Merged}
	case "full":
		return duly.PushResult{ID: i.ID, Err: duly.QueueFull(ref, maxJobs)}
	}
	return duly.PushResult{ID: i.ID, Err: duly.EndsTooSoon(i.Planned.TTL, i.Job.TTL == 0)}
}

package redisengine

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// sendPush runs the joint push of many callers.
func (e *Engine) sendPush(q *queue, s *shard) func(context.Context, []*batched) error {
	return func(ctx context.Context, calls []*batched) error {
		waited := !slices.ContainsFunc(calls, func(c *batched) bool { return !c.waited })
		args := e.batchArgs(q, calls, append([]string{s.limits}, packPushes(calls)...)...)
		for _, c := range calls {
			args = append(args, c.bodies...)
		}
		r, durable, err := e.write(ctx, q, s, scriptPush, args, waited)
		if err != nil {
			return err
		}

		// The answers name the places of the jobs that were not simply created.
		from, next := 0, 0
		for _, c := range calls {
			answer := batchReply{durable: durable, from: from, items: r.rest[next:next]}
			for next < len(r.rest) && placeOf(&r.rest[next]) < from+c.Items {
				next++
				answer.items = answer.items[:len(answer.items)+1]
			}
			c.answered(answer)
			from += c.Items
		}
		return nil
	}
}

// placeOf is the place, from 0, of the job that an answer is about.
func placeOf(answer *rueidis.RedisMessage) int {
	return int(integer(&elements(answer)[0])) - 1
}

// batchArgs are the arguments of a joint call: clock and version, what is said
// of all calls, and what each of them adds.
func (e *Engine) batchArgs(q *queue, calls []*batched, before ...string) []string {
	n := 2 + len(before)
	for _, c := range calls {
		n += len(c.args)
	}
	args := append(append(make([]string, 0, n), e.clock(), q.version), before...)
	for _, c := range calls {
		args = append(args, c.args...)
	}
	return args
}

// write runs a script whose answer promises durability: durable says if that is
// not confirmed. The arguments begin with clock and version. waited is
// link.Call's.
func (e *Engine) write(ctx context.Context, q *queue, s *shard, sc *script, args []string, waited bool) (r reply, durable, err error) {
	met := s.met.Load()
	msg, durable, err := e.link.RunDurable(ctx, link.Call{Script: sc.Script, Keys: s.of(sc), Args: args, Waited: waited})
	if err != nil {
		return reply{}, nil, err
	}
	r, err = e.readReply(sc.Name, s, met, &msg)
	return r, durable, err
}

// batchReply is the answer to one caller's items.
type batchReply struct {
	items   []rueidis.RedisMessage // of pushes: about the items that were not simply created
	from    int                    // of pushes: the place of the caller's first item in the call
	lost    []int                  // of settles and deletes: the places of receipts that are not current, of IDs that are not there
	durable error                  // stored, but not confirmed
}

// answered fills in the results.
func (p *pushing) answered(items []pushItem, r batchReply) {
	for i := range items {
		p.results[items[i].place].Outcome = duly.Created // its ID was filled in by identify
	}
	for k := range r.items {
		item := &items[placeOf(&r.items[k])-r.from]
		answer := elements(&r.items[k])[1:]
		if text(&answer[0]) == "taken" {
			p.results[item.place].Outcome = 0
			p.mu.Lock()
			p.left = append(p.left, *item)
			p.left[len(p.left)-1].waited = link.Waited(r.durable)
			p.mu.Unlock()
			continue
		}
		p.results[item.place] = item.result(p.q.ref, answer, p.cfg.MaxJobs)
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
	switch text(&r[0]) {
	case "exists":
		return duly.PushResult{ID: i.id, Outcome: duly.Exists, State: state(&r[1])}
	case "merged":
		return duly.PushResult{ID: jobID(&r[1], &r[2]), Outcome: duly.Merged}
	case "full":
		return duly.PushResult{ID: i.id, Err: duly.QueueFull(ref, maxJobs)}
	}
	return duly.PushResult{ID: i.id, Err: duly.EndsTooSoon(i.planned.TTL, i.job.TTL == 0)}
}

// state is a message's state; none for what is no state.
func state(m *rueidis.RedisMessage) duly.State {
	s, err := duly.ParseState(text(m))
	if err != nil {
		return duly.StateNone
	}
	return s
}

// jobID is the ID of a job with that number and own ID.
func jobID(number, own *rueidis.RedisMessage) string {
	if name := text(own); name != "" {
		return idOf(name)
	}
	var n duly.Number
	copy(n[:], text(number))
	return n.String()
}

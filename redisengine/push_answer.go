package redisengine

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// sendPush runs the joint push of jobs of any kind.
func (e *Engine) sendPush(q *queue, s *shard) func(context.Context, []*joint) error {
	return func(ctx context.Context, calls []*joint) error {
		waited := !slices.ContainsFunc(calls, func(c *joint) bool { return !c.waited })
		r, durable, err := e.write(ctx, q, s, scriptPush, e.jointArgs(q, calls, s.limits), waited)
		if err != nil {
			return err
		}
		for _, c := range calls {
			c.answered(jointReply{items: r.rest[:c.items], durable: durable})
			r.rest = r.rest[c.items:]
		}
		return nil
	}
}

// jointArgs are the arguments of a joint call: clock and version, what is said
// of all calls, and what each of them adds.
func (e *Engine) jointArgs(q *queue, calls []*joint, before ...string) []string {
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

// jointReply is the answer to one caller's items.
type jointReply struct {
	left    []bool                 // of simple pushes: the job was left; nil: none of them was
	items   []rueidis.RedisMessage // of other pushes
	lost    []int                  // of settles and deletes: the places of receipts that are not current, of IDs that are not there
	durable error                  // stored, but not confirmed
}

// answered fills in the results.
func (p *pushing) answered(items []pushItem, r jointReply) {
	for i := range items {
		item, result := &items[i], &p.results[items[i].place]
		switch {
		case r.items != nil:
			*result = item.result(p.q.ref, elements(&r.items[i]), p.cfg.MaxJobs)
		case r.left != nil && r.left[i]:
			p.mu.Lock()
			p.left = append(p.left, *item)
			p.left[len(p.left)-1].waited = link.Waited(r.durable)
			p.mu.Unlock()
		default:
			result.Outcome = duly.Created // its ID was filled in by identify
		}
		if r.durable != nil && result.Err == nil {
			result.Err = r.durable
		}
	}
}

// result reads the answer for one job.
func (i *pushItem) result(ref duly.QueueRef, r []rueidis.RedisMessage, maxJobs int) duly.PushResult {
	switch text(&r[0]) {
	case "created":
		return duly.PushResult{ID: i.id, Outcome: duly.Created}
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
func jobID(number, ownID *rueidis.RedisMessage) string {
	if id := text(ownID); id != "" {
		return id
	}
	var n duly.Number
	copy(n[:], text(number))
	return n.String()
}

package redisengine

import (
	"cmp"
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// admit begins an operation on one queue.
func (e *Engine) admit(ctx context.Context, ref duly.QueueRef) error {
	if err := ref.Validate(); err != nil {
		return err
	}
	return e.alive(ctx)
}

// byID runs a script on the shard of a job; the reply is "none" for an
// unknown queue.
func (e *Engine) byID(ctx context.Context, ref duly.QueueRef, id string, sc *script, bounded bool, args ...string) (r reply, err error) {
	if err := duly.ValidateID(id); err != nil {
		return r, err
	}
	if err := e.admit(ctx, ref); err != nil {
		return r, err
	}
	err = e.with(ctx, ref.Normal(), func(q *queue) (err error) {
		if q == nil {
			r = reply{word: "none"}
			return nil
		}
		s := q.shards[duly.ShardOf(id, len(q.shards))]
		all := []string{alias(id)}
		if bounded {
			all = []string{s.limits, alias(id)}
		}
		r, err = e.call(ctx, q, s, sc, append(all, args...)...)
		return err
	})
	return r, err
}

// Get implements duly.Inspector.
func (e *Engine) Get(ctx context.Context, ref duly.QueueRef, id string) (duly.JobInfo, error) {
	r, err := e.byID(ctx, ref, id, scriptGet, false)
	if err != nil {
		return duly.JobInfo{}, err
	}
	if r.word == "none" {
		return duly.JobInfo{}, duly.NotFound(ref, id)
	}
	t, err := readTold(ref.Normal(), &r.rest[1], true)
	if err != nil {
		return duly.JobInfo{}, err
	}
	return t.job.info(t.state, t.score, true), nil
}

// told is a job as include/report.lua has it.
type told struct {
	job   stored
	state duly.State
	score int64
}

// readTold reads a job, with its body if that was asked for.
func readTold(ref duly.QueueRef, m *rueidis.RedisMessage, body bool) (t told, err error) {
	r := elements(m)
	if len(r) < 7 {
		return t, damagedJob(ref, "")
	}
	number := text(&r[0])
	err = t.job.read(ref, number, text(&r[1]), text(&r[3]), text(&r[4]))
	if t.job.size = int(integer(&r[2])); err == nil && body && !t.job.whole() {
		err = damagedJob(ref, number)
	}
	t.state = state(&r[5])
	t.score = integer(&r[6])
	return t, err
}

// Peek implements duly.Inspector.
func (e *Engine) Peek(ctx context.Context, ref duly.QueueRef) (duly.JobInfo, error) {
	if err := e.admit(ctx, ref); err != nil {
		return duly.JobInfo{}, err
	}
	var first *told
	err := e.with(ctx, ref.Normal(), func(q *queue) error {
		first = nil
		if q == nil {
			return nil
		}
		for _, s := range q.shards {
			r, err := e.caughtUp(ctx, q, s, scriptPeek)
			if err != nil {
				return err
			}
			if r.word == "none" {
				continue
			}
			t, err := readTold(q.ref, &r.rest[1], true)
			if err != nil {
				return err
			}
			if first == nil || before(&t.job, &first.job) {
				first = &t
			}
		}
		return nil
	})
	if err != nil {
		return duly.JobInfo{}, err
	}
	if first == nil {
		return duly.JobInfo{}, duly.Errorf(duly.CodeNotFound, "no job of queue %s is ready", ref)
	}
	return first.job.info(duly.StateReady, 0, true), nil
}

// before is the order of delivery.
func before(a, b *stored) bool {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.DueAt, b.DueAt), slices.Compare(a.number[:], b.number[:])) < 0
}

// caughtUp calls a script that can't tell what holds by the clock while too
// many due jobs wait for their step, and makes those steps.
func (e *Engine) caughtUp(ctx context.Context, q *queue, s *shard, sc *script, args ...string) (reply, error) {
	for {
		r, err := e.call(ctx, q, s, sc, args...)
		if err != nil || r.word != "behind" {
			return r, err
		}
		if _, err := e.call(ctx, q, s, scriptStep, s.limits); err != nil {
			return r, err
		}
	}
}

// Config implements duly.Inspector.
func (e *Engine) Config(ctx context.Context, ref duly.QueueRef) (duly.QueueConfig, error) {
	if err := e.admit(ctx, ref); err != nil {
		return duly.QueueConfig{}, err
	}
	q, err := e.reread(ctx, ref.Normal())
	if err != nil {
		return duly.QueueConfig{}, err
	}
	if q == nil || q.gone {
		return e.queueConfig(), nil
	}
	return q.cfg, nil
}

package redisengine

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Delete implements duly.Operator. Deletes of many callers go out together.
func (e *Engine) Delete(ctx context.Context, ref duly.QueueRef, id string) error {
	if err := duly.ValidateID(id); err != nil {
		return err
	}
	if err := e.admit(ctx, ref); err != nil {
		return err
	}
	there := false
	err := e.with(ctx, ref.Normal(), func(q *queue) error {
		if q == nil {
			return nil
		}
		j := newBatched(1)
		j.args = append(j.args, alias(id))
		j.answered = func(r batchReply) { there = len(r.lost) == 0 }
		return join(ctx, &e.gear(q, q.shards[duly.ShardOf(id, len(q.shards))]).remove, j)
	})
	switch {
	case err != nil:
		return err
	case !there:
		return duly.NotFound(ref, id)
	}
	e.announce(ref.Normal(), id)
	return nil
}

// sendDelete runs the joint delete of many callers.
func (e *Engine) sendDelete(q *queue, s *shard) func(context.Context, []*batched) error {
	return func(ctx context.Context, calls []*batched) error {
		args := append(make([]string, 0, 1+len(calls)), s.limits)
		for _, c := range calls {
			args = append(args, c.args...)
		}
		r, err := e.call(ctx, q, s, scriptDelete, args...)
		if err != nil {
			return err
		}
		answerLost(calls, r.rest, nil)
		return nil
	}
}

// Promote implements duly.Operator.
func (e *Engine) Promote(ctx context.Context, ref duly.QueueRef, id string) error {
	r, err := e.byID(ctx, ref, id, scriptPromote, true)
	if err != nil {
		return err
	}
	return refusal(r, ref, id, duly.EventPromote)
}

// refusal is the error that a script's first word stands for.
func refusal(r reply, ref duly.QueueRef, id string, event duly.Event) error {
	switch r.word {
	case "none":
		return duly.NotFound(ref, id)
	case "conflict":
		s := state(&r.rest[0])
		return duly.Conflict(s, "job %q is %s and can't be changed by %s", id, s, event)
	}
	return nil
}

// Update implements duly.Operator. The job is read, changed here, and written
// if it is still as it was read.
func (e *Engine) Update(ctx context.Context, ref duly.QueueRef, id string, u duly.Update) error {
	if err := u.Validate(e.cfg.MaxBody); err != nil {
		return err
	}
	c := overtaken{e: e, ctx: ctx}
	for c.next() {
		r, err := e.byID(ctx, ref, id, scriptGet, false)
		if err != nil {
			return err
		}
		args, ttl := nothingRead, u.TTL
		if r.word != "none" {
			if args, ttl, err = updateArgs(ref, u, r.rest); err != nil {
				return err
			}
		}
		if r, err = e.byID(ctx, ref, id, scriptUpdate, true, args...); err != nil {
			return err
		}
		switch r.word {
		case "changed":
			continue
		case "ttl":
			return duly.EndsTooSoon(ttl, false)
		}
		return refusal(r, ref, id, duly.EventUpdate)
	}
	return c.over("job %q keeps changing", id)
}

// nothingRead lets the script drop a job whose time is over; one that has come
// meanwhile is read again.
var nothingRead = []string{"none", "", "", "0", "0", "", "", "", ""}

// updateArgs is the update of a job that was read, as the script takes it, and the TTL
// that the job has by it.
func updateArgs(ref duly.QueueRef, u duly.Update, r []rueidis.RedisMessage) (args []string, ttl time.Duration, err error) {
	t, err := readTold(ref.Normal(), &r[1], true)
	if err != nil {
		return nil, 0, err
	}
	fields := elements(&r[1])
	record, run := text(&fields[1]), text(&fields[4])
	if t.job.size > bigBody {
		record = record[:len(record)-t.job.size] // its body stands beside it
	}
	j := t.job.Planned
	timeless := u
	timeless.Delay, timeless.Due, timeless.TTL = nil, time.Time{}, 0
	if err := timeless.Apply(&j, time.Time{}); err != nil {
		return nil, 0, err
	}
	if u.TTL != 0 {
		j.TTL = u.TTL
	}
	own, text, body := "", "", ""
	if t.job.ownID != "" {
		own = alias(t.job.ownID)
	}
	if !isBare(&j, own) {
		text = policyOf(&j).pack()
	}
	if len(j.Body) > bigBody {
		body = string(j.Body)
	}
	when, ttlText := "", ""
	switch {
	case u.Delay != nil:
		when = strconv.FormatInt(micros(*u.Delay), 10)
	case !u.Due.IsZero():
		when = strconv.FormatInt(-max(1, clock.CeilMilli(u.Due)), 10)
	}
	if u.TTL != 0 {
		ttlText = strconv.FormatInt(microsOrNone(u.TTL), 10)
	}
	sum := sha1.Sum([]byte(record))
	return []string{
		run, hex.EncodeToString(sum[:]), text, strconv.Itoa(j.Priority),
		strconv.Itoa(int(restFlags(&j, own) &^ hasPriority)), string(appendRest(nil, &j, own)), body, when, ttlText,
	}, j.TTL, nil
}

// Purge implements duly.Operator.
func (e *Engine) Purge(ctx context.Context, ref duly.QueueRef, st duly.State, n int) (removed int, err error) {
	if err := duly.ValidatePurge(st, n); err != nil {
		return 0, err
	}
	if err := e.admit(ctx, ref); err != nil {
		return 0, err
	}
	var w walk
	err = e.with(ctx, ref.Normal(), func(q *queue) error {
		if q == nil {
			return nil
		}
		return w.each(q, 0, func(s *shard) error {
			got, err := e.purgeShard(ctx, q, s, st, n-removed, n == 0)
			removed += got
			return err
		})
	})
	if st == duly.StateLeased && removed > 0 {
		e.announce(ref.Normal())
	}
	return removed, err
}

// purgeShard removes up to n jobs of one shard, of those that are there when
// it begins; or all of these.
func (e *Engine) purgeShard(ctx context.Context, q *queue, s *shard, st duly.State, n int, all bool) (removed int, err error) {
	if all {
		n = math.MaxInt
	}
	for n > 0 {
		r, err := e.call(ctx, q, s, scriptPurge, s.limits, st.String(), strconv.Itoa(min(n, duly.MaxBatch)))
		if err != nil {
			return removed, err
		}
		got, there := int(integer(&r.rest[0])), int(integer(&r.rest[1]))
		removed += got
		if n = min(n, there) - got; got == 0 {
			break
		}
	}
	return removed, nil
}

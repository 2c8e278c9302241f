package redisengine

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// packSimple is the jobs as push_simple takes them: numbers and records, all of
// them in one piece of memory, and beside them what many jobs have in common.
func (p *pushing) packSimple(j *joint, items []pushItem, reckoned int64) {
	j.reckoned = reckoned
	size, ruled, named := 0, false, true
	for i := range items {
		size += numberSize + moments + 2 + len(items[i].job.Body)
		ruled, named = ruled || !items[i].plain, named && items[i].named
	}
	b := make([]byte, 0, size) // a guess where jobs have headers
	for i := range items {
		item := &items[i]
		job := item.job
		if item.planned != nil {
			job = &item.planned.Job
		}
		at := len(b)
		b = append(b, item.number[:]...)
		b = appendRecord(b, job, reckoned/1000, item.dueBy(reckoned))
		number, record := b[at:at+numberSize], b[at+numberSize:]
		j.bytes += len(job.Body)
		j.args = append(j.args, rueidis.BinaryString(number), rueidis.BinaryString(record))
		j.whens = append(j.whens, item.when)
		if ruled {
			j.kinds = append(j.kinds, item.kind())
		}
		if !named {
			j.ids = append(j.ids, item.ownID(), raw(item.ownID()))
		}
	}
}

// kind is what simple jobs have in common if their rules differ in moments and
// own IDs alone. A plain job's is zero.
type kind struct {
	priority, tries, maxStalls int
	backoff                    duly.Backoff
	lease, ttl, retain         time.Duration
}

func (i *pushItem) kind() kind {
	if i.plain {
		return kind{}
	}
	p := i.planned
	return kind{p.Priority, p.Tries, p.MaxStalls, p.Backoff, p.Lease, p.TTL, p.Retain}
}

// band is how far a step of the priority ranks a ready job forward, as BAND in
// include/job.lua.
const band = 1 << 42

func (k kind) pack(w *packer) {
	if k == (kind{}) {
		w.array(2)
		w.integer(duly.None)
		w.integer(0)
		return
	}
	p := duly.Planned{Job: duly.Job{
		Priority: k.priority, Tries: k.tries, MaxStalls: k.maxStalls, Backoff: k.backoff, Lease: k.lease, TTL: k.ttl, Retain: k.retain,
	}}
	w.array(5)
	w.integer(microsOrNone(k.ttl))
	w.integer(int64(k.priority) * band)
	for _, part := range []func(*packer, *duly.Planned){packBeforeExpiry, packBeforeID, packBehindID} {
		var text packer
		part(&text, &p)
		w.text(string(text))
	}
}

// packKinds is the kinds that there are among the jobs, and which of them each
// job is of. Both are empty if all jobs are plain, and the second if there is
// one kind.
func packKinds(calls []*joint) (kinds, which string) {
	if !slices.ContainsFunc(calls, func(c *joint) bool { return len(c.kinds) > 0 }) {
		return "", ""
	}
	all, places := sortKinds(calls)
	var w packer
	w.array(len(all))
	for _, k := range all {
		k.pack(&w)
	}
	if len(all) == 1 {
		return string(w), ""
	}
	var each packer
	each.array(len(places))
	for _, at := range places {
		each.integer(int64(at + 1))
	}
	return string(w), string(each)
}

// sortKinds lists the kinds, and of each job the place of its kind.
func sortKinds(calls []*joint) (all []kind, places []int) {
	known := map[kind]int{}
	for _, c := range calls {
		for i := range c.items {
			var k kind
			if len(c.kinds) > 0 {
				k = c.kinds[i]
			}
			if n := len(places); n > 0 && all[places[n-1]] == k {
				places = append(places, places[n-1])
				continue
			}
			at, met := known[k]
			if !met {
				at, known[k] = len(all), len(all)
				all = append(all, k)
			}
			places = append(places, at)
		}
	}
	return all, places
}

// packOwn is each job's own ID and the number that this would be; "" if no job
// has one.
func packOwn(calls []*joint) string {
	n := 0
	for _, c := range calls {
		n += c.items
	}
	if !slices.ContainsFunc(calls, func(c *joint) bool { return len(c.ids) > 0 }) {
		return ""
	}
	var w packer
	w.array(2 * n)
	for _, c := range calls {
		for i := range 2 * c.items {
			if len(c.ids) == 0 {
				w.text("")
			} else {
				w.text(c.ids[i])
			}
		}
	}
	return string(w)
}

// sendSimple runs the joint push of simple jobs.
func (e *Engine) sendSimple(q *queue, s *shard) func(context.Context, []*joint) error {
	return func(ctx context.Context, calls []*joint) error {
		when, whens := packWhens(calls)
		kinds, which := packKinds(calls)
		args := e.jointArgs(q, calls, packReckoned(calls), when, whens, kinds, which, packOwn(calls))
		r, durable, err := e.write(ctx, q, s, scriptPushSimple, args, false)
		if err != nil {
			return err
		}
		s.hear(e, integer(&r.rest[0]))
		answer := jointReply{durable: durable}
		left := thoseLeft(calls, r.rest[1:])
		for _, c := range calls {
			if left != nil {
				answer.left, left = left[:c.items], left[c.items:]
			}
			c.answered(answer)
		}
		return nil
	}
}

// thoseLeft tells of each item whether its place was answered; nil if none was.
func thoseLeft(calls []*joint, places []rueidis.RedisMessage) []bool {
	if len(places) == 0 {
		return nil
	}
	n := 0
	for _, c := range calls {
		n += c.items
	}
	left := make([]bool, n)
	for i := range places {
		left[integer(&places[i])-1] = true
	}
	return left
}

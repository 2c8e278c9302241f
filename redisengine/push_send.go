package redisengine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// send hands the items to their shards. One that fails does not keep the others
// from being told what is there already.
func (p *pushing) send(ctx context.Context) error {
	err := p.sendItems(ctx, p.items)
	if err != nil && ctx.Err() != nil || errors.As(err, new(*stale)) {
		return err
	}
	return cmp.Or(err, p.sendLeft(ctx))
}

// sendLeft hands over to the other script what that of simple jobs has left.
func (p *pushing) sendLeft(ctx context.Context) error {
	if len(p.left) == 0 {
		return nil
	}
	for i := range p.left {
		p.left[i].simple = false
		p.left[i].renumber()
	}
	return p.sendItems(ctx, p.left)
}

func (p *pushing) sendItems(ctx context.Context, items []pushItem) error {
	if len(p.q.shards) == 1 {
		return p.shard(ctx, p.q.shards[0], items)
	}
	parts := map[*shard][]pushItem{}
	for _, item := range items {
		s := p.q.shards[duly.ShardOf(item.id, len(p.q.shards))]
		parts[s] = append(parts[s], item)
	}
	err := sideBySide(slices.Collect(maps.Keys(parts)), func(s *shard) error { return p.shard(ctx, s, parts[s]) })
	if ctx.Err() != nil && len(parts) > 1 {
		return link.Partly(err) // the caller is told of no single job
	}
	return err
}

func (p *pushing) shard(ctx context.Context, s *shard, items []pushItem) error {
	j := newJoint(len(items))
	j.answered = func(r jointReply) { p.answered(items, r) }
	if p.q.limited() || !allSimple(items) {
		j.waited = !slices.ContainsFunc(items, func(i pushItem) bool { return !i.waited })
		p.pack(j, items)
		return p.e.gear(p.q, s).push.join(ctx, p.e, j)
	}
	p.packSimple(j, items, s.reckon(p.e))
	return p.e.gear(p.q, s).simple.join(ctx, p.e, j)
}

func allSimple(items []pushItem) bool {
	for i := range items {
		if !items[i].simple {
			return false
		}
	}
	return true
}

// pack is the jobs as push takes them.
func (p *pushing) pack(j *joint, items []pushItem) {
	for i := range items {
		item := &items[i]
		planned := p.whole(item)
		j.bytes += len(planned.Body)
		j.args = append(j.args, string(item.number[:])+string(item.fresh[:]), packTail(planned), item.head(i == 0))
	}
}

// head is what the script has to know of the job beside its record. first: it
// begins a call.
func (i *pushItem) head(first bool) string {
	var w packer
	w.array(6)
	w.text(i.id)
	w.text(raw(i.id))
	w.integer(i.when)
	w.integer(microsOrNone(i.planned.TTL))
	if ownID := i.ownID(); plain(i.planned, ownID != "") {
		w.no()
	} else {
		packRules(&w, i.planned, ownID)
	}
	begins := int64(0)
	if first {
		begins = 1
	}
	w.integer(begins)
	return string(w)
}

// holds tells whether the queue may hold back what is ready.
func (q *queue) holds() bool {
	return q.cfg.Paused || q.cfg.MaxLeased != duly.None || q.cfg.Rate.Limited()
}

// limited tells whether a push alone can't tell that its jobs are stored and
// deliverable.
func (q *queue) limited() bool { return q.holds() || q.cfg.MaxJobs != duly.None }

package redisengine

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/redisengine/internal/link"
)

// looked is what a look has told of a shard.
type looked struct {
	other       bool  // it has another configuration
	deliverable int   // how many jobs there may be
	next        int64 // the next moment that may bring one, 0 for none
	told        int64 // the moment that the server counts on being kept, 0 for none
	clock       reading
}

// keep is the moment that whoever keeps a shard's moments keeps now, 0 for none.
// No script tells of a later moment than the one that was told before that has
// passed, even if nothing is due then any more: so it is kept in any case.
func (l looked) keep() int64 {
	if l.told > l.clock.ms() && (l.next == 0 || l.told < l.next) {
		return l.told
	}
	return l.next
}

// lookCall is one request of a look, and the place of its first shard.
type lookCall struct {
	link.Call
	from, shards int
}

// look asks what a Reserve would find in shards, with one request per node (in
// a cluster, per shard), and hands over what each of them told as it comes, of
// several nodes side by side: one that does not answer keeps no other back. The
// error is of one that did not. once: a node that is not reached is not asked
// again.
func (h *hub) look(ctx context.Context, shards []*watched, once bool, heed func(at int, l looked)) error {
	asked := h.e.local().Mono() // before the clock that a test has set is read
	return sideBySide(h.lookCalls(shards, once), func(c *lookCall) error {
		msg, err := h.e.link.Run(ctx, c.Call)
		if err != nil {
			return err
		}
		for i, l := range readLooks(&msg, asked, h.e.local().Mono()) {
			heed(c.from+i, l)
		}
		return nil
	})
}

func (h *hub) lookCalls(shards []*watched, once bool) (calls []*lookCall) {
	last := ""
	for i, d := range shards {
		if i == 0 || d.group != last || calls[len(calls)-1].shards == mostLooks {
			calls = append(calls, &lookCall{Call: link.Call{Script: scriptLook.Script, Args: []string{h.e.clock()}, Once: once}, from: i})
			last = d.group
		}
		c := calls[len(calls)-1]
		for _, name := range lookKeys {
			c.Keys = append(c.Keys, d.gear.name(name))
		}
		c.Args = append(c.Args, d.q.version, d.s.limits)
		c.shards++
	}
	return calls
}

// mostLooks bounds the shards of one look.
const mostLooks = 200

func readLooks(m *rueidis.RedisMessage, asked, heard time.Duration) (all []looked) {
	items := elements(m)
	now := integer(&items[0])
	for i := range items[1:] {
		r := elements(&items[i+1])
		n := integer(&r[0])
		all = append(all, looked{other: n < 0, deliverable: int(n), next: integer(&r[1]), told: integer(&r[2]), clock: reading{now, asked, heard}})
	}
	return all
}

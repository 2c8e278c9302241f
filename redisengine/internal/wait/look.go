package wait

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// lookKeys are the keys of one shard that look reads.
var lookKeys = []string{"config", "delayed", "ready", "blocked", "leased", "expiry", "tally"}

// lookResult is what a look has told of a shard.
type lookResult struct {
	stale       bool  // it has another configuration
	deliverable int   // how many jobs there may be
	next        int64 // the next moment that may bring one, 0 for none
	announced   int64 // the moment that the server counts on being kept, 0 for none
	clock       store.Reading
}

// keepUntil is the moment that whoever keeps a shard's moments keeps now, 0 for none.
// No script tells of a later moment than the one that was told before that has
// passed, even if nothing is due then any more: so it is kept in any case.
func (l lookResult) keepUntil() int64 {
	if l.announced > l.clock.Milli() && (l.next == 0 || l.announced < l.next) {
		return l.announced
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
func (h *Hub) look(ctx context.Context, shards []*watchedShard, once bool, heed func(at int, l lookResult)) error {
	asked := h.Local().Mono() // before the clock that a test has set is read
	return catalog.Parallel(h.lookCalls(shards, once), func(c *lookCall) error {
		msg, err := h.Link.Run(ctx, c.Call)
		if err != nil {
			return err
		}
		for i, l := range readLooks(&msg, asked, h.Local().Mono()) {
			heed(c.from+i, l)
		}
		return nil
	})
}

func (h *Hub) lookCalls(shards []*watchedShard, once bool) (calls []*lookCall) {
	last := ""
	for i, d := range shards {
		if i == 0 || d.group != last || calls[len(calls)-1].shards == maxLooks {
			calls = append(calls, &lookCall{Call: link.Call{Script: store.ScriptLook.Script, Args: []string{h.Clock()}, Once: once}, from: i})
			last = d.group
		}
		c := calls[len(calls)-1]
		for _, name := range lookKeys {
			c.Keys = append(c.Keys, d.state.Name(name))
		}
		c.Args = append(c.Args, d.q.Version, d.s.Limits)
		c.shards++
	}
	return calls
}

// maxLooks bounds the shards of one look.
const maxLooks = 200

func readLooks(m *rueidis.RedisMessage, asked, heard time.Duration) (all []lookResult) {
	items := codec.Elements(m)
	now := codec.Integer(&items[0])
	for i := range items[1:] {
		r := codec.Elements(&items[i+1])
		n := codec.Integer(&r[0])
		all = append(all, lookResult{stale: n < 0, deliverable: int(n), next: codec.Integer(&r[1]), announced: codec.Integer(&r[2]), clock: store.Reading{Now: now, Sent: asked, Received: heard}})
	}
	return all
}

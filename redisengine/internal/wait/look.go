package wait

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// lookKeys are the keys of one shard that look reads.
var lookKeys = []string{"config", "delayed", "ready", "blocked", "leased", "expiry", "tally"}

// lookResult is what a look has found in a shard.
type lookResult struct {
	stale       bool  // it has another configuration
	deliverable int   // how many jobs there may be
	next        int64 // the next moment that may bring one, 0 for none
	announced   int64 // the moment that the server counts on being kept, 0 for none
	clock       store.Reading
}

// keepUntil returns the next moment that the process which keeps the shard's timer
// must keep, 0 for none. No script announces a later moment before the announced
// one has passed, even if nothing is due then any more. It is therefore kept in any
// case.
func (l lookResult) keepUntil() int64 {
	if l.announced > l.clock.Milli() && (l.next == 0 || l.announced < l.next) {
		return l.announced
	}
	return l.next
}

// lookCall asks about shards of one node, one request after the other until all have
// been looked at.
type lookCall struct {
	link.Call
	from, shards int // its first shard, and how many
}

// dropShards removes the first shards of the call, which have been looked at.
func (c *lookCall) dropShards(n int) {
	keys, args := len(c.Keys)/c.shards, (len(c.Args)-1)/c.shards
	c.Keys, c.Args = c.Keys[n*keys:], append(c.Args[:1:1], c.Args[1+n*args:]...)
	c.from, c.shards = c.from+n, c.shards-n
}

// look asks what a Reserve would find in shards. It asks the nodes (in a cluster, each
// shard) concurrently, with one request if few shards have jobs, and passes each result
// to handle as it comes: a node that does not answer delays no other. The error is of a
// node that did not answer. With once, a node that is not reached is not asked again.
func (h *Hub) look(ctx context.Context, shards []*watchedShard, once bool, handle func(at int, l lookResult)) error {
	began := h.Local().Mono() // before the clock that a test has set is read
	return catalog.Parallel(h.lookCalls(shards, once), func(c *lookCall) error {
		for asked := began; ; asked = h.Local().Mono() {
			msg, err := h.Link.Run(ctx, c.Call)
			if err != nil {
				return err
			}
			looks := readLooks(&msg, asked, h.Local().Mono())
			for i, l := range looks {
				handle(c.from+i, l)
			}
			if len(looks) == c.shards {
				return nil
			}
			c.dropShards(len(looks))
		}
	})
}

func (h *Hub) lookCalls(shards []*watchedShard, once bool) (calls []*lookCall) {
	last := ""
	for i, d := range shards {
		script, most, view := store.ScriptLook.Script, maxLooks, d.q.View
		if view != nil {
			script, most = store.ScriptGroupLook.Script, maxGroupLooks
		}
		if i == 0 || d.group != last || calls[len(calls)-1].shards == most || calls[len(calls)-1].Script != script {
			calls = append(calls, &lookCall{Call: link.Call{Script: script, Args: []string{h.Clock()}, Once: once}, from: i})
			last = d.group
		}
		c := calls[len(calls)-1]
		c.shards++
		if view != nil {
			c.Keys = append(c.Keys, store.LogKeys(store.LookKeys, d.s.Base, d.s.Tag)...)
			c.Args = append(c.Args, d.q.Version, d.s.Limits, view.Group.Name)
			continue
		}
		for _, name := range lookKeys {
			c.Keys = append(c.Keys, d.state.Name(name))
		}
		c.Args = append(c.Args, d.q.Version, d.s.Limits)
	}
	return calls
}

// How many shards a request may ask about. A shard of a queue without jobs costs the
// script little, so there may be many. One look at 200 with jobs is enough for the
// script; the caller then asks about the rest.
const (
	maxLooks      = 1000
	maxGroupLooks = 200
)

func readLooks(m *rueidis.RedisMessage, asked, heard time.Duration) (all []lookResult) {
	items := codec.Elements(m)
	now := codec.Integer(&items[0])
	for i := range items[1:] {
		r := codec.Elements(&items[i+1])
		n := codec.Integer(&r[0])
		all = append(
			all,
			lookResult{
				stale: n < 0, deliverable: int(n), next: codec.Integer(&r[1]), announced: codec.Integer(&r[2]),
				clock: store.Reading{Now: now, Sent: asked, Received: heard},
			},
		)
	}
	return all
}

// watchesOf returns a queue's shards for a look.
func (h *Hub) watchesOf(q *catalog.Queue) []*watchedShard {
	shards := make([]*watchedShard, len(q.Shards))
	for i, s := range q.Shards {
		shards[i] = h.watchOf(q, s)
	}
	return shards
}

// lookLimit bounds the wait for a node that hangs in one look at everything: the
// others are looked at no more seldom than that.
const lookLimit = 2 * store.Recheck

// lookOnce reports whether one of the queues may have a deliverable job, with one
// look at all of them.
func (h *Hub) lookOnce(ctx context.Context, doors []Door) (ready bool, err error) {
	g := h.lookAtQueues(ctx, doors, true)
	if g.err != nil && !g.ready { // no answer is "nothing" while a part of them is not known
		g = h.lookAtQueues(ctx, doors, false)
	}
	if g.ready {
		return true, nil
	}
	return false, g.err
}

// lookSummary is the result of one look at several queues.
type lookSummary struct {
	dispatcher bool // who looks

	mu       sync.Mutex
	ready    bool // one of them may have a deliverable job
	answered int  // shards
	changed  []Door
	err      error // of those that did not answer
}

// lookAtQueues looks at queues. Queues whose configuration has changed are looked
// at once more, each alone.
func (h *Hub) lookAtQueues(ctx context.Context, doors []Door, once bool) *lookSummary {
	var shards []*watchedShard
	for _, d := range doors {
		if q := h.Cache.Get(d.Ref); q != nil {
			shards = append(shards, h.watchesOf(q)...)
		}
	}

	g := &lookSummary{dispatcher: doors[0].Dispatcher}
	g.err = h.look(ctx, shards, once, func(i int, l lookResult) { g.add(shards[i].q, l) })
	for _, d := range g.changed {
		if g.ready {
			break
		}
		ready, err := h.lookAgain(ctx, d)
		g.ready = ready
		if err != nil {
			g.err = err
		}
	}

	return g
}

func (g *lookSummary) add(q *catalog.Queue, l lookResult) {
	at := Door{q.Ref, g.dispatcher}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered++
	g.ready = g.ready || l.deliverable > 0 && doorOf(q) == at
	if l.stale && !slices.Contains(g.changed, at) {
		g.changed = append(g.changed, at)
	}
}

// lookAgain looks at a queue until its shards have the configuration of this
// process.
func (h *Hub) lookAgain(ctx context.Context, at Door) (ready bool, err error) {
	err = h.With(ctx, at.Ref, func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		looks := make([]lookResult, len(q.Shards))
		if err := h.look(ctx, h.watchesOf(q), false, func(i int, l lookResult) { looks[i] = l }); err != nil {
			return err
		}
		for i, l := range looks {
			if l.stale {
				return &catalog.Stale{Shard: q.Shards[i], Value: catalog.UnknownConfig}
			}
			ready = ready || l.deliverable > 0 && doorOf(q) == at
		}
		return nil
	})
	return ready, err
}

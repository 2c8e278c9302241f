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

// lookKeys are the keys of one shard that the look script reads.
var lookKeys = []string{"config", "delayed", "ready", "blocked", "leased", "expiry", "tally", "ticks"}

// lookResult is the result of a look at one shard.
type lookResult struct {
	stale       bool  // whether the shard has another configuration
	deliverable int   // upper bound for the number of deliverable jobs
	next        int64 // next time at which a job may become deliverable, or 0
	announced   int64 // announced time for which the server expects a timer, or 0
	tickDue     bool  // whether a tick of a schedule is due
	clock       store.Reading
}

// keepUntil returns the next time for which the process with the shard's timer must set the timer,
// or 0. The announced time counts even if no job is due then any more, because no script announces
// a later time before it has passed.
func (l lookResult) keepUntil() int64 {
	if l.announced > l.clock.Milli() && (l.next == 0 || l.announced < l.next) {
		return l.announced
	}
	return l.next
}

// lookCall polls shards of one node. It makes requests until all these shards were polled.
type lookCall struct {
	link.Call
	from, shards int // index of the first shard, and the number of shards
}

// dropShards removes the first shards of the call, which were polled.
func (c *lookCall) dropShards(n int) {
	keys, args := len(c.Keys)/c.shards, (len(c.Args)-1)/c.shards
	// The sent arguments belong to the link, so the next request gets a copy.
	c.Keys, c.Args = c.Keys[n*keys:], append(c.Args[:1:1], c.Args[1+n*args:]...)
	c.from, c.shards = c.from+n, c.shards-n
}

// look polls shards for what a Reserve would find. It asks the nodes (in a cluster, each shard)
// concurrently, with one request if few shards have jobs. It passes each result to handle as it
// arrives, so a node that does not answer does not delay the others. look returns the error of one
// of the nodes that did not answer. If once is set, look does not retry an unreachable node.
func (h *Hub) look(ctx context.Context, shards []*watchedShard, once bool, handle func(at int, l lookResult)) error {
	// The time is read before the call, because a test's clock may advance during the call.
	began := h.Local().Mono()
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
			// The script stops after many busy shards, to keep its run short.
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
		// Keys of one call must be on one node and fit one script.
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

// These constants bound the shards of one request. A shard without jobs costs the script little,
// so there may be many. The script stops after 200 shards with jobs, and the caller then asks
// about the rest.
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
				// Groups have no schedules, so their answer is shorter.
				tickDue: len(r) > 3 && codec.Integer(&r[3]) == 1,
				clock:   store.Reading{Now: now, Sent: asked, Received: heard},
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

// lookLimit bounds the wait for a hung node in one look at all shards. So the other nodes are
// polled at least this often.
const lookLimit = 2 * store.Recheck

// lookOnce reports whether one of the queues may have a deliverable job, with one look at all of
// them.
func (h *Hub) lookOnce(ctx context.Context, doors []Door) (ready bool, err error) {
	g := h.lookAtQueues(ctx, doors, true)
	// While a part is unknown, the answer can't be false, so that part is retried.
	if g.err != nil && !g.ready {
		g = h.lookAtQueues(ctx, doors, false)
	}
	if g.ready {
		return true, nil
	}
	return false, g.err
}

// lookSummary is the result of one look at several queues.
type lookSummary struct {
	dispatcher bool // whether the caller is a dispatcher

	mu       sync.Mutex
	ready    bool // whether one of the queues may have a deliverable job
	answered int  // number of shards that have answered
	changed  []Door
	err      error // error of a shard that did not answer
}

// lookAtQueues looks at queues. It looks once more at queues whose configuration has changed, one
// at a time.
func (h *Hub) lookAtQueues(ctx context.Context, doors []Door, once bool) *lookSummary {
	var shards []*watchedShard
	for _, d := range doors {
		if q := h.Cache.Get(d.Ref); q != nil {
			shards = append(shards, h.watchesOf(q)...)
		}
	}

	g := &lookSummary{dispatcher: doors[0].Dispatcher}
	g.err = h.look(ctx, shards, once, func(i int, l lookResult) {
		// A due tick wakes a waiter as a job does: its Reserve waits until the tick is fired.
		if h.startTicks(shards[i], l) {
			l.deliverable = max(l.deliverable, 1)
		}
		g.add(shards[i].q, l)
	})
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

// startTicks fires due ticks that a look has found. It reports whether that goes on.
func (h *Hub) startTicks(d *watchedShard, l lookResult) bool {
	return l.tickDue && h.Ticks.Start(catalog.ShardRef{Ref: d.q.Ref, Index: d.s.Index})
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

// lookAgain looks at a queue until its shards have the configuration of this process.
func (h *Hub) lookAgain(ctx context.Context, at Door) (ready bool, err error) {
	err = h.With(ctx, at.Ref, func(q *catalog.Queue) error {
		if q == nil {
			return nil
		}
		looks, shards := make([]lookResult, len(q.Shards)), h.watchesOf(q)
		if err := h.look(ctx, shards, false, func(i int, l lookResult) { looks[i] = l }); err != nil {
			return err
		}
		for i, l := range looks {
			// With then updates the shard to the current configuration and retries.
			if l.stale {
				return &catalog.Stale{Shard: q.Shards[i], Value: catalog.UnknownConfig}
			}
			// A due tick counts as a job here, too.
			due := h.startTicks(shards[i], l)
			ready = ready || (l.deliverable > 0 || due) && doorOf(q) == at
		}
		return nil
	})
	return ready, err
}

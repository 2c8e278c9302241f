package wait

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/waiters"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Hub holds the waiters of an engine and wakes them. It runs one watcher per group
// of keys that one blocking call can have, and only while somebody waits.
type Hub struct {
	*catalog.Catalog
	mu          sync.Mutex
	views       map[Door]*waitedQueue
	watches     map[string]*watcher      // by group
	watched     map[string]*watchedShard // by the name of the marker
	waiters     waiters.Registry[Door]
	guesses     int                  // views with a guess
	dueTimers   map[string]*dueTimer // that are kept, by the name of the marker
	leaseTimers map[*catalog.Shard]*leaseTimer
	tick        clock.Timer
	// expiryTimer fires when a wake-up expires.
	expiryTimer clock.Timer
	recheck     time.Duration // a test may switch the look off by it
	closed      bool
	ctx         context.Context // ends with the hub
	end         context.CancelFunc
	// Busy counts what is on its way inside the hub: a test that owns the
	// clock waits for 0.
	busy activity
}

// Door is one of the two ways into a queue: callers that take jobs for themselves stand
// at one, dispatchers at the other. A queue has jobs at one of them; at the other it
// looks as if it did not exist.
type Door struct {
	Ref        duly.QueueRef
	Dispatcher bool
}

// doorOf returns the door at which a queue has jobs.
func doorOf(q *catalog.Queue) Door { return Door{q.Ref, q.Dispatched()} }

// waitedQueue is a door of a queue that somebody waits at.
type waitedQueue struct {
	door  Door
	q     *catalog.Queue // nil while it is unknown, or has no jobs at this door
	guess *catalog.Queue // what it may be while it is unknown; nil: many are guessed at already
	// quiet is set after a look or a Reserve that found nothing, while the
	// queue was watched. A marker or a timer says when that may have changed.
	quiet bool
}

// waiter is one Wait under way. A wake-up's tag is the shard that it was for.
type waiter = waiters.Waiter[Door]

// New returns the hub of a catalog. The catalog calls it when a configuration was
// read.
func New(c *catalog.Catalog) *Hub {
	h := &Hub{
		Catalog: c, views: map[Door]*waitedQueue{}, watches: map[string]*watcher{}, watched: map[string]*watchedShard{},
		dueTimers: map[string]*dueTimer{}, leaseTimers: map[*catalog.Shard]*leaseTimer{}, recheck: store.Recheck,
	}
	h.waiters.Life, h.waiters.Emptied = WakeupLife, h.removeQueue
	h.ctx, h.end = c.Quit, c.Stop
	c.OnChange = h.queueChanged
	return h
}

// Probe returns the hub's probe.
func (h *Hub) Probe() Probe { return Probe{h} }

// Enter adds a waiter to its queues. It returns the queues that must be looked at
// before the waiter may sleep.
func (h *Hub) Enter(doors []Door) (w *waiter, unsure []Door) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w = h.waiters.Add(doors...)
	if h.closed {
		return w, nil
	}

	for _, d := range doors {
		v := h.views[d]
		if v == nil {
			v = &waitedQueue{door: d}
			h.views[d] = v
		}
		h.setQueue(v, h.Cache.Get(d.Ref))
		if v.q != nil && v.q.TakeEmptied(h.Local().Mono()) {
			v.quiet = true
		}
		if !v.quiet {
			unsure = append(unsure, d)
		}
	}
	return w, unsure
}

// setQueue stores what is known of a queue and watches its shards, unless it has its
// jobs at the other door: a marker that is taken here would wake nobody there.
func (h *Hub) setQueue(v *waitedQueue, q *catalog.Queue) {
	guess := q == nil && !v.door.Dispatcher && !v.door.Ref.IsGroup()
	if q != nil && doorOf(q) != v.door {
		q = nil
	}
	if v.q == q && (q != nil || v.guess != nil && guess) {
		return
	}
	h.unwatch(v)
	h.unguess(v)
	if guess && h.guesses < MaxGuesses {
		v.guess = h.guess(v.door.Ref)
		h.guesses++
	}
	v.q, v.quiet = q, false
	h.watch(v)
}

// MaxGuesses bounds the unknown queues whose markers are watched: in a cluster each
// costs a connection, and a caller can wait for any name. The others are found by
// the look.
const MaxGuesses = 100

// guessed is the version of a queue that is guessed. No shard has it.
const guessed = "?"

// guess returns the queue that a push of this process would create. The markers of
// its shards have the names that they will have then, so that the first job wakes
// callers that waited before.
func (h *Hub) guess(ref duly.QueueRef) *catalog.Queue {
	q := &catalog.Queue{Ref: ref, Config: h.QueueConfig(), Version: guessed}
	q.Shards = make([]*catalog.Shard, q.Config.Shards)
	for i := range q.Shards {
		q.Shards[i] = &catalog.Shard{Index: i, Tag: store.ShardTag(h.Prefix, ref, i)}
	}
	return q
}

func (h *Hub) unguess(v *waitedQueue) {
	if v.guess != nil {
		v.guess = nil
		h.guesses--
	}
}

// watches returns the queue whose markers are watched, nil for none.
func (v *waitedQueue) watches() *catalog.Queue {
	if v.q == nil {
		return v.guess
	}
	return v.q
}

// Leave removes a waiter from its queues and reports whether it was woken.
func (h *Hub) Leave(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters.Remove(w)
}

// removeQueue forgets a queue without waiters. The caller holds the lock.
func (h *Hub) removeQueue(d Door) {
	v := h.views[d]
	h.unwatch(v)
	h.unguess(v)
	delete(h.views, d)
}

// Go runs f on a goroutine, unless the hub is closed. While the lock is held and
// the hub is open, the engine does not end either.
func (h *Hub) Go(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.goLocked(f)
	}
}

// goLocked is Go for a caller that holds the lock and has seen that the hub is
// open.
func (h *Hub) goLocked(f func()) {
	h.busy.begin()
	h.Tasks.Go(func() {
		defer h.busy.end()
		f()
	})
}

// PutMarker gives a marker back that was taken here. If that fails, the next look
// of any process finds what it stood for.
func (h *Hub) PutMarker(s *catalog.Shard, member string, score int64) {
	h.putMarkerBack(s.Name("marker"), member, score)
}

// setQuiet notes that a look at queues found nothing.
func (h *Hub) setQuiet(doors []Door) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range doors {
		if v := h.views[d]; v != nil && v.q != nil {
			v.quiet = true
		}
	}
}

// queueChanged notes that this process has read a configuration. It uses the cached
// one, because concurrent callers may come in any order.
func (h *Hub) queueChanged(q *catalog.Queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.Topic != nil {
		h.topicChanged(q.Ref)
		return
	}
	best := h.Cache.Get(q.Ref)
	for _, d := range []Door{{q.Ref, false}, {q.Ref, true}} {
		if v := h.views[d]; v != nil && best != nil {
			h.setQueue(v, best)
		}
	}
}

// topicChanged notes another configuration of the groups of a topic. The waiters of a
// group that is gone wake, so that they find that out. The caller holds the lock.
func (h *Hub) topicChanged(topic duly.QueueRef) {
	for d, v := range h.views {
		if of, _, ok := d.Ref.Group(); !ok || of != topic {
			continue
		}
		was := v.q
		if h.setQueue(v, h.Cache.Get(d.Ref)); v.q == nil && was != nil {
			h.waiters.Wake(d, 0, h.waiters.Waiting(d), h.Local().Mono())
		}
	}
}

// Close ends every Wait and every watcher.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	wakeups := h.waiters.Close()
	for _, k := range h.leaseTimers {
		k.timer.Stop()
	}

	for _, timer := range []clock.Timer{h.tick, h.expiryTimer} {
		if timer != nil {
			timer.Stop()
		}
	}

	moments := slices.Collect(maps.Values(h.dueTimers))
	clear(h.dueTimers)
	for _, m := range moments {
		m.timer.Stop()
	}

	h.mu.Unlock()
	h.end()
	h.handOver(moments, wakeups)
}

// handOver lets other processes keep the due timers, and reserve for the waiters
// that were woken and have not. It is one request with a deadline of its own, so
// that a server that is down does not delay Close.
func (h *Hub) handOver(moments []*dueTimer, wakeups []wakeup) {
	var calls []link.Call
	for _, m := range moments {
		calls = append(calls, markerCall(m.s.Name("marker"), "later", m.at))
	}
	for _, w := range wakeups {
		if s := h.Cache.Get(w.Key.Ref).Shard(w.Tag); s != nil {
			calls = append(calls, markerCall(s.Name("marker"), "now", 1))
		}
	}
	ctx, cancel := context.WithTimeout(h.Store.Ctx, min(lookLimit, h.Link.Options().Retry))
	defer cancel()
	h.Link.RunAll(ctx, calls)
}

// Wait implements Wait of duly.Engine. Nothing is leased for a waiter.
func (h *Hub) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := p.Validate(); err != nil {
		return false, err
	}
	if err := h.Alive(ctx); err != nil {
		return false, err
	}

	h.busy.begin() // until the waiter sleeps, and again once it is woken
	defer h.busy.end()
	doors := make([]Door, len(p.Queues))
	for i, name := range p.Queues {
		ref := duly.QueueRef{Namespace: p.Namespace, Name: name}.Normal()
		doors[i] = Door{ref, p.Dispatcher}
		q, err := h.Find(ctx, ref)
		switch {
		case err != nil:
			return false, err
		case q == nil && ref.IsGroup():
			return false, h.Unknown(ctx, ref)
		case q != nil && q.Topic != nil:
			return false, duly.IsTopic(ref)
		}
	}

	if p.Timeout == 0 {
		return h.lookOnce(ctx, doors)
	}

	w, unsure := h.Enter(doors)
	defer h.Leave(w)
	if len(unsure) > 0 { // after entering, so that nothing is missed in between
		ready, err := h.firstLook(ctx, unsure)
		if err != nil {
			h.leaveGone(w) // it may have been woken meanwhile, and nobody will reserve for that
			return false, err
		}
		if ready {
			return true, nil
		}
	}

	return h.await(ctx, w, p.Timeout)
}

// firstLook reports whether a queue has deliverable jobs before the waiter sleeps.
// If a part of the queues was not reached, the waiter sleeps: that part is looked
// at again every two seconds, and the rest may bring something meanwhile.
func (h *Hub) firstLook(ctx context.Context, doors []Door) (ready bool, err error) {
	g := h.lookAtQueues(ctx, doors, true)
	if g.err != nil && !g.ready && g.answered == 0 {
		g = h.lookAtQueues(ctx, doors, false)
	}
	switch {
	case g.ready:
		return true, nil
	case g.err == nil:
		h.setQuiet(doors)
	case g.answered == 0 || duly.CodeOf(g.err) != duly.CodeUnavailable:
		return false, g.err
	}
	return false, nil
}

func (h *Hub) await(ctx context.Context, w *waiter, d time.Duration) (bool, error) {
	h.busy.end()
	w.Wait(ctx, h.Local(), d)
	h.busy.begin()
	if ctx.Err() != nil {
		h.leaveGone(w)
		return false, ctx.Err()
	}
	if h.Closing.Load() {
		return false, duly.ErrClosed
	}
	return h.Leave(w), nil
}

// WakeupLife is how long a woken caller has until its Reserve. The Reserve may come
// from another process, as with a client of a server, or never.
const WakeupLife = 100 * time.Millisecond

// wakeup is a waiter that was woken for a shard and has not reserved yet.
type wakeup = waiters.Wakeup[Door]

// leaveGone removes a waiter whose caller has gone. If it was woken, another one is
// woken in its place.
func (h *Hub) leaveGone(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wakeup, woken := h.waiters.Leave(w); woken && !h.closed { // else its wake-up has been handed on
		h.goLocked(func() { h.WakeAnother(wakeup.Key, wakeup.Tag) })
	}
}

// PassOn wakes other waiters in place of a caller that leaves without having asked
// the queues, although it may be the one that was woken for them.
func (h *Hub) PassOn(namespace string, queues []string, dispatcher bool) {
	for _, name := range queues {
		h.passOnQueue(Door{duly.QueueRef{Namespace: namespace, Name: name}.Normal(), dispatcher})
	}
}

// passOnQueue takes a wake-up and acts on it under one lock: an engine that is
// closed in between would lose it.
func (h *Hub) passOnQueue(d Door) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if shard, woken := h.waiters.Arrive(d); woken && !h.closed {
		h.goLocked(func() { h.WakeAnother(d, shard) })
	}
}

// WakeAnother wakes one waiter more for a shard than are on their way to it.
func (h *Hub) WakeAnother(d Door, shard int) {
	h.mu.Lock()
	n := 1 + h.waiters.Outstanding(d, shard)
	h.mu.Unlock()
	if q := h.Cache.Get(d.Ref); q != nil && shard < len(q.Shards) && !h.wake(d, shard, n) {
		h.PutMarker(q.Shards[shard], "now", 1)
	}
}

// wake wakes waiters for the deliverable jobs of a shard, less those that are on
// their way already. It returns false if nobody waits here.
func (h *Hub) wake(d Door, shard, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[d]
	if v == nil {
		return false
	}
	v.quiet = false
	h.waiters.Wake(d, shard, n, h.Local().Mono())
	if _, outstanding := h.waiters.NextExpiry(d); outstanding {
		h.startExpiryTimer()
	}
	return true
}

// startExpiryTimer starts the timer for the next wake-up that expires, if none
// runs. The caller holds the lock.
func (h *Hub) startExpiryTimer() {
	if h.expiryTimer == nil && !h.closed {
		h.expiryTimer = h.Local().AfterFunc(WakeupLife, h.recheckExpired)
	}
}

// recheckExpired looks at the shards whose woken waiters did not reserve.
func (h *Hub) recheckExpired() {
	h.Go(func() {
		shards := h.expiredShards()
		ctx, cancel := context.WithTimeout(h.ctx, lookLimit)
		defer cancel()
		// Where it fails, the tick looks.
		_ = h.look(ctx, shards, true, func(i int, l lookResult) {
			d, n := shards[i], l.deliverable
			if l.stale { // how many there are it does not tell, and the next look will
				h.refresh(ctx, d.q.Ref)
				n = 1
			}
			if n > 0 && !h.wake(doorOf(d.q), d.s.Index, n) {
				h.PutMarker(d.s, "now", int64(n))
			}
		})
	})
}

// expiredShards forgets expired wake-ups and returns their shards, group by group.
func (h *Hub) expiredShards() (shards []*watchedShard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expiryTimer = nil
	expired, more := h.waiters.Expire(h.Local().Mono())
	if more {
		h.startExpiryTimer()
	}
	for _, w := range expired {
		q := h.Cache.Get(w.Key.Ref)
		if s := q.Shard(w.Tag); s != nil {
			shards = append(shards, h.watchOf(q, s))
		}
	}
	slices.SortFunc(shards, func(a, b *watchedShard) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.s.Name("marker"), b.s.Name("marker")))
	})
	return slices.CompactFunc(shards, func(a, b *watchedShard) bool { return a.s == b.s })
}

// Arrive notes a Reserve of a queue. It returns the shard that a waiter was woken
// for.
func (h *Hub) Arrive(d Door) (shard int, woken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters.Arrive(d)
}

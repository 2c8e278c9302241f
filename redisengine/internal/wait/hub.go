package wait

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/waiters"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Hub is who waits for which queue. Per group of keys that may stand in one
// blocking call it runs one watch, and that only while somebody waits.
type Hub struct {
	*catalog.Catalog
	Mu          sync.Mutex
	Views       map[duly.QueueRef]*waitedQueue
	Watches     map[string]*watcher      // by group
	Watched     map[string]*watchedShard // by the name of the marker
	Waiters     waiters.Registry[duly.QueueRef]
	Guesses     int                  // views with a guess
	DueTimers   map[string]*dueTimer // that are kept, by the name of the marker
	leaseTimers map[*catalog.Shard]*leaseTimer
	tick        clock.Timer
	// expiryTimer is the timer after which those who were woken should have come.
	expiryTimer clock.Timer
	Recheck     time.Duration // a test may switch the look off by it
	closed      bool
	ctx         context.Context // ends with the hub
	end         context.CancelFunc
	// Busy counts what is on its way inside the hub: a test that owns the
	// clock waits for 0.
	Busy Activity
}

// waitedQueue is a queue that somebody waits for.
type waitedQueue struct {
	Ref   duly.QueueRef
	Q     *catalog.Queue // nil while it is unknown
	guess *catalog.Queue // what it may be while it is unknown; nil: many are guessed at already
	// Quiet: it was looked at while it was watched, or reserved from just
	// before, and nothing was deliverable; a marker or a moment says when that
	// may have changed.
	Quiet bool
}

// waiter is one Wait under way. A wake-up's tag is the shard that it was for.
type waiter = waiters.Waiter[duly.QueueRef]

// New returns the hub of a catalog, which it tells when it reads a configuration.
func New(c *catalog.Catalog) *Hub {
	h := &Hub{
		Catalog: c, Views: map[duly.QueueRef]*waitedQueue{}, Watches: map[string]*watcher{}, Watched: map[string]*watchedShard{},
		DueTimers: map[string]*dueTimer{}, leaseTimers: map[*catalog.Shard]*leaseTimer{}, Recheck: store.Recheck,
	}
	h.Waiters.Life, h.Waiters.Emptied = WakeupLife, h.removeView
	h.ctx, h.end = c.Quit, c.Stop
	c.OnChange = h.queueChanged
	return h
}

// Enter adds a waiter to its queues, and tells which of them have to be looked
// at before it may sleep.
func (h *Hub) Enter(refs []duly.QueueRef) (w *waiter, unsure []duly.QueueRef) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	w = h.Waiters.Add(refs...)
	if h.closed {
		return w, nil
	}

	for _, ref := range refs {
		v := h.Views[ref]
		if v == nil {
			v = &waitedQueue{Ref: ref}
			h.Views[ref] = v
		}
		h.setQueue(v, h.Cache.Get(ref))
		if v.Q != nil && v.Q.TakeEmptied(h.Local().Mono()) {
			v.Quiet = true
		}
		if !v.Quiet {
			unsure = append(unsure, ref)
		}
	}
	return w, unsure
}

// setQueue takes over what is known of a view's queue and watches its shards.
func (h *Hub) setQueue(v *waitedQueue, q *catalog.Queue) {
	if v.Q == q && (q != nil || v.guess != nil) {
		return
	}
	h.unwatch(v)
	h.unguess(v)
	if q == nil && h.Guesses < MaxGuesses {
		v.guess = h.guess(v.Ref)
		h.Guesses++
	}
	v.Q, v.Quiet = q, false
	h.watch(v)
}

// MaxGuesses bounds the unknown queues whose markers are watched: in a cluster
// each costs a connection, and whoever may wait can wait for any name. The others
// are heard of by the look.
const MaxGuesses = 100

// guessed is the version of a queue that is guessed. No shard has it.
const guessed = "?"

// guess is what a queue will be if somebody with the settings of this process
// makes it. Its shards' markers have the names that they will have then, so that
// the first job wakes who waited before there was a queue.
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
		h.Guesses--
	}
}

// watches is the queue whose markers are watched for a view, nil for none.
func (v *waitedQueue) watches() *catalog.Queue {
	if v.Q == nil {
		return v.guess
	}
	return v.Q
}

// Leave takes a waiter out of its queues and tells whether it was woken.
func (h *Hub) Leave(w *waiter) bool {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.Waiters.Remove(w)
}

// removeView forgets a queue that nobody waits for any more. The caller holds the
// lock.
func (h *Hub) removeView(ref duly.QueueRef) {
	v := h.Views[ref]
	h.unwatch(v)
	h.unguess(v)
	delete(h.Views, ref)
}

// Go does something beside, unless the hub is closed. While the lock is held
// and it is not, the engine does not end either.
func (h *Hub) Go(f func()) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if !h.closed {
		h.goLocked(f)
	}
}

// goLocked is spawn for who holds the lock, and has seen that the hub is not closed.
func (h *Hub) goLocked(f func()) {
	h.Busy.begin()
	h.Tasks.Go(func() {
		defer h.Busy.end()
		f()
	})
}

// PutMarker gives a marker back that was taken here. If that fails, the next look
// of somebody finds what it stood for.
func (h *Hub) PutMarker(s *catalog.Shard, member string, score int64) {
	h.putMarkerBack(s.Name("marker"), member, score)
}

// setQuiet notes that queues were looked at and had nothing.
func (h *Hub) setQuiet(refs []duly.QueueRef) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for _, ref := range refs {
		if v := h.Views[ref]; v != nil && v.Q != nil {
			v.Quiet = true
		}
	}
}

// queueChanged tells of a queue that was made or changed in this process. Of
// several who tell at once the last one may not be the one who knows best.
func (h *Hub) queueChanged(q *catalog.Queue) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	v := h.Views[q.Ref]
	if best := h.Cache.Get(q.Ref); v != nil && best != nil {
		h.setQueue(v, best)
	}
}

// Close ends every Wait and every watch.
func (h *Hub) Close() {
	h.Mu.Lock()
	h.closed = true
	wakeups := h.Waiters.Close()
	for _, k := range h.leaseTimers {
		k.timer.Stop()
	}
	for _, timer := range []clock.Timer{h.tick, h.expiryTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	moments := slices.Collect(maps.Values(h.DueTimers))
	clear(h.DueTimers)
	for _, m := range moments {
		m.Timer.Stop()
	}
	h.Mu.Unlock()
	h.end()
	h.handOver(moments, wakeups)
}

// handOver lets others keep the moments, and reserve for those who were woken and
// have not. One request for all of them, with an end of its own: a server that
// is down holds up no Close for longer.
func (h *Hub) handOver(moments []*dueTimer, wakeups []wakeup) {
	var calls []link.Call
	for _, m := range moments {
		calls = append(calls, markerCall(m.s.Name("marker"), "later", m.At))
	}
	for _, w := range wakeups {
		if s := h.Cache.Get(w.Key).Shard(w.Tag); s != nil {
			calls = append(calls, markerCall(s.Name("marker"), "now", 1))
		}
	}
	ctx, cancel := context.WithTimeout(h.Store.Ctx, min(lookLimit, h.Link.Options().Retry))
	defer cancel()
	h.Link.RunAll(ctx, calls)
}

// Activity counts what is under way.
type Activity struct {
	Mu   sync.Mutex
	N    int
	All  uint64        // that ever began
	Idle chan struct{} // closed at 0, if somebody waits for it
}

func (a *Activity) begin() {
	a.Mu.Lock()
	a.N++
	a.All++
	a.Mu.Unlock()
}

func (a *Activity) end() {
	a.Mu.Lock()
	if a.N--; a.N == 0 && a.Idle != nil {
		close(a.Idle)
		a.Idle = nil
	}
	a.Mu.Unlock()
}

package wait

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// New returns the hub of a catalog. The catalog notifies the hub of every configuration that it
// reads.
func New(c *catalog.Catalog) *Hub {
	h := &Hub{
		Catalog: c, later: map[laterKey]*laterWake{}, views: map[Door]*waitedQueue{}, watches: map[string]*watcher{},
		watched:   map[string]*watchedShard{},
		dueTimers: map[string]*dueTimer{}, leaseTimers: map[*catalog.Shard]*leaseTimer{}, recheck: store.Recheck,
	}
	h.waiters.Life, h.waiters.Emptied = WakeupLife, h.removeQueue
	h.ctx, h.end = c.Quit, c.Stop
	c.OnChange = h.queueChanged
	return h
}

// Wait implements Wait of duly.Engine. It reserves no job for the waiter.
func (h *Hub) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := contract.ValidateWait(&p); err != nil {
		return false, err
	}
	if err := h.Alive(ctx); err != nil {
		return false, err
	}

	// The wait counts as busy until the waiter sleeps, and again after it is woken.
	h.busy.begin()
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
			return false, contract.IsTopic(ref)
		}
	}

	// A poll needs no waiter, and no marker.
	if p.Timeout == 0 {
		return h.lookOnce(ctx, doors)
	}

	w, unsure := h.Enter(doors)
	defer h.Leave(w)
	// Polling after entering misses no job in between.
	if len(unsure) > 0 {
		ready, err := h.firstLook(ctx, unsure)
		if err != nil {
			// The waiter may have been woken since. Its caller will not reserve, so another waiter
			// must be woken.
			h.leaveGone(w)
			return false, err
		}
		if ready {
			h.rest(ctx, doors)
			return true, nil
		}
	}

	return h.await(ctx, w, p.Timeout)
}

// firstLook reports whether a queue has deliverable jobs before the waiter sleeps. If some shards
// were unreachable, the waiter sleeps anyway. These shards are polled again every two seconds, and
// the other shards may get jobs before.
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
	// Close also ends this wait, but without a job.
	if h.Closing.Load() {
		return false, duly.ErrClosed
	}
	return h.Leave(w), nil
}

// Enter adds a waiter to its queues. It returns the queues that must be polled before the waiter
// may sleep.
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
		// A Reserve that left no job has just polled all shards.
		if v.q != nil && v.q.TakeEmptied(h.Local().Mono()) {
			v.quiet = true
		}
		if !v.quiet {
			unsure = append(unsure, d)
		}
	}
	return w, unsure
}

// Leave removes a waiter from its queues and reports whether it was woken.
func (h *Hub) Leave(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters.Remove(w)
}

// leaveGone removes a waiter whose caller has left. If it was woken, another waiter is woken in its
// place.
func (h *Hub) leaveGone(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// If the hub is closed, Close has passed the wake-up on.
	if wakeup, woken := h.waiters.Leave(w); woken && !h.closed {
		h.goLocked(func() { h.WakeAnother(wakeup.Key, wakeup.Tag) })
	}
}

// Arrive records a Reserve of a queue. It returns the shard that a waiter was woken for.
func (h *Hub) Arrive(d Door) (shard int, woken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters.Arrive(d)
}

// PassOn wakes other waiters in place of a caller that leaves without a Reserve of the queues,
// because it may have been woken for them.
func (h *Hub) PassOn(namespace string, queues []string, dispatcher bool) {
	for _, name := range queues {
		h.passOnQueue(Door{duly.QueueRef{Namespace: namespace, Name: name}.Normal(), dispatcher})
	}
}

// passOnQueue removes a wake-up and wakes another waiter under one lock. If the engine were closed
// in between, the wake-up would be lost.
func (h *Hub) passOnQueue(d Door) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if shard, woken := h.waiters.Arrive(d); woken && !h.closed {
		h.goLocked(func() { h.WakeAnother(d, shard) })
	}
}

// setQueue sets the configuration of a waited queue and watches its shards. It does not watch a
// queue that has its jobs at the other door, because the marker would not reach the waiters there.
func (h *Hub) setQueue(v *waitedQueue, q *catalog.Queue) {
	guess := q == nil && !v.door.Dispatcher && !v.door.Ref.IsGroup()
	if q != nil && doorOf(q) != v.door {
		q = nil
	}
	// The queue is unchanged, so the hub already watches the right shards.
	if v.q == q && (q != nil || v.guess != nil && guess) {
		return
	}
	// unwatch and unguess need the old queue, so they come before the change.
	h.unwatch(v)
	h.unguess(v)
	if guess && h.guesses < MaxGuesses {
		v.guess = h.guess(v.door.Ref)
		h.guesses++
	}
	v.q, v.quiet = q, false
	h.watch(v)
}

// MaxGuesses bounds the unknown queues whose markers are watched. In a cluster each of them costs a
// connection, and a caller can wait for any name. The poll every two seconds finds further queues.
const MaxGuesses = 100

// guess returns the queue that a push of this process would create. Its markers have the names of
// the future queue's markers, so the first job wakes callers that waited before.
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

// removeQueue drops a queue without waiters. The caller holds the lock.
func (h *Hub) removeQueue(d Door) {
	v := h.views[d]
	h.unwatch(v)
	h.unguess(v)
	delete(h.views, d)
}

// queueChanged handles a configuration that this process has read. It uses the cached
// configuration, because concurrent calls may come in any order.
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

// topicChanged handles another configuration of a topic's groups. The waiters of a removed group
// wake, so that their callers get the error. The caller holds the lock.
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
	// The collected wake-ups and timers are handed to other processes below, without the lock.
	wakeups := append(h.waiters.Close(), h.stopLater()...)
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

// handOver passes the due timers, and the wake-ups of waiters that did not reserve, to other
// processes. It makes one request with a separate deadline, so that a server that is down does not
// delay Close.
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

// setQuiet records that a look at queues found no job.
func (h *Hub) setQuiet(doors []Door) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range doors {
		// The markers of an unknown queue may not be watched, so the queue is never quiet.
		if v := h.views[d]; v != nil && v.q != nil {
			v.quiet = true
		}
	}
}

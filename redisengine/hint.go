package redisengine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/waiters"
)

// wakeupLife is how long somebody who was woken is on the way to a Reserve. That
// may come from another process, as a server's client does, or never.
const wakeupLife = 100 * time.Millisecond

// wakeup is a waiter that was woken for a shard and has not reserved yet.
type wakeup = waiters.Wakeup[duly.QueueRef]

// passOn takes out a waiter whose caller has gone. If it was woken, nobody will
// reserve what it was woken for: another one is woken in its place.
func (h *hub) passOn(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wakeup, woken := h.waiters.Leave(w); woken && !h.closed { // else its wake-up has been handed on
		h.begin(func() { h.instead(wakeup.Key, wakeup.Tag) })
	}
}

// pass wakes others in the place of a caller that leaves without having asked
// the queues, although it may be the one that was woken for one of them.
func (h *hub) pass(namespace string, queues []string) {
	for _, name := range queues {
		h.passOne(duly.QueueRef{Namespace: namespace, Name: name}.Normal())
	}
}

// passOne takes a wake-up and begins to act on it in one: an engine that is closed
// in between would do neither.
func (h *hub) passOne(ref duly.QueueRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if shard, woken := h.waiters.Arrive(ref); woken && !h.closed {
		h.begin(func() { h.instead(ref, shard) })
	}
}

// instead wakes one waiter more for a shard than are on their way to it.
func (h *hub) instead(ref duly.QueueRef, shard int) {
	h.mu.Lock()
	n := 1 + h.waiters.Outstanding(ref, shard)
	h.mu.Unlock()
	if q := h.e.queues.get(ref); q != nil && shard < len(q.shards) && !h.offer(ref, shard, n) {
		h.mark(q.shards[shard], "now", 1)
	}
}

// offer wakes waiters for the deliverable jobs of a shard, as far as others
// are not on their way already. False: nobody waits here.
func (h *hub) offer(ref duly.QueueRef, shard, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[ref]
	if v == nil {
		return false
	}
	v.quiet = false
	h.waiters.Wake(ref, shard, n, h.e.local().Mono())
	if _, outstanding := h.waiters.NextExpiry(ref); outstanding {
		h.doubt()
	}
	return true
}

// doubt begins to look after those who were woken, if nobody does. The caller
// holds the lock.
func (h *hub) doubt() {
	if h.doubting == nil && !h.closed {
		h.doubting = h.e.local().AfterFunc(wakeupLife, h.lookAfter)
	}
}

// lookAfter looks at the shards for which somebody was woken who has not come.
func (h *hub) lookAfter() {
	h.spawn(func() {
		shards := h.missed()
		ctx, cancel := context.WithTimeout(h.ctx, lookLimit)
		defer cancel()
		// Where it fails, the tick looks.
		_ = h.look(ctx, shards, true, func(i int, l looked) {
			d, n := shards[i], l.deliverable
			if l.other { // how many there are it does not tell, and the next look will
				h.refresh(ctx, d.q.ref)
				n = 1
			}
			if n > 0 && !h.offer(d.q.ref, d.s.index, n) {
				h.mark(d.s, "now", int64(n))
			}
		})
	})
}

// missed forgets the wake-ups of those who have not come, and lists their shards,
// group by group.
func (h *hub) missed() (shards []*watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubting = nil
	expired, more := h.waiters.Expire(h.e.local().Mono())
	if more {
		h.doubt()
	}
	for _, w := range expired {
		q := h.e.queues.get(w.Key)
		if s := q.shard(w.Tag); s != nil {
			shards = append(shards, h.e.watched(q, s))
		}
	}
	slices.SortFunc(shards, func(a, b *watched) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.s.name("marker"), b.s.name("marker")))
	})
	return slices.CompactFunc(shards, func(a, b *watched) bool { return a.s == b.s })
}

// reserving notes that somebody reserves from a queue now, and tells the shard
// that a waiter was woken for.
func (h *hub) reserving(ref duly.QueueRef) (shard int, woken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters.Arrive(ref)
}

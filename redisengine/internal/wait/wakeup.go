package wait

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/waiters"
)

// WakeupLife is how long somebody who was woken is on the way to a Reserve. That
// may come from another process, as a server's client does, or never.
const WakeupLife = 100 * time.Millisecond

// wakeup is a waiter that was woken for a shard and has not reserved yet.
type wakeup = waiters.Wakeup[duly.QueueRef]

// leaveGone takes out a waiter whose caller has gone. If it was woken, nobody will
// reserve what it was woken for: another one is woken in its place.
func (h *Hub) leaveGone(w *waiter) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if wakeup, woken := h.Waiters.Leave(w); woken && !h.closed { // else its wake-up has been handed on
		h.goLocked(func() { h.WakeAnother(wakeup.Key, wakeup.Tag) })
	}
}

// PassOn wakes others in the place of a caller that leaves without having asked
// the queues, although it may be the one that was woken for one of them.
func (h *Hub) PassOn(namespace string, queues []string) {
	for _, name := range queues {
		h.passOnQueue(duly.QueueRef{Namespace: namespace, Name: name}.Normal())
	}
}

// passOnQueue takes a wake-up and begins to act on it in one: an engine that is closed
// in between would do neither.
func (h *Hub) passOnQueue(ref duly.QueueRef) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	if shard, woken := h.Waiters.Arrive(ref); woken && !h.closed {
		h.goLocked(func() { h.WakeAnother(ref, shard) })
	}
}

// WakeAnother wakes one waiter more for a shard than are on their way to it.
func (h *Hub) WakeAnother(ref duly.QueueRef, shard int) {
	h.Mu.Lock()
	n := 1 + h.Waiters.Outstanding(ref, shard)
	h.Mu.Unlock()
	if q := h.Cache.Get(ref); q != nil && shard < len(q.Shards) && !h.wake(ref, shard, n) {
		h.PutMarker(q.Shards[shard], "now", 1)
	}
}

// wake wakes waiters for the deliverable jobs of a shard, as far as others
// are not on their way already. False: nobody waits here.
func (h *Hub) wake(ref duly.QueueRef, shard, n int) bool {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	v := h.Views[ref]
	if v == nil {
		return false
	}
	v.Quiet = false
	h.Waiters.Wake(ref, shard, n, h.Local().Mono())
	if _, outstanding := h.Waiters.NextExpiry(ref); outstanding {
		h.startExpiryTimer()
	}
	return true
}

// startExpiryTimer begins to look after those who were woken, if nobody does. The caller
// holds the lock.
func (h *Hub) startExpiryTimer() {
	if h.expiryTimer == nil && !h.closed {
		h.expiryTimer = h.Local().AfterFunc(WakeupLife, h.recheckExpired)
	}
}

// recheckExpired looks at the shards for which somebody was woken who has not come.
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
			if n > 0 && !h.wake(d.q.Ref, d.s.Index, n) {
				h.PutMarker(d.s, "now", int64(n))
			}
		})
	})
}

// expiredShards forgets the wake-ups of those who have not come, and lists their shards,
// group by group.
func (h *Hub) expiredShards() (shards []*watchedShard) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.expiryTimer = nil
	expired, more := h.Waiters.Expire(h.Local().Mono())
	if more {
		h.startExpiryTimer()
	}
	for _, w := range expired {
		q := h.Cache.Get(w.Key)
		if s := q.Shard(w.Tag); s != nil {
			shards = append(shards, h.watchOf(q, s))
		}
	}
	slices.SortFunc(shards, func(a, b *watchedShard) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.s.Name("marker"), b.s.Name("marker")))
	})
	return slices.CompactFunc(shards, func(a, b *watchedShard) bool { return a.s == b.s })
}

// Arrive notes that somebody reserves from a queue now, and tells the shard
// that a waiter was woken for.
func (h *Hub) Arrive(ref duly.QueueRef) (shard int, woken bool) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	return h.Waiters.Arrive(ref)
}

package redisengine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// hintLife is how long somebody who was woken is on the way to a Reserve. That
// may come from another process, as a server's client does, or never.
const hintLife = 100 * time.Millisecond

// hint is a waiter that was woken for a shard and has not reserved yet.
type hint struct {
	shard int
	at    time.Duration // monotonic
}

// missed tells whether its Reserve should have come by now.
func (t hint) missed(now time.Duration) bool { return now-t.at >= hintLife }

// passOn takes out a waiter whose caller has gone. If it was woken, nobody will
// reserve what it was woken for: another one is woken in its place.
func (h *hub) passOn(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := w.woken
	w.woken = nil
	h.remove(w)
	if v != nil && !h.closed { // else its hint has been seen to
		h.takeHint(v.ref)
		h.begin(func() { h.instead(v.ref, w.shard) })
	}
}

// pass wakes others in the place of a caller that leaves without having asked
// the queues, although it may be the one that was woken for one of them.
func (h *hub) pass(namespace string, queues []string) {
	for _, name := range queues {
		h.passOne(duly.QueueRef{Namespace: namespace, Name: name}.Normal())
	}
}

// passOne takes a hint and begins to act on it in one: an engine that is closed
// in between would do neither.
func (h *hub) passOne(ref duly.QueueRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if shard, woken := h.takeHint(ref); woken && !h.closed {
		h.begin(func() { h.instead(ref, shard) })
	}
}

// instead wakes one waiter more for a shard than are on their way to it.
func (h *hub) instead(ref duly.QueueRef, shard int) {
	n := 1
	h.mu.Lock()
	for _, t := range h.hints[ref] {
		if t.shard == shard {
			n++
		}
	}
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
	hints, now := h.hints[ref], h.e.local().Mono()
	for _, t := range hints {
		if t.shard == shard && !t.missed(now) {
			n--
		}
	}
	for ; n > 0 && v.waiters.Len() > 0; n-- {
		w := v.waiters.Front().Value.(*waiter)
		h.remove(w)
		w.woken, w.shard = v, shard
		hints = append(hints, hint{shard, now})
		close(w.done)
	}
	if len(hints) > 0 {
		h.hints[ref] = hints
		h.doubt()
	}
	return true
}

// doubt begins to look after those who were woken, if nobody does. The caller
// holds the lock.
func (h *hub) doubt() {
	if h.doubting == nil && !h.closed {
		h.doubting = h.e.local().AfterFunc(hintLife, h.lookAfter)
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
				h.mark(d.s, "now", float64(n))
			}
		})
	})
}

// missed takes the hints of those who have not come, and lists their shards,
// group by group.
func (h *hub) missed() (shards []*watched) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.doubting = nil
	now := h.e.local().Mono()
	for ref, hints := range h.hints {
		q := h.e.queues.get(ref)
		hints = slices.DeleteFunc(hints, func(t hint) bool {
			if s := q.shard(t.shard); t.missed(now) && s != nil {
				shards = append(shards, h.e.watched(q, s))
			}
			return t.missed(now)
		})
		if h.hints[ref] = hints; len(hints) == 0 {
			delete(h.hints, ref)
		} else {
			h.doubt()
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
	return h.takeHint(ref)
}

// takeHint is reserving for who holds the lock.
func (h *hub) takeHint(ref duly.QueueRef) (shard int, woken bool) {
	hints := h.hints[ref]
	if len(hints) == 0 {
		return 0, false
	}
	shard = hints[0].shard
	if hints = hints[1:]; len(hints) == 0 {
		delete(h.hints, ref)
	} else {
		h.hints[ref] = hints
	}
	return shard, true
}

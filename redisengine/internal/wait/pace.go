package wait

import (
	"context"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// This file slows down wake-ups that find nothing. A marker says that a shard may have jobs, but a
// group's filter may skip all of them, and the next Publish sets a marker again at once. So if a
// woken caller's Reserve finds nothing, the next wake-up of the group is delayed (see package
// waiters).

// laterKey names the shard of a delayed wake-up.
type laterKey struct {
	door  Door
	shard int
}

// laterWake is a delayed wake-up for n jobs.
type laterWake struct {
	n     int
	timer clock.Timer
}

// Reserved records the result of a Reserve at a door. woken reports whether the caller was woken
// for it.
func (h *Hub) Reserved(d Door, found, woken bool) {
	// Most Reserves end here, without the lock.
	if found && h.vains.Load() == 0 || !found && !woken {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if found {
		h.waiters.Delivered(d)
	} else {
		h.waiters.Vain(d, h.Local().Mono())
	}
	h.vains.Store(int64(h.waiters.Paces()))
}

// wakeLater delays a wake-up. Further wake-ups for the same shard join the delayed one. The caller
// holds the lock.
func (h *Hub) wakeLater(k laterKey, n int, pause time.Duration) {
	if l := h.later[k]; l != nil {
		// Both numbers count jobs of the same shard, so they are not added.
		l.n = max(l.n, n)
		return
	}
	l := &laterWake{n: n}
	h.later[k] = l
	l.timer = h.Local().AfterFunc(pause, func() { h.Go(func() { h.wakeNow(k) }) })
}

// wakeNow makes a delayed wake-up. If this process has no waiter any more, a marker lets another
// process make it.
func (h *Hub) wakeNow(k laterKey) {
	h.mu.Lock()
	l := h.later[k]
	delete(h.later, k)
	h.mu.Unlock()
	if l == nil || h.wake(k.door, k.shard, l.n) {
		return
	}
	if s := h.Cache.Get(k.door.Ref).Shard(k.shard); s != nil {
		h.PutMarker(s, "now", int64(l.n))
	}
}

// stopLater cancels and returns the delayed wake-ups. The caller holds the lock, and passes them
// on to other processes.
func (h *Hub) stopLater() (all []wakeup) {
	for k, l := range h.later {
		l.timer.Stop()
		all = append(all, wakeup{Key: k.door, Tag: k.shard})
	}
	clear(h.later)
	return all
}

// rest waits for the shortest pause of some queues, after a look that found jobs.
func (h *Hub) rest(ctx context.Context, doors []Door) {
	if h.vains.Load() == 0 {
		return
	}
	h.mu.Lock()
	now := h.Local().Mono()
	pause := h.waiters.Pause(doors[0], now)
	for _, d := range doors[1:] {
		pause = min(pause, h.waiters.Pause(d, now))
	}
	h.mu.Unlock()
	if pause > 0 {
		// A caller that leaves gets its answer a little later.
		_ = clock.Sleep(ctx, h.Local(), pause)
	}
}

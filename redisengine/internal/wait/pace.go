package wait

import (
	"context"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// A marker says that a shard may have jobs. A filter of a group may pass over all of them,
// and the marker of the next Publish comes a moment later. So a woken caller whose Reserve
// found nothing delays the next wake-up of its group, see package waiters.

// laterKey names the shard of a wake-up that waits for its pause.
type laterKey struct {
	door  Door
	shard int
}

// laterWake is a wake-up for n jobs that waits for its pause.
type laterWake struct {
	n     int
	timer clock.Timer
}

// Reserved notes what a Reserve has found at a door. woken reports whether a wake-up has
// caused it.
func (h *Hub) Reserved(d Door, found, woken bool) {
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

// wakeLater delays a wake-up. Further ones of the shard join it. The caller holds the lock.
func (h *Hub) wakeLater(k laterKey, n int, pause time.Duration) {
	if l := h.later[k]; l != nil {
		l.n = max(l.n, n)
		return
	}
	l := &laterWake{n: n}
	h.later[k] = l
	l.timer = h.Local().AfterFunc(pause, func() { h.Go(func() { h.wakeNow(k) }) })
}

// wakeNow makes a wake-up whose pause has ended. If nobody waits here any more, another
// process makes it.
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

// stopLater returns the wake-ups that wait for their pause. The caller holds the lock, and
// hands them over.
func (h *Hub) stopLater() (all []wakeup) {
	for k, l := range h.later {
		l.timer.Stop()
		all = append(all, wakeup{Key: k.door, Tag: k.shard})
	}
	clear(h.later)
	return all
}

// rest waits for the shortest pause of some queues, after a look that has found jobs.
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
		_ = clock.Sleep(ctx, h.Local(), pause) // a caller that leaves gets its answer a moment later
	}
}

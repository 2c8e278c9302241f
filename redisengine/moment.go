package redisengine

import (
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// moment is the next one of a shard, which this process keeps: when it has
// come, somebody looks.
type moment struct {
	s     *shard
	at    int64         // on the server's clock, in ms
	fires time.Duration // monotonic
	timer clock.Timer
}

// hold lets this process keep a moment of a shard, unless it keeps one that its
// own clock brings sooner: the look that follows that one tells the next. So it
// does not matter which of two looks that were on their way at once comes last.
// fires is monotonic.
func (h *hub) hold(s *shard, at int64, fires time.Duration) {
	marker := s.name("marker")
	h.mu.Lock()
	closed := h.closed
	if old := h.moments[marker]; !closed && (old == nil || fires < old.fires) {
		if old != nil {
			old.timer.Stop()
		}
		m := &moment{s: s, at: at, fires: fires}
		h.moments[marker] = m
		m.timer = h.e.local().At(fires, func() { h.come(m) })
	}
	h.mu.Unlock()
	if closed { // somebody else has to keep it
		h.mark(s, "later", at)
	}
}

// come is called when a moment that this process keeps has come. Where nobody
// waits here any more, another process keeps it: by the server's clock it may
// lie ahead still, for this timer does not know how long replies were on their
// way, and a Reserve that came too early would find nothing and nobody would
// look again.
func (h *hub) come(m *moment) {
	h.spawn(func() {
		marker := m.s.name("marker")
		h.mu.Lock()
		kept, d := h.moments[marker] == m, h.watched[marker]
		if kept {
			delete(h.moments, marker)
		}
		h.mu.Unlock()
		switch {
		case !kept: // a sooner one stands in its place, or it was handed back
		case d != nil:
			h.keep(marker, m.at)
		default:
			h.mark(m.s, "later", m.at)
		}
	})
}

// keep makes this process the one that keeps a shard's next moment, of which a
// marker or a timer has told. A look asks how far off it is by the server's
// clock, and which other moment has to be kept.
func (h *hub) keep(marker string, at int64) {
	for range 3 {
		h.mu.Lock()
		d := h.watched[marker]
		if d != nil {
			d = d.copied()
		}
		h.mu.Unlock()
		if d == nil {
			h.restore(marker, "later", at)
			return
		}
		var l looked
		err := h.look(h.ctx, []*watched{d}, false, func(_ int, told looked) { l = told })
		if err == nil && !l.other {
			h.heed(h.ctx, d, l, true)
			return
		}
		if err == nil { // the moment stands, whatever the configuration is
			err = h.e.agree(h.ctx, d.q, &stale{value: untold})
		}
		if err != nil {
			h.hold(d.s, at, h.e.local().Mono()+h.recheck)
			return
		}
	}
	// The queue is gone, or its configuration keeps changing. Who gives the shard
	// the last one says anew what the next moment is, unless that came before
	// the moment was handed to this process.
	h.keepOn(marker, at)
}

// keepOn keeps the moment of a shard that still is one, and looks again soon.
func (h *hub) keepOn(marker string, at int64) {
	h.mu.Lock()
	d := h.watched[marker]
	var s *shard
	if d != nil && h.e.queues.get(d.q.ref) != nil {
		s = d.s
	}
	h.mu.Unlock()
	if s != nil {
		h.hold(s, at, h.e.local().Mono()+wakeupLife)
	}
}

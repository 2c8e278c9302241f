package redisengine

import (
	"errors"
	"sync"
	"time"

	"github.com/dulymq/duly"
)

// healEvery is how often one shard is checked, at most, because a script could
// make nothing of what it found there.
const healEvery = time.Minute

// healing remembers when which shard was last checked for that.
type healing struct {
	mu   sync.Mutex
	last map[part]time.Duration // monotonic
}

// heal has a shard checked and mended in the background if a script has failed
// there: a job that can't be read would keep all others from being taken.
func (e *Engine) heal(at part, err error) {
	if other := (*stale)(nil); errors.As(err, &other) || duly.CodeOf(err) != duly.CodeInternal || e.closing.Load() {
		return
	}
	h := &e.healing
	h.mu.Lock()
	defer h.mu.Unlock()
	now := e.local().Mono()
	if last, ok := h.last[at]; ok && now-last < healEvery {
		return
	}
	if h.last == nil {
		h.last = map[part]time.Duration{}
	}
	h.last[at] = now
	e.work.begin(func() {
		log := e.cfg.Logger.With("queue", at.ref.String(), "shard", at.index)
		log.Error("a script failed on what it found in a shard, which is checked and mended now", "error", err)
		c := &check{e: e, p: duly.CheckParams{Repair: true}}
		if _, err := c.shard(e.hub.ctx, at); err != nil {
			log.Error("the shard could not be checked", "error", err)
			return
		}
		log.Error("the shard was checked", "faults", len(c.report.Faults), "mended", c.report.Repaired)
	})
}

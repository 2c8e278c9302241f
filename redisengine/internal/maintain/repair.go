package maintain

import (
	"errors"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// repairEvery is how often one shard is checked, at most, because a script failed
// on what it found there.
const repairEvery = time.Minute

// Repairer checks and repairs shards that a script could not work with.
type Repairer struct {
	*catalog.Catalog
	mu   sync.Mutex
	last map[catalog.ShardRef]time.Duration // monotonic: when each was checked
}

// Repair has a shard checked and repaired in the background if a script has failed
// there: an unreadable job would keep all others from being reserved.
func (h *Repairer) Repair(at catalog.ShardRef, err error) {
	if other := (*catalog.Stale)(nil); errors.As(err, &other) || duly.CodeOf(err) != duly.CodeInternal || h.Closing.Load() {
		return
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Local().Mono()
	if last, ok := h.last[at]; ok && now-last < repairEvery {
		return
	}
	if h.last == nil {
		h.last = map[catalog.ShardRef]time.Duration{}
	}

	h.last[at] = now
	h.Tasks.Go(func() {
		log := h.Settings.Logger.With("queue", at.Ref.String(), "shard", at.Index)
		log.Error("a script failed on what it found in a shard, which is checked and mended now", "error", err)
		c := &check{e: h.Catalog, p: contract.CheckParams{Repair: true}}
		if _, err := c.shard(h.Quit, at); err != nil {
			log.Error("the shard could not be checked", "error", err)
			return
		}
		log.Error("the shard was checked", "faults", len(c.report.Faults), "mended", c.report.Repaired)
	})
}

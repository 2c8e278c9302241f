package maintain

import (
	"errors"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// repairEvery is the least time between two background checks of a shard.
const repairEvery = time.Minute

// Repairer checks and repairs shards on which a script failed.
type Repairer struct {
	*catalog.Catalog
	mu   sync.Mutex
	last map[catalog.ShardRef]time.Duration // time of the last check of each shard, on the monotonic clock
}

// Repair starts a check of a shard in the background if a script has failed there. An unreadable
// job would stop all others from being reserved.
func (h *Repairer) Repair(at catalog.ShardRef, err error) {
	// Only an internal error comes from damaged data.
	if other := (*catalog.Stale)(nil); errors.As(err, &other) || duly.CodeOf(err) != duly.CodeInternal ||
		h.Closing.Load() {
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
		log.Error("a script failed on the data of a shard, which is now checked and repaired", "error", err)
		c := &check{e: h.Catalog, p: contract.CheckParams{Repair: true}}
		if _, err := c.shard(h.Quit, at); err != nil {
			log.Error("the shard could not be checked", "error", err)
			return
		}
		log.Error("the shard was checked", "faults", len(c.report.Faults), "repaired", c.report.Repaired)
	})
}

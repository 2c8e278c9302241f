package sqliteengine

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// consumers holds the names that callers pass with Reserve, by group. The names are kept only in
// memory, so that no call costs a write.
type consumers struct {
	mu     sync.Mutex
	groups map[int64]map[string]int64 // time of the last call, by queue ID and consumer name
}

func (c *consumers) note(group int64, name string, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.groups == nil {
		c.groups = map[int64]map[string]int64{}
	}
	names := c.groups[group]
	if names == nil {
		names = map[string]int64{}
		c.groups[group] = names
	}
	names[name] = now
	// Callers may use a new name with every call, so old names must not accumulate.
	maps.DeleteFunc(names, func(_ string, at int64) bool { return forgotten(at, now) })
	if len(names) <= duly.MaxConsumers {
		return
	}

	oldest := name
	for other, at := range names {
		if at < names[oldest] {
			oldest = other
		}
	}
	delete(names, oldest)
}

func forgotten(at, now int64) bool { return past(at+clock.Millis(duly.ConsumerMemory), now) }

// list returns the consumers of a group that called within the last hour, by name.
func (c *consumers) list(group, now int64) (all []duly.Consumer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, at := range c.groups[group] {
		if !forgotten(at, now) {
			all = append(all, duly.Consumer{Name: name, LastCall: clock.FromMilli(at)})
		}
	}
	slices.SortFunc(all, func(a, b duly.Consumer) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// forget drops the consumer names of a group that was destroyed.
func (c *consumers) forget(group int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.groups, group)
}

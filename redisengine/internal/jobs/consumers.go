package jobs

import (
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// consumers records when a consumer's name was last stored in a group. A Reserve therefore stores
// it about once a minute.
type consumers struct {
	mu     sync.Mutex
	stored map[consumer]time.Duration
}

type consumer struct {
	group string // epoch mark of the group
	name  string
}

const (
	consumerPause = 50 * time.Second
	maxNoted      = 10_000
)

// due reports whether the group must store the name.
func (c *consumers) due(g *catalog.Group, name string, now time.Duration) bool {
	if name == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.stored[consumer{g.Birth, name}]
	return !known || now-at >= consumerPause
}

// note records that the group stores the name.
func (c *consumers) note(g *catalog.Group, name string, now time.Duration) {
	if name == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Dropping all entries limits the memory. The cost is that some names are stored again too
	// early.
	if c.stored == nil || len(c.stored) >= maxNoted {
		c.stored = map[consumer]time.Duration{}
	}
	// Without the clone, the map would keep the caller's whole text in memory.
	c.stored[consumer{g.Birth, strings.Clone(name)}] = now
}

package catalog

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dulymq/duly"
)

// markUsed notes that a queue has gear. One that is not remembered any more takes its
// own along.
func (s *Cache) markUsed(q *Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[q.Ref] == q {
		s.used[q.Ref] = q
	}
}

// DropIdle puts the gear away that nobody has used since the last time.
func (s *Cache) DropIdle() {
	s.mu.Lock()
	used := s.used
	s.used = map[duly.QueueRef]*Queue{}
	s.mu.Unlock()
	for _, q := range used {
		if q.dropIdle() {
			s.markUsed(q)
		}
	}
}

// Cache remembers the queues that this process has met.
type Cache struct {
	mu    sync.RWMutex
	known map[duly.QueueRef]*Queue
	used  map[duly.QueueRef]*Queue // those of them that may have gear
}

// Get returns a queue, or nil if it is not cached.
func (s *Cache) Get(ref duly.QueueRef) *Queue {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[ref]
}

// put remembers a queue, and gives back the one that is remembered: the same
// one for the same configuration, so that calls of many meet in its lanes.
func (s *Cache) put(q *Queue) *Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.known[q.Ref]; old != nil && old.Value == q.Value {
		return old
	}
	s.known[q.Ref] = q
	delete(s.used, q.Ref)
	return q
}

// Forget drops what was known before the server was asked, nil for nothing:
// the queue may have been made while the answer was on its way.
func (s *Cache) Forget(was *Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was != nil && s.known[was.Ref] == was {
		delete(s.known, was.Ref)
		delete(s.used, was.Ref)
	}
}

// Summary is what has to be said of a queue to ask about its shards. It is much
// less than what those who use a queue remember, for whoever sweeps or surveys
// asks about all that there are.
type Summary struct {
	Version string
	Limits  []string // of each shard
	// Throttle is that of the configuration with this version.
	Throttle duly.Throttle
	Swept    uint64 // the sweep that has met it last; the sweep's own
}

// Summaries remembers queues.
type Summaries struct {
	mu    sync.Mutex
	known map[string]map[string]*Summary // by namespace and name
}

// newSummary is a queue's. Most queues of a store are bounded alike, so it shares
// what is said of the bounds with another queue's, if there is one.
func newSummary(q *Queue, other *Summary) *Summary {
	limits := make([]string, len(q.Shards))
	for i, s := range q.Shards {
		limits[i] = s.Limits
	}
	if other != nil && slices.Equal(limits, other.Limits) {
		limits = other.Limits
	}
	return &Summary{Version: strings.Clone(q.Version), Limits: limits, Throttle: q.Config.Throttle()} // not with all of the configuration behind it
}

func (b *Summaries) put(ref duly.QueueRef, known *Summary) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[string]map[string]*Summary{}
	}
	if b.known[ref.Namespace] == nil {
		b.known[ref.Namespace] = map[string]*Summary{}
	}
	b.known[ref.Namespace][ref.Name] = known
}

// Forget drops a queue that turned out to be another one.
func (b *Summaries) Forget(ref duly.QueueRef, known *Summary) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[ref.Namespace][ref.Name] == known {
		delete(b.known[ref.Namespace], ref.Name)
	}
}

// DropOlder drops those that a sweep of everything has not met.
func (b *Summaries) DropOlder(sweep uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for namespace, queues := range b.known {
		maps.DeleteFunc(queues, func(_ string, known *Summary) bool { return known.Swept != sweep })
		if len(queues) == 0 {
			delete(b.known, namespace)
		}
	}
}

package catalog

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// markUsed records that a queue has shard state. A queue that is no longer cached is skipped: its
// state is collected with it.
func (s *Cache) markUsed(q *Queue) {
	q = q.Base()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[q.Ref] == q {
		s.used[q.Ref] = q
	}
}

// DropIdle drops the state of shards that no call used since the last DropIdle.
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

// Cache holds the queues that this process has used.
type Cache struct {
	mu    sync.RWMutex
	known map[duly.QueueRef]*Queue
	used  map[duly.QueueRef]*Queue // the cached queues that may have shard state
}

// Get returns a queue, or nil if it is not cached.
func (s *Cache) Get(ref duly.QueueRef) *Queue {
	if topic, group, ok := ref.Group(); ok {
		return s.Get(topic).Group(group)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[ref]
}

// put caches a queue and returns the cached one. For the same configuration it returns the same
// Queue, so that concurrent calls share batches.
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

// Forget drops the cached entry if it is still was, the entry from before the server was asked. If
// was is nil, Forget drops nothing, because the queue may have been created while the answer was in
// flight.
func (s *Cache) Forget(was *Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was != nil && s.known[was.Ref] == was {
		delete(s.known, was.Ref)
		delete(s.used, was.Ref)
	}
}

// Summary is the part of a queue that a call about its shards needs. It is much smaller than a
// Queue, because a sweep and a survey ask about all queues.
type Summary struct {
	Version string
	Limits  []string // the packed limits of each shard
	// Throttle belongs to the configuration with this version.
	Throttle contract.Throttle
	Delivery duly.DeliveryMode
	Adapts   bool   // whether the limits adapt
	Swept    uint64 // number of the last sweep that found the queue
}

// Summaries remembers queues.
type Summaries struct {
	mu    sync.Mutex
	known map[string]map[string]*Summary // summaries by namespace and queue name
}

// newSummary returns the summary of a queue. Most queues have equal limits, so newSummary shares
// the limits of another summary if they are equal.
func newSummary(q *Queue, other *Summary) *Summary {
	limits := make([]string, len(q.Shards))
	for i, s := range q.Shards {
		limits[i] = s.Limits
	}
	if other != nil && slices.Equal(limits, other.Limits) {
		limits = other.Limits
	}
	// Without the clone, the summary would keep the whole configuration in memory.
	return &Summary{
		Version: strings.Clone(q.Version), Limits: limits, Throttle: contract.ThrottleOf(q.Config),
		Delivery: q.Config.Delivery, Adapts: q.Config.Adapt.Adaptive(),
	}
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

// Forget drops the summary of a queue whose configuration has changed.
func (b *Summaries) Forget(ref duly.QueueRef, known *Summary) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known[ref.Namespace][ref.Name] == known {
		delete(b.known[ref.Namespace], ref.Name)
	}
}

// DropOlder drops the summaries of queues that this sweep did not find.
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

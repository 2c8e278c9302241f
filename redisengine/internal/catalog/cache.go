package catalog

import (
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

package redisengine

import (
	"slices"
	"sync/atomic"

	"github.com/dulymq/duly"
)

// gear is what those work with who use a shard. Of a hundred thousand queues that
// a process knows few are in use at a time, and the garbage collector has to go
// through all that is known: so gear is made when somebody calls or waits, and put
// away by a sweep if nobody has called since the one before. It says nothing of
// the shard: who still has one that was put away may work on with it.
type gear struct {
	names []string // of shardKeys
	// The calls of many callers: pushes, reserves, settles, deletes.
	push, reserve, settle, remove batcher
	used                          atomic.Bool // since the last sweep
}

func (g *gear) name(key string) string { return g.names[slices.Index(shardKeys[:], key)] }

// gear is a shard's, made if there is none.
func (e *Engine) gear(q *queue, s *shard) *gear {
	for {
		if g := s.gear.Load(); g != nil {
			if !g.used.Load() {
				g.used.Store(true)
			}
			return g
		}
		if s.gear.CompareAndSwap(nil, e.newGear(q, s)) {
			e.queues.use(q)
		}
	}
}

func (e *Engine) newGear(q *queue, s *shard) *gear {
	g := &gear{names: appendKeys(make([]string, 0, len(shardKeys)), s.tag, shardKeys[:])}
	e.initBatcher(&g.push, e.sendPush(q, s))
	e.initBatcher(&g.settle, e.sendSettle(q, s))
	e.initBatcher(&g.remove, e.sendDelete(q, s))
	e.initBatcher(&g.reserve, e.sendReserve(q, s))
	g.reserve.Together = sameLease
	return g
}

// use notes that a queue has gear. One that is not remembered any more takes its
// own along.
func (s *queues) use(q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[q.ref] == q {
		s.used[q.ref] = q
	}
}

// rest puts the gear away that nobody has used since the last time.
func (s *queues) rest() {
	s.mu.Lock()
	used := s.used
	s.used = map[duly.QueueRef]*queue{}
	s.mu.Unlock()
	for _, q := range used {
		if q.rest() {
			s.use(q)
		}
	}
}

// rest tells whether some of the queue's shards keep their gear.
func (q *queue) rest() (kept bool) {
	for _, s := range q.shards {
		if g := s.gear.Load(); g != nil && !g.used.Swap(false) {
			s.gear.CompareAndSwap(g, nil)
		}
		kept = kept || s.gear.Load() != nil
	}
	return kept
}

package route

import (
	"context"
	"slices"
	"sync"
)

// budget is memory that calls share: who asks for more than is left waits in
// line. There is one for what requests bring and one for what answers take.
//
// A call asks again as it grows, and keeps what it has while it waits. So that
// they do not all wait for each other, one of those that wait for more, the one
// that has the most, may overdraw the budget until it gives that back. The most
// that is ever used is the budget and one call.
//
// A caller who is slow to take an answer would keep the others waiting at will.
// So where somebody waits, the slow ones are cut off one by one, the one that
// has been slow for longest first.
type budget struct {
	mu      sync.Mutex
	free    int64 // below 0 while it is overdrawn
	size    int64
	queue   []*waiting
	over    bool // somebody may overdraw
	slows   []*share
	cutting bool // one was cut off and has not given back yet
}

// share is what one call has of a budget.
type share struct {
	held    int64
	over    bool   // it may overdraw
	cut     func() // of a slow one: ends it; must not block
	cutting bool   // it was called
	given   bool   // back: nothing is done with it any more
}

type waiting struct {
	n     int64
	share *share
	free  chan struct{} // closed once it has its part
}

func newBudget(size int64) *budget { return &budget{free: size, size: size} }

// try takes n bytes more, or all that there ever is, if they are there at once.
func (b *budget) try(s *share, n int64) bool {
	n = min(n, b.size)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fitsLocked(s, n) {
		return false
	}
	b.free -= n
	s.held += n
	return true
}

func (b *budget) fitsLocked(s *share, n int64) bool {
	return s.over || b.free >= n && len(b.queue) == 0
}

// take waits for n bytes more, or all that there ever is. give must be called
// in the end, also after an error.
func (b *budget) take(ctx context.Context, s *share, n int64) error {
	n = min(n, b.size)
	w := &waiting{n: n, share: s, free: make(chan struct{})}
	b.mu.Lock()
	if b.fitsLocked(s, n) {
		b.grantLocked(w)
	} else {
		b.queue = append(b.queue, w)
		b.serveLocked()
	}
	b.mu.Unlock()
	select {
	case <-w.free:
		return nil
	case <-ctx.Done():
		b.leave(w)
		return ctx.Err()
	}
}

func (b *budget) grantLocked(w *waiting) {
	b.free -= w.n
	w.share.held += w.n
	close(w.free)
}

// leave takes a waiter out of the line. What it was given in the same moment is
// its share's.
func (b *budget) leave(w *waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.queue {
		if other == w {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			b.serveLocked() // those behind it may fit
			return
		}
	}
}

// keep changes what a share has to n bytes, at once: the rest goes back. What it
// already uses beyond its part overdraws the budget; others wait for that.
func (b *budget) keep(s *share, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += s.held - n
	s.held = n
	if s.over && b.free >= 0 {
		b.over, s.over = false, false
	}
	b.serveLocked()
}

// slow notes that who has the share may be cut off, once somebody waits.
func (b *budget) slow(s *share, cut func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.given {
		return
	}
	s.cut = cut
	b.slows = append(b.slows, s)
	b.serveLocked()
}

// give gives a share back.
func (b *budget) give(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += s.held
	b.over = b.over && !s.over
	b.cutting = b.cutting && !s.cutting
	if i := slices.Index(b.slows, s); i >= 0 {
		b.slows = slices.Delete(b.slows, i, i+1)
	}
	*s = share{given: true}
	b.serveLocked()
}

func (b *budget) serveLocked() {
	for len(b.queue) > 0 && b.queue[0].n <= b.free {
		w := b.queue[0]
		b.queue = b.queue[1:]
		b.grantLocked(w)
	}
	if !b.over {
		b.overdrawLocked()
	}
	if len(b.queue) > 0 && len(b.slows) > 0 && !b.cutting {
		s := b.slows[0]
		b.slows = b.slows[1:]
		b.cutting, s.cutting = true, true
		s.cut()
	}
}

// overdrawLocked lets one that waits for more have it.
func (b *budget) overdrawLocked() {
	most := -1
	for i, w := range b.queue {
		if w.share.held > 0 && (most < 0 || w.share.held > b.queue[most].share.held) {
			most = i
		}
	}
	if most >= 0 {
		w := b.queue[most]
		b.queue = append(b.queue[:most], b.queue[most+1:]...)
		b.over, w.share.over = true, true
		b.grantLocked(w)
	}
}

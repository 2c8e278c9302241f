package dispatch

import (
	"context"
	"slices"
	"sync"
)

// memory bounds the bodies that are sent at the same time, in bytes. A body that is
// larger than all of it is sent alone.
type memory struct {
	size int64
	// freed is called when nobody waits any more.
	freed func()

	mu      sync.Mutex
	used    int64
	waiting []*claim // first come, first served
}

// claim is a wait for memory.
type claim struct {
	bytes   int64
	granted chan struct{}
}

// take waits until n bytes are free and takes them. It returns what to give back.
func (m *memory) take(ctx context.Context, n int) (give func(), err error) {
	bytes := min(int64(n), m.size)
	give = func() { m.add(-bytes) }
	m.mu.Lock()
	if len(m.waiting) == 0 && m.used+bytes <= m.size {
		m.used += bytes
		m.mu.Unlock()
		return give, nil
	}
	c := &claim{bytes: bytes, granted: make(chan struct{})}
	m.waiting = append(m.waiting, c)
	m.mu.Unlock()

	select {
	case <-c.granted:
		return give, nil
	case <-ctx.Done():
	}

	m.mu.Lock()
	i := slices.Index(m.waiting, c)
	if i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
	}
	m.mu.Unlock()
	if i < 0 { // granted at the same moment
		give()
	} else {
		m.add(0) // the next one may fit
	}
	return nil, context.Cause(ctx)
}

func (m *memory) add(n int64) {
	m.mu.Lock()
	before := len(m.waiting)
	m.used += n
	m.grant()
	free := before > 0 && len(m.waiting) == 0
	m.mu.Unlock()
	if free {
		m.freed()
	}
}

// grant serves those who wait, in their order. m.mu is held.
func (m *memory) grant() {
	for len(m.waiting) > 0 && m.used+m.waiting[0].bytes <= m.size {
		m.used += m.waiting[0].bytes
		close(m.waiting[0].granted)
		m.waiting = m.waiting[1:]
	}
}

// hasRoom reports whether nobody waits for memory.
func (m *memory) hasRoom() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting) == 0
}

// inUse returns the bytes of the bodies that are sent now.
func (m *memory) inUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

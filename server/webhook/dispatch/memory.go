package dispatch

import (
	"context"
	"slices"
	"sync"
)

// memory is a semaphore for the bytes of the bodies in flight. A body that is larger than size is
// sent alone.
type memory struct {
	size int64
	// onFree is called when the last waiting body has got its memory.
	onFree func()

	mu      sync.Mutex
	used    int64
	waiting []*memoryWaiter // waiting bodies, the oldest first
}

// memoryWaiter is a body that waits for memory.
type memoryWaiter struct {
	bytes   int64
	granted chan struct{}
}

// acquire waits until n bytes are free, and reserves them. release frees n bytes.
func (m *memory) acquire(ctx context.Context, n int) (release func(), err error) {
	// A body that is larger than the limit is sent alone, while no other body is in flight.
	bytes := min(int64(n), m.size)
	release = func() { m.add(-bytes) }

	m.mu.Lock()
	// Bodies get memory in their order, because a large body might otherwise never get any.
	if len(m.waiting) == 0 && m.used+bytes <= m.size {
		m.used += bytes
		m.mu.Unlock()
		return release, nil
	}
	c := &memoryWaiter{bytes: bytes, granted: make(chan struct{})}
	m.waiting = append(m.waiting, c)
	m.mu.Unlock()

	select {
	case <-c.granted:
		return release, nil
	case <-ctx.Done():
	}

	m.mu.Lock()
	// The memory may be granted while ctx ends.
	i := slices.Index(m.waiting, c)
	if i >= 0 {
		m.waiting = slices.Delete(m.waiting, i, i+1)
	}
	m.mu.Unlock()
	if i < 0 { // the memory was granted at the same moment
		release()
	} else {
		m.add(0) // the next waiting body may fit now
	}
	return nil, context.Cause(ctx)
}

// add changes the used bytes, and grants memory to waiting bodies.
func (m *memory) add(n int64) {
	m.mu.Lock()
	before := len(m.waiting)
	m.used += n
	m.grantWaiting()
	// The feed stopped at the first body that waited.
	free := before > 0 && len(m.waiting) == 0
	m.mu.Unlock()
	if free {
		m.onFree()
	}
}

// grantWaiting grants memory to the waiting bodies that fit, in their order. m.mu is held.
func (m *memory) grantWaiting() {
	for len(m.waiting) > 0 && m.used+m.waiting[0].bytes <= m.size {
		m.used += m.waiting[0].bytes
		close(m.waiting[0].granted)
		m.waiting = m.waiting[1:]
	}
}

// hasRoom reports whether no body waits for memory.
func (m *memory) hasRoom() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting) == 0
}

// inUse returns the bytes of the bodies in flight.
func (m *memory) inUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

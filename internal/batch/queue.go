package batch

import (
	"runtime"
	"slices"
	"sync"
)

// Limits is the maximum size of a batch. A single call may exceed it.
type Limits struct {
	Items, Bytes int
}

// Queue holds the values for the next batches, oldest first. It is safe for
// concurrent use. Size must be set before the first Put.
type Queue[T any] struct {
	// Size returns how many items and bytes v adds to a batch.
	Size func(v T) (items, bytes int)

	mu     sync.Mutex
	list   []T
	closed bool
}

// Put appends values. It returns false, and keeps nothing, after Close.
func (q *Queue[T]) Put(values ...T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.list = append(q.list, values...)
	return true
}

// PutFirst puts values back in front of the others, even after Close.
func (q *Queue[T]) PutFirst(values ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.Insert(q.list, 0, values...)
}

// Take removes the oldest values, as many as fit into one batch and at least one. It returns them
// in the memory of into, which may be nil.
func (q *Queue[T]) Take(into []T, limits Limits) []T {
	q.mu.Lock()
	defer q.mu.Unlock()

	n, items, bytes := 0, 0, 0
	for _, v := range q.list {
		moreItems, moreBytes := q.Size(v)
		items, bytes = items+moreItems, bytes+moreBytes
		if n > 0 && (items > limits.Items || bytes > limits.Bytes) {
			break
		}
		n++
	}

	into = append(into[:0], q.list[:n]...)
	q.list = slices.Delete(q.list, 0, n)
	return into
}

// Len returns how many values wait.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list)
}

// Close makes Put fail. Queued values can still be taken.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// Closed reports whether the queue was closed. After true, a Take gets all remaining values.
func (q *Queue[T]) Closed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// Gather calls [Gather] with the queue's length.
func (q *Queue[T]) Gather(want int) int { return Gather(want, q.Len) }

// maxYields limits how often Gather yields.
const maxYields = 16

// Gather yields the processor until waiting returns want, or no longer grows. It returns the last
// count. The callers that one batch has answered make their next calls almost at once, and the
// first of these should not be sent alone. Yielding takes no noticeable time.
func Gather(want int, waiting func() int) int {
	n := waiting()
	for range maxYields {
		if n >= want {
			break
		}
		runtime.Gosched()
		more := waiting()
		if more <= n {
			return more
		}
		n = more
	}
	return n
}

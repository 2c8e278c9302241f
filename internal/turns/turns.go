// Package turns lets one caller at a time work on each of many things.
package turns

import (
	"context"
	"sync"
)

// Turns are the turns of things with keys. The zero value is ready to use.
type Turns[K comparable] struct {
	mu   sync.Mutex
	list map[K]*turn
}

// turn is the turn of one key. It exists while callers have it or wait for it.
type turn struct {
	taken chan struct{} // has a value while a caller has the turn
	users int
}

// Take waits until no other caller has the turn of a key. It returns the error of ctx if that ends before. The caller
// calls end once.
func (t *Turns[K]) Take(ctx context.Context, key K) (end func(), err error) {
	t.mu.Lock()
	if t.list == nil {
		t.list = map[K]*turn{}
	}
	of := t.list[key]
	if of == nil {
		of = &turn{taken: make(chan struct{}, 1)}
		t.list[key] = of
	}
	of.users++
	t.mu.Unlock()

	select {
	case of.taken <- struct{}{}:
		return func() {
			<-of.taken
			t.leave(key, of)
		}, nil
	case <-ctx.Done():
		t.leave(key, of)
		return nil, ctx.Err()
	}
}

// leave deletes a turn after its last caller.
func (t *Turns[K]) leave(key K, of *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if of.users--; of.users == 0 {
		delete(t.list, key)
	}
}

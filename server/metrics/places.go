package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Places has a bounded number of places, one for each key that has series of its
// own, and shares them among the namespaces: while there is room every key gets
// one, and then a namespace that has the most makes room for one that has less.
// So nobody keeps others out by many queues. It is safe for concurrent use;
// finding a place takes no lock.
type Places[K comparable, V any] struct {
	cfg PlacesConfig[K, V]
	mu  sync.Mutex // held to change now
	now atomic.Pointer[taken[K, V]]
}

// PlacesConfig says how places are shared. All of it must be set.
type PlacesConfig[K comparable, V any] struct {
	Most int
	// Name returns the namespace of a key, and its name in that. Of a namespace
	// that makes room, the key with the last name loses its place.
	Name func(K) (namespace, name string)
	// Join makes the value of a key that gets a place. known must not be changed.
	Join func(key K, known map[K]V) V
	// Leave is called when a key loses its place.
	Leave func(K, V)
}

// taken is never changed once it was stored.
type taken[K comparable, V any] struct {
	known   map[K]V
	held    map[string]int // places by namespace
	largest int            // of held
}

// NewPlaces returns places that are all free.
func NewPlaces[K comparable, V any](cfg PlacesConfig[K, V]) *Places[K, V] {
	p := &Places[K, V]{cfg: cfg}
	p.store(map[K]V{})
	return p
}

// Known returns all that have a place. It must not be changed.
func (p *Places[K, V]) Known() map[K]V { return p.now.Load().known }

// Of returns the value of a key, which gets a place if one is free or can be
// made free. It reports whether the key has a place.
func (p *Places[K, V]) Of(key K) (V, bool) {
	now := p.now.Load()
	if v, ok := now.known[key]; ok {
		return v, true
	}
	if !p.room(now, key) {
		var none V
		return none, false
	}
	return p.add(key)
}

// room reports whether a key that has no place may get one.
func (p *Places[K, V]) room(now *taken[K, V], key K) bool {
	namespace, _ := p.cfg.Name(key)
	return len(now.known) < p.cfg.Most || now.held[namespace]+1 < now.largest
}

func (p *Places[K, V]) add(key K) (v V, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now.Load()
	if v, ok := now.known[key]; ok {
		return v, true
	}
	if !p.room(now, key) {
		return v, false
	}

	known := maps.Clone(now.known)
	if len(known) >= p.cfg.Most {
		last := p.last(now)
		p.cfg.Leave(last, known[last])
		delete(known, last)
	}
	v = p.cfg.Join(key, known)
	known[key] = v
	p.store(known)
	return v, true
}

// last returns the key that makes room.
func (p *Places[K, V]) last(now *taken[K, V]) (last K) {
	most, after := "", ""
	for key := range now.known {
		namespace, name := p.cfg.Name(key)
		if now.held[namespace] < now.largest {
			continue
		}
		if c := strings.Compare(namespace, most); c > 0 || c == 0 && name >= after {
			last, most, after = key, namespace, name
		}
	}
	return last
}

// Forget frees the place of a key that is gone.
func (p *Places[K, V]) Forget(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now.Load()
	if _, ok := now.known[key]; !ok {
		return
	}
	known := maps.Clone(now.known)
	delete(known, key)
	p.store(known)
}

func (p *Places[K, V]) store(known map[K]V) {
	next := &taken[K, V]{known: known, held: map[string]int{}}
	for key := range known {
		namespace, _ := p.cfg.Name(key)
		next.held[namespace]++
		next.largest = max(next.largest, next.held[namespace])
	}
	p.now.Store(next)
}

// share divides a number of places among namespaces with so many queues each:
// none gets more than it needs, and none of those that want more has less than
// another one has. What can't be divided goes to the first of them.
func share(places int, wanted []int) []int {
	shares := make([]int, len(wanted))
	for places > 0 {
		open := 0
		for i := range wanted {
			if shares[i] < wanted[i] {
				open++
			}
		}
		if open == 0 {
			break
		}

		each := max(1, places/open)
		for i := range wanted {
			more := min(each, wanted[i]-shares[i], places)
			shares[i] += more
			places -= more
		}
	}
	return shares
}

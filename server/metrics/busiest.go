package metrics

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// rankEvery is how often the busiest keys are found anew.
const rankEvery = time.Minute

// mostRanked bounds the keys that a ranking compares.
const mostRanked = 10_000

// busiest gives series of their own to a bounded number of keys: those that were used
// most in the last minutes. While there is room, every key gets one. It is safe for
// concurrent use.
type busiest[K comparable, V any] struct {
	most int
	mono func() time.Duration
	// fold adds the counts of a key that loses its series to those of the others.
	fold func(from *V)

	mu    sync.Mutex
	known map[K]*ranked[V]
	uses  map[K]float64 // of all keys, those without series too
	at    time.Duration // of the last ranking
}

type ranked[V any] struct{ value V }

func newBusiest[K comparable, V any](most int, mono func() time.Duration, fold func(from *V)) *busiest[K, V] {
	return &busiest[K, V]{most: most, mono: mono, fold: fold, known: map[K]*ranked[V]{}, uses: map[K]float64{}, at: mono()}
}

// use calls do with the value of a key, or with nil if the key has no series.
func (b *busiest[K, V]) use(key K, do func(*V)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.mono(); now-b.at >= rankEvery {
		b.at = now
		b.rank()
	}
	if _, ok := b.uses[key]; ok || len(b.uses) < mostRanked {
		b.uses[key]++
	}

	r := b.known[key]
	if r == nil && len(b.known) < b.most {
		r = &ranked[V]{}
		b.known[key] = r
	}
	if r == nil {
		do(nil)
		return
	}
	do(&r.value)
}

// rank takes series from keys that others have overtaken. A key that gets a series in
// their place begins at zero, so no counter ever falls. b.mu is held.
func (b *busiest[K, V]) rank() {
	keys := make([]K, 0, len(b.uses))
	for key := range b.uses {
		keys = append(keys, key)
	}
	// A key with a series must be overtaken clearly: a series that comes and goes
	// says little.
	weight := func(key K) float64 {
		if b.known[key] != nil {
			return 2 * b.uses[key]
		}
		return b.uses[key]
	}
	slices.SortFunc(keys, func(x, y K) int { return cmp.Compare(weight(y), weight(x)) })
	keep := map[K]bool{}
	for _, key := range keys[:min(len(keys), b.most)] {
		keep[key] = true
	}

	for key, r := range b.known {
		if !keep[key] && len(keys) > b.most {
			b.fold(&r.value)
			delete(b.known, key)
		}
	}
	for key := range b.uses {
		if b.uses[key] /= 2; b.uses[key] < 1 && b.known[key] == nil {
			delete(b.uses, key)
		}
	}
}

// each calls do for every key that has series, and its value.
func (b *busiest[K, V]) each(do func(key K, value *V)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, r := range b.known {
		do(key, &r.value)
	}
}

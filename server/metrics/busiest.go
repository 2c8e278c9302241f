package metrics

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// rankEvery is the time between two rankings.
const rankEvery = time.Minute

// maxRanked is the largest number of keys that a ranking compares.
const maxRanked = 10_000

// busiest gives separate series to a limited number of keys: those that were used most in the last
// minutes. While series are free, every key gets one. It is safe for concurrent use.
type busiest[K comparable, V any] struct {
	max  int
	mono func() time.Duration
	// fold adds the counts of a key that loses its series to the common counts of all keys without
	// series.
	fold func(from *V)

	mu       sync.Mutex
	ranked   map[K]*entry[V]
	uses     map[K]float64 // recent uses of all keys, including those without series
	rankedAt time.Duration // time of the last ranking
}

type entry[V any] struct{ value V }

func newBusiest[K comparable, V any](maximum int, mono func() time.Duration, fold func(from *V)) *busiest[K, V] {
	return &busiest[K, V]{
		max: maximum, mono: mono, fold: fold, ranked: map[K]*entry[V]{}, uses: map[K]float64{}, rankedAt: mono(),
	}
}

// use calls do with the value of a key, or with nil if the key has no series.
func (b *busiest[K, V]) use(key K, do func(*V)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := b.mono(); now-b.rankedAt >= rankEvery {
		b.rankedAt = now
		b.rank()
	}
	// New keys beyond the bound are not counted, so the memory is bounded.
	if _, ok := b.uses[key]; ok || len(b.uses) < maxRanked {
		b.uses[key]++
	}

	r := b.ranked[key]
	// While some series are free, no key has to lose one.
	if r == nil && len(b.ranked) < b.max {
		r = &entry[V]{}
		b.ranked[key] = r
	}
	if r == nil {
		do(nil)
		return
	}
	do(&r.value)
}

// rank takes series from keys that are used less than other keys. The new series of another key
// starts at zero, so no counter ever decreases. The caller holds b.mu.
func (b *busiest[K, V]) rank() {
	keys := make([]K, 0, len(b.uses))
	for key := range b.uses {
		keys = append(keys, key)
	}
	// A key with a series keeps it until another key is used twice as much. A series that often
	// disappears and returns is of little use.
	weight := func(key K) float64 {
		if b.ranked[key] != nil {
			return 2 * b.uses[key]
		}
		return b.uses[key]
	}
	slices.SortFunc(keys, func(x, y K) int { return cmp.Compare(weight(y), weight(x)) })

	keep := map[K]bool{}
	for _, key := range keys[:min(len(keys), b.max)] {
		keep[key] = true
	}

	for key, r := range b.ranked {
		// An idle key keeps its series while no other key needs it.
		if !keep[key] && len(keys) > b.max {
			b.fold(&r.value)
			delete(b.ranked, key)
		}
	}
	for key := range b.uses {
		// Halving gives recent uses more weight.
		if b.uses[key] /= 2; b.uses[key] < 1 && b.ranked[key] == nil {
			delete(b.uses, key)
		}
	}
}

// each calls do for every key with series.
func (b *busiest[K, V]) each(do func(key K, value *V)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, r := range b.ranked {
		do(key, &r.value)
	}
}

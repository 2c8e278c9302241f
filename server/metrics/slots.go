package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Slots holds the values of a limited number of keys, such as queues with separate series. The
// namespaces share the slots. While some are free, every key gets one. Then a namespace with the
// most slots loses one to a namespace with fewer. So a namespace with many queues does not take the
// slots of others. Slots is safe for concurrent use, and Get of a key with a slot takes no lock.
type Slots[K comparable, V any] struct {
	cfg SlotsConfig[K, V]
	mu  sync.Mutex // held while now is changed
	now atomic.Pointer[slotMap[K, V]]
}

// SlotsConfig configures Slots. All fields must be set.
type SlotsConfig[K comparable, V any] struct {
	Max int
	// Name returns the namespace and the name of a key. If a namespace loses a slot, the key with
	// the last name loses it.
	Name func(K) (namespace, name string)
	// New creates the value of a key that gets a slot. New must not change the map all.
	New func(key K, all map[K]V) V
	// Evict is called when a key loses its slot.
	Evict func(K, V)
}

// slotMap is immutable.
type slotMap[K comparable, V any] struct {
	values       map[K]V
	perNamespace map[string]int
	largest      int // largest value in perNamespace
}

// NewSlots returns Slots that are all free.
func NewSlots[K comparable, V any](cfg SlotsConfig[K, V]) *Slots[K, V] {
	s := &Slots[K, V]{cfg: cfg}
	s.store(map[K]V{})
	return s
}

// All returns the values of all keys. Callers must not change it.
func (s *Slots[K, V]) All() map[K]V { return s.now.Load().values }

// Get returns the value of a key, and assigns a slot if one is free or can be freed. It
// reports whether the key has a slot.
func (s *Slots[K, V]) Get(key K) (V, bool) {
	// Readers see one map with its counts, and take no lock.
	now := s.now.Load()
	if v, ok := now.values[key]; ok {
		return v, true
	}
	if !s.available(now, key) {
		var none V
		return none, false
	}
	return s.add(key)
}

// available reports whether a key without a slot can get one.
func (s *Slots[K, V]) available(now *slotMap[K, V], key K) bool {
	namespace, _ := s.cfg.Name(key)
	// A namespace takes slots from another one only while it has fewer slots. Otherwise the two
	// would swap slots forever.
	return len(now.values) < s.cfg.Max || now.perNamespace[namespace]+1 < now.largest
}

func (s *Slots[K, V]) add(key K) (v V, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Another call may have added the key since the check without the lock.
	now := s.now.Load()
	if v, ok := now.values[key]; ok {
		return v, true
	}
	if !s.available(now, key) {
		return v, false
	}

	// Readers may still use the old map.
	values := maps.Clone(now.values)
	if len(values) >= s.cfg.Max {
		victim := s.victim(now)
		s.cfg.Evict(victim, values[victim])
		delete(values, victim)
	}
	v = s.cfg.New(key, values)
	values[key] = v
	s.store(values)
	return v, true
}

// victim returns the key that loses its slot: the last key by name, of the last namespace among
// those with the most slots.
func (s *Slots[K, V]) victim(now *slotMap[K, V]) (victim K) {
	lastNamespace, lastName := "", ""
	for key := range now.values {
		namespace, name := s.cfg.Name(key)
		// Only the largest namespaces lose a slot.
		if now.perNamespace[namespace] < now.largest {
			continue
		}
		if c := strings.Compare(namespace, lastNamespace); c > 0 || c == 0 && name >= lastName {
			victim, lastNamespace, lastName = key, namespace, name
		}
	}
	return victim
}

// Remove frees the slot of a key.
func (s *Slots[K, V]) Remove(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now.Load()
	if _, ok := now.values[key]; !ok {
		return
	}
	values := maps.Clone(now.values)
	delete(values, key)
	s.store(values)
}

func (s *Slots[K, V]) store(values map[K]V) {
	next := &slotMap[K, V]{values: values, perNamespace: map[string]int{}}
	for key := range values {
		namespace, _ := s.cfg.Name(key)
		next.perNamespace[namespace]++
		next.largest = max(next.largest, next.perNamespace[namespace])
	}
	s.now.Store(next)
}

// divide divides slots among namespaces. wanted has the number that each of them wants. No
// namespace gets more than it wants, and a namespace that wants more has at least as many as any
// other. The first namespaces get the remainder.
func divide(slots int, wanted []int) []int {
	shares := make([]int, len(wanted))
	for slots > 0 {
		unsatisfied := 0
		for i := range wanted {
			if shares[i] < wanted[i] {
				unsatisfied++
			}
		}
		if unsatisfied == 0 {
			break
		}

		// Slots that small namespaces do not need are divided again in the next round.
		each := max(1, slots/unsatisfied)
		for i := range wanted {
			more := min(each, wanted[i]-shares[i], slots)
			shares[i] += more
			slots -= more
		}
	}
	return shares
}

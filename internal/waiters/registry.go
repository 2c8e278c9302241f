package waiters

import (
	"container/list"
	"iter"
	"maps"
	"time"
)

// Registry has the waiters of an engine by the keys of their queues. Its owner protects it with a
// lock.
type Registry[K comparable] struct {
	// Life is the time for which a wake-up is outstanding if no Reserve comes.
	Life time.Duration
	// Emptied, if set, is called when the last waiter of a key has left.
	Emptied func(key K)

	waiting     map[K]*list.List // lists of *Waiter, oldest first, never empty
	outstanding map[K][]Wakeup[K]
	paces       map[K]pace
	manyPaces   int // size of paces above which old pauses are removed
	closed      bool
}

// Add returns a new waiter under keys. After Close it does not wait.
func (r *Registry[K]) Add(keys ...K) *Waiter[K] {
	w := &Waiter[K]{done: make(chan struct{})}
	if r.closed {
		close(w.done)
		return w
	}

	if r.waiting == nil {
		r.waiting, r.outstanding = map[K]*list.List{}, map[K][]Wakeup[K]{}
	}
	for _, key := range keys {
		line := r.waiting[key]
		if line == nil {
			line = list.New()
			r.waiting[key] = line
		}
		w.keys = append(w.keys, key)
		w.places = append(w.places, line.PushBack(w))
	}
	return w
}

// Remove removes a waiter whose Wait has ended, and reports whether it was woken.
func (r *Registry[K]) Remove(w *Waiter[K]) (woken bool) {
	r.remove(w)
	return w.wakeup != nil
}

// Leave removes a waiter whose caller has left. If the waiter was woken, its caller will not
// reserve: in that case Leave withdraws a wake-up and returns it, so that the engine can wake
// another waiter. A second call returns false.
func (r *Registry[K]) Leave(w *Waiter[K]) (wakeup Wakeup[K], woken bool) {
	r.remove(w)
	if w.wakeup == nil {
		return wakeup, false
	}
	wakeup, w.wakeup = *w.wakeup, nil
	// Wake-ups of a key are interchangeable, so the oldest one is withdrawn.
	r.Arrive(wakeup.Key)
	return wakeup, true
}

func (r *Registry[K]) remove(w *Waiter[K]) {
	keys, places := w.keys, w.places
	w.keys, w.places = nil, nil
	for i, key := range keys {
		line := r.waiting[key]
		line.Remove(places[i])
		if line.Len() == 0 {
			delete(r.waiting, key)
			if r.Emptied != nil {
				r.Emptied(key)
			}
		}
	}
}

// Waiting returns how many waiters there are under a key.
func (r *Registry[K]) Waiting(key K) int {
	if line := r.waiting[key]; line != nil {
		return line.Len()
	}
	return 0
}

// Keys returns the keys with waiters.
func (r *Registry[K]) Keys() iter.Seq[K] { return maps.Keys(r.waiting) }

// Wake wakes the oldest waiters under a key until as many wake-ups of the tag are
// outstanding as there are jobs. Expired ones do not count.
func (r *Registry[K]) Wake(key K, tag, jobs int, now time.Duration) {
	for _, o := range r.outstanding[key] {
		if o.Tag == tag && !r.expired(o, now) {
			jobs--
		}
	}
	for ; jobs > 0 && r.waiting[key] != nil; jobs-- {
		r.wake(r.waiting[key].Front().Value.(*Waiter[K]), Wakeup[K]{key, tag, now})
	}
}

// WakeOne wakes a waiter for a job of key that was already deliverable when the waiter was added.
func (r *Registry[K]) WakeOne(w *Waiter[K], key K, tag int, now time.Duration) {
	r.wake(w, Wakeup[K]{key, tag, now})
}

func (r *Registry[K]) wake(w *Waiter[K], wakeup Wakeup[K]) {
	r.remove(w)
	w.wakeup = &wakeup
	close(w.done)
	r.outstanding[wakeup.Key] = append(r.outstanding[wakeup.Key], wakeup)
}

func (r *Registry[K]) expired(w Wakeup[K], now time.Duration) bool { return now-w.at >= r.Life }

// Arrive records a Reserve for a key. It takes the oldest outstanding wake-up and returns its
// tag.
func (r *Registry[K]) Arrive(key K) (tag int, ok bool) {
	list := r.outstanding[key]
	if len(list) == 0 {
		return 0, false
	}
	r.setOutstanding(key, list[1:])
	return list[0].Tag, true
}

// Outstanding returns how many wake-ups of a tag are outstanding.
func (r *Registry[K]) Outstanding(key K, tag int) (n int) {
	for _, o := range r.outstanding[key] {
		if o.Tag == tag {
			n++
		}
	}
	return n
}

// Trim removes the oldest wake-ups of a key until at most n are outstanding, because more callers
// would find no job.
func (r *Registry[K]) Trim(key K, n int) {
	if list := r.outstanding[key]; len(list) > n {
		r.setOutstanding(key, list[len(list)-n:])
	}
}

// NextExpiry returns when the oldest wake-up of a key expires.
func (r *Registry[K]) NextExpiry(key K) (at time.Duration, ok bool) {
	if list := r.outstanding[key]; len(list) > 0 {
		return list[0].at + r.Life, true
	}
	return 0, false
}

// Expire removes and returns the wake-ups without a Reserve within Life. more reports whether
// further wake-ups are outstanding.
func (r *Registry[K]) Expire(now time.Duration) (expired []Wakeup[K], more bool) {
	for key, list := range r.outstanding {
		n := 0
		for n < len(list) && r.expired(list[n], now) {
			n++
		}
		expired = append(expired, list[:n]...)
		r.setOutstanding(key, list[n:])
	}
	return expired, len(r.outstanding) > 0
}

func (r *Registry[K]) setOutstanding(key K, list []Wakeup[K]) {
	if len(list) == 0 {
		delete(r.outstanding, key)
		return
	}
	r.outstanding[key] = list
}

// Close ends all waiters, and returns the outstanding wake-ups. The owner must wake waiters in
// other processes instead.
func (r *Registry[K]) Close() (outstanding []Wakeup[K]) {
	r.closed = true
	for _, line := range r.waiting {
		for line.Len() > 0 {
			w := line.Front().Value.(*Waiter[K])
			r.remove(w)
			close(w.done)
		}
	}
	for _, list := range r.outstanding {
		outstanding = append(outstanding, list...)
	}
	clear(r.outstanding)
	return outstanding
}

package waiters

import "time"

const (
	// leastPause is the pause after the first Reserve in vain. Each further one doubles it.
	leastPause = time.Millisecond
	// MaxPause bounds the pause.
	MaxPause = 25 * time.Millisecond
	// paceMemory is how long a pause is kept that no Reserve in vain has prolonged.
	paceMemory = time.Second
)

// pace is how fast the wake-ups of a key may follow each other.
type pace struct {
	pause time.Duration
	until time.Duration // monotonic
}

// Vain notes a woken caller whose Reserve of a key has found nothing. The next wake-up
// of the key is then due a pause later: 1 ms, and twice as long after each further
// Reserve in vain, up to [MaxPause].
func (r *Registry[K]) Vain(key K, now time.Duration) {
	if r.paces == nil {
		r.paces = map[K]pace{}
	}
	p := r.paces[key]
	p.pause = max(leastPause, min(2*p.pause, MaxPause))
	p.until = now + p.pause
	r.paces[key] = p

	if len(r.paces) <= r.manyPaces {
		return
	}
	for other, p := range r.paces {
		if now-p.until > paceMemory {
			delete(r.paces, other)
		}
	}
	r.manyPaces = 2*len(r.paces) + 100
}

// Delivered notes a Reserve of a key that has found jobs: the next wake-up is due at once.
func (r *Registry[K]) Delivered(key K) { delete(r.paces, key) }

// Pause returns how long the next wake-up of a key has to wait, 0 for not at all.
func (r *Registry[K]) Pause(key K, now time.Duration) time.Duration {
	return max(0, r.paces[key].until-now)
}

// Paces returns how many keys had a Reserve in vain and no delivery since.
func (r *Registry[K]) Paces() int { return len(r.paces) }

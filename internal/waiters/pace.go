package waiters

import "time"

const (
	// leastPause is the pause after the first Reserve without a job. Each further Reserve without a
	// job doubles the pause.
	leastPause = time.Millisecond
	// MaxPause limits the pause.
	MaxPause = 25 * time.Millisecond
	// paceMemory is the time for which a pause is kept after its last extension.
	paceMemory = time.Second
)

// pace is the shortest interval between the wake-ups of a key.
type pace struct {
	pause time.Duration
	until time.Duration // on the monotonic clock
}

// Vain records that a woken caller's Reserve of a key found no job. The next wake-up of the key
// is then due after a pause: 1 ms, doubled by each further such Reserve, up to [MaxPause].
func (r *Registry[K]) Vain(key K, now time.Duration) {
	if r.paces == nil {
		r.paces = map[K]pace{}
	}
	p := r.paces[key]
	p.pause = max(leastPause, min(2*p.pause, MaxPause))
	p.until = now + p.pause
	r.paces[key] = p

	// Old pauses are removed only when the map has doubled, so a call stays cheap on average.
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

// Delivered records that a Reserve of a key found jobs: the next wake-up is due at once.
func (r *Registry[K]) Delivered(key K) { delete(r.paces, key) }

// Pause returns the time that the next wake-up of a key must wait. It returns 0 if the wake-up is
// due.
func (r *Registry[K]) Pause(key K, now time.Duration) time.Duration {
	return max(0, r.paces[key].until-now)
}

// Paces returns how many keys had a Reserve without a job, and no delivery since.
func (r *Registry[K]) Paces() int { return len(r.paces) }

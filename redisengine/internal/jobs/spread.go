package jobs

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// A run ends after this number of jobs or calls, or after this time. A process with few calls
// changes the shard with each call. A burst of calls goes to few shards, because a call of fifty
// jobs costs half as much per job as one of six.
const (
	runLength = 256
	runTime   = 5 * time.Millisecond
)

// run is the shard that consecutive calls of a process share. The zero run is ready to use.
type run struct {
	mu   sync.Mutex
	part byte // selects the shard, whatever the queue's number of shards is
	left int
	ends time.Duration // end of the run, on the monotonic clock
}

// next returns the part for the next job or call.
func (r *run) next() byte { return r.at(clock.Monotonic()) }

func (r *run) at(now time.Duration) byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 || now >= r.ends {
		var b [1]byte
		// Read never fails, see crypto/rand.
		rand.Read(b[:])
		r.part, r.left, r.ends = b[0], runLength, now+runTime
	}
	r.left--
	return r.part
}

package jobs

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
)

// A run ends after so many jobs or calls, and after so long. A process whose
// calls are few so goes to another shard with each, and a burst goes to few
// shards: a call of fifty jobs costs half as much per job as one of six.
const (
	runLength = 256
	runTime   = 5 * time.Millisecond
)

// run is the shard that consecutive calls of a process share. The zero run is
// ready to use.
type run struct {
	mu   sync.Mutex
	part byte // stands for a shard in queues of any number of shards
	left int
	ends time.Duration // on the monotonic clock
}

// next returns the part for one more job or call.
func (r *run) next() byte { return r.at(clock.Monotonic()) }

func (r *run) at(now time.Duration) byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == 0 || now >= r.ends {
		var b [1]byte
		rand.Read(b[:]) // never fails, see crypto/rand
		r.part, r.left, r.ends = b[0], runLength, now+runTime
	}
	r.left--
	return r.part
}

// MakeID implements duly.IDMaker.
func (e *Jobs) MakeID(j *duly.Job) string { return e.makeID(e.Cache.Get(refOf(j)), j) }

// makeID returns an ID for a job of a queue; nil is one that is not known.
func (e *Jobs) makeID(q *catalog.Queue, j *duly.Job) string {
	if j.OrderKey != "" || j.Merge.Set() {
		return duly.MakeID(j)
	}
	return e.newNumber(q).String()
}

// newNumber returns a number for a job without keys. Jobs that are pushed
// together share a shard, but not in a queue with limits: a shard enforces its
// part of each, so jobs in one shard would wait while others have room.
func (e *Jobs) newNumber(q *catalog.Queue) duly.Number {
	if q == nil || len(q.Shards) == 1 || q.Config.MaxJobs != duly.None || q.Config.MaxLeased != duly.None || q.Config.Rate.Limited() {
		return duly.NewNumber()
	}
	return duly.NewNumberIn(e.pushes.next())
}

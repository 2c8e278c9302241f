package wait

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/waiters"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Hub holds the waiters of an engine and wakes them. While there are waiters, it runs one watcher
// for each group of keys that fit into one blocking call.
type Hub struct {
	*catalog.Catalog
	mu          sync.Mutex
	views       map[Door]*waitedQueue
	watches     map[string]*watcher      // watchers by key group
	watched     map[string]*watchedShard // watched shards by the name of their marker
	waiters     waiters.Registry[Door]
	guesses     int                  // number of views with a presumed queue
	dueTimers   map[string]*dueTimer // timers by the name of the shard's marker
	leaseTimers map[*catalog.Shard]*leaseTimer
	tick        clock.Timer
	// expiryTimer fires when a wake-up expires.
	expiryTimer clock.Timer
	recheck     time.Duration // interval of the poll; tests may switch the poll off
	// later has the wake-ups that wait for their pause.
	later  map[laterKey]*laterWake
	vains  atomic.Int64 // number of keys whose last Reserve found no job
	closed bool
	ctx    context.Context // ends when the hub is closed
	end    context.CancelFunc
	// busy counts the running activities of the hub. A test that controls the clock waits until it
	// is 0.
	busy activity
}

// Door is one of the two ways into a queue: for callers that take jobs for themselves, or for
// dispatchers. Each queue has its jobs at one door. At the other door it looks as if it did not
// exist.
type Door struct {
	Ref        duly.QueueRef
	Dispatcher bool
}

// doorOf returns the door at which a queue has jobs.
func doorOf(q *catalog.Queue) Door { return Door{q.Ref, q.Dispatched()} }

// waitedQueue is a door of a queue with waiters.
type waitedQueue struct {
	door Door
	q    *catalog.Queue // nil if the queue is unknown, or has no jobs at this door
	// The presumed queue while the queue is unknown; nil if the hub already has too many guesses.
	guess *catalog.Queue
	// quiet is set after a look or a Reserve that found no job while the queue was watched. A
	// marker or a timer ends it.
	quiet bool
}

// watches returns the queue whose markers are watched, or nil.
func (v *waitedQueue) watches() *catalog.Queue {
	if v.q == nil {
		return v.guess
	}
	return v.q
}

// guessed is the version of a presumed queue. No shard has it.
const guessed = "?"

// waiter is one Wait in progress. The tag of a wake-up is the shard whose jobs caused it.
type waiter = waiters.Waiter[Door]

// wakeup is a waiter that was woken for a shard and has not reserved yet.
type wakeup = waiters.Wakeup[Door]

// watcher makes one blocking call after another on the markers of one group's shards. It runs while
// the group has watched shards.
type watcher struct {
	h     *Hub
	group string
	// shards has the watched shards; asked has the markers of the call in flight. A shard that is
	// no longer watched stays in that call until the call ends. If the call then takes its
	// marker, the marker is put back.
	shards map[string]*watchedShard
	asked  map[string]bool
	turns  uint64 // number of calls so far
	nudged bool   // whether the call in flight must end early
}

// watchedShard is a shard with waiters.
type watchedShard struct {
	v     *waitedQueue
	q     *catalog.Queue
	s     *catalog.Shard
	state *catalog.State // state of the shard
	group string
}

// copied returns a copy for use without the lock, because watch may assign another queue to the
// original.
func (d *watchedShard) copied() *watchedShard {
	return &watchedShard{q: d.q, s: d.s, state: d.state, group: d.group}
}

func (h *Hub) watchOf(q *catalog.Queue, s *catalog.Shard) *watchedShard {
	return &watchedShard{q: q, s: s, state: h.State(q, s), group: h.Link.Group(s.Tag)}
}

// dueTimer fires at a shard's next due time. The process then polls the shard.
type dueTimer struct {
	s     *catalog.Shard
	at    int64         // on the server's clock, in ms
	fires time.Duration // on the monotonic clock
	timer clock.Timer
}

// leaseTimer steps a shard when the first lease ends that this process has granted there.
type leaseTimer struct {
	q     *catalog.Queue
	s     *catalog.Shard
	fires time.Duration // on the monotonic clock
	timer clock.Timer
}

// Go runs f in a goroutine, unless the hub is closed. The lock prevents the engine from closing
// in between.
func (h *Hub) Go(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.goLocked(f)
	}
}

// goLocked is like Go for a caller that holds the lock and has checked that the hub is open.
func (h *Hub) goLocked(f func()) {
	// The count rises before the goroutine starts, so that a test never sees the hub idle between
	// the two.
	h.busy.begin()
	h.Tasks.Go(func() {
		defer h.busy.end()
		f()
	})
}

// PutMarker returns a marker that was taken here. If that fails, the next poll by any process finds
// the jobs of the marker.
func (h *Hub) PutMarker(s *catalog.Shard, member string, score int64) {
	h.putMarkerBack(s.Name("marker"), member, score)
}

// putMarkerBack returns a marker that this process can't use, unless the queue is gone. If another
// marker was set since, the higher number of jobs and the earlier time win.
func (h *Hub) putMarkerBack(marker, member string, score int64) {
	_, _ = h.Link.Run(h.Store.Ctx, markerCall(marker, member, score))
}

func markerCall(marker, member string, score int64) link.Call {
	config := strings.TrimSuffix(marker, "marker") + "config"
	// The configuration of a group is part of its topic's configuration.
	if topic, _, ok := strings.Cut(marker, "}:@"); ok {
		config = topic + "}:config"
	}
	return link.Call{Script: store.ScriptMark.Script, Keys: []string{config, marker},
		Args: []string{member, strconv.FormatInt(score, 10)}}
}

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

// Hub holds the waiters of an engine and wakes them. It runs one watcher per group
// of keys that one blocking call can have, and only while somebody waits.
type Hub struct {
	*catalog.Catalog
	mu          sync.Mutex
	views       map[Door]*waitedQueue
	watches     map[string]*watcher      // by group
	watched     map[string]*watchedShard // by the name of the marker
	waiters     waiters.Registry[Door]
	guesses     int                  // views with a guess
	dueTimers   map[string]*dueTimer // that are kept, by the name of the marker
	leaseTimers map[*catalog.Shard]*leaseTimer
	tick        clock.Timer
	// expiryTimer fires when a wake-up expires.
	expiryTimer clock.Timer
	recheck     time.Duration // a test may switch the look off by it
	// later are the wake-ups that wait for their pause.
	later  map[laterKey]*laterWake
	vains  atomic.Int64 // keys whose last Reserve was in vain
	closed bool
	ctx    context.Context // ends with the hub
	end    context.CancelFunc
	// Busy counts what is on its way inside the hub: a test that owns the
	// clock waits for 0.
	busy activity
}

// Door is one of the two ways into a queue: one is for callers that take jobs for
// themselves, the other for dispatchers. A queue has jobs at one door. At the other it
// looks as if it did not exist.
type Door struct {
	Ref        duly.QueueRef
	Dispatcher bool
}

// doorOf returns the door at which a queue has jobs.
func doorOf(q *catalog.Queue) Door { return Door{q.Ref, q.Dispatched()} }

// waitedQueue is a door of a queue that somebody waits at.
type waitedQueue struct {
	door  Door
	q     *catalog.Queue // nil while it is unknown, or has no jobs at this door
	guess *catalog.Queue // what it may be while it is unknown; nil: many are guessed at already
	// quiet is set after a look or a Reserve that found nothing, while the
	// queue was watched. A marker or a timer says when that may have changed.
	quiet bool
}

// watches returns the queue whose markers are watched, nil for none.
func (v *waitedQueue) watches() *catalog.Queue {
	if v.q == nil {
		return v.guess
	}
	return v.q
}

// guessed is the version of a queue that is guessed. No shard has it.
const guessed = "?"

// waiter is one Wait under way. A wake-up's tag is the shard that it was for.
type waiter = waiters.Waiter[Door]

// wakeup is a waiter that was woken for a shard and has not reserved yet.
type wakeup = waiters.Wakeup[Door]

// watcher makes one blocking call after the other on the markers of one group's
// shards. It runs while there are any.
type watcher struct {
	h     *Hub
	group string
	// Shards are the watched ones; asked are the markers of the call that is
	// on its way. A shard that is no longer watched stays in that call until the call
	// ends. A marker that the call takes from it is put back.
	shards map[string]*watchedShard
	asked  map[string]bool
	turns  uint64 // calls so far
	nudged bool   // the call on its way is to end early
}

// watchedShard is a shard with waiters.
type watchedShard struct {
	v     *waitedQueue
	q     *catalog.Queue
	s     *catalog.Shard
	state *catalog.State // of the shard
	group string
}

// copied returns a copy for use without the lock: watch may give the original
// another queue.
func (d *watchedShard) copied() *watchedShard {
	return &watchedShard{q: d.q, s: d.s, state: d.state, group: d.group}
}

func (h *Hub) watchOf(q *catalog.Queue, s *catalog.Shard) *watchedShard {
	return &watchedShard{q: q, s: s, state: h.State(q, s), group: h.Link.Group(s.Tag)}
}

// dueTimer is a shard's next due moment, which this process keeps: when it has
// come, the process looks.
type dueTimer struct {
	s     *catalog.Shard
	at    int64         // on the server's clock, in ms
	fires time.Duration // monotonic
	timer clock.Timer
}

// leaseTimer steps a shard when the first of the leases ends that this process has
// handed out.
type leaseTimer struct {
	q     *catalog.Queue
	s     *catalog.Shard
	fires time.Duration // monotonic
	timer clock.Timer
}

// Go runs f on a goroutine, unless the hub is closed. While the lock is held and
// the hub is open, the engine does not end either.
func (h *Hub) Go(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.goLocked(f)
	}
}

// goLocked is Go for a caller that holds the lock and has seen that the hub is
// open.
func (h *Hub) goLocked(f func()) {
	h.busy.begin()
	h.Tasks.Go(func() {
		defer h.busy.end()
		f()
	})
}

// PutMarker gives a marker back that was taken here. If that fails, the next look
// of any process finds what it stood for.
func (h *Hub) PutMarker(s *catalog.Shard, member string, score int64) {
	h.putMarkerBack(s.Name("marker"), member, score)
}

// putMarkerBack gives a marker back that this process has no use for, unless the
// queue is gone. Where another was set meanwhile, the higher number of jobs and the
// sooner moment win.
func (h *Hub) putMarkerBack(marker, member string, score int64) {
	_, _ = h.Link.Run(h.Store.Ctx, markerCall(marker, member, score))
}

func markerCall(marker, member string, score int64) link.Call {
	config := strings.TrimSuffix(marker, "marker") + "config"
	if topic, _, ok := strings.Cut(marker, "}:@"); ok { // of a group: the configuration is the topic's
		config = topic + "}:config"
	}
	return link.Call{Script: store.ScriptMark.Script, Keys: []string{config, marker}, Args: []string{member, strconv.FormatInt(score, 10)}}
}

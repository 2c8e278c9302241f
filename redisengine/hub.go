package redisengine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/waiters"
	"github.com/dulymq/duly/redisengine/internal/link"
)

const (
	// recheck is how often the heads of everything that is watched are looked
	// at: it bounds a lost wake-up, a dead socket and a dead time-keeper.
	recheck = 2 * time.Second
	// longestSleep bounds a timer, so that a server's clock that was set is
	// noticed.
	longestSleep = time.Minute
)

// hub is who waits for which queue. Per group of keys that may stand in one
// blocking call it runs one watch, and that only while somebody waits.
type hub struct {
	e       *Engine
	mu      sync.Mutex
	views   map[duly.QueueRef]*view
	watches map[string]*watch   // by group
	watched map[string]*watched // by the name of the marker
	waiters waiters.Registry[duly.QueueRef]
	guesses int                // views with a guess
	moments map[string]*moment // that are kept, by the name of the marker
	keepers map[*shard]*keeper
	tick    clock.Timer
	// doubting is the timer after which those who were woken should have come.
	doubting clock.Timer
	recheck  time.Duration // a test may switch the look off by it
	closed   bool
	ctx      context.Context // ends with the hub
	end      context.CancelFunc
	// busy counts what is on its way inside the hub: a test that owns the
	// clock waits for 0.
	busy activity
}

// view is a queue that somebody waits for.
type view struct {
	ref   duly.QueueRef
	q     *queue // nil while it is unknown
	guess *queue // what it may be while it is unknown; nil: many are guessed at already
	// quiet: it was looked at while it was watched, or reserved from just
	// before, and nothing was deliverable; a marker or a moment says when that
	// may have changed.
	quiet bool
}

// waiter is one Wait under way. A wake-up's tag is the shard that it was for.
type waiter = waiters.Waiter[duly.QueueRef]

func newHub(e *Engine) *hub {
	h := &hub{
		e: e, views: map[duly.QueueRef]*view{}, watches: map[string]*watch{}, watched: map[string]*watched{},
		moments: map[string]*moment{}, keepers: map[*shard]*keeper{}, recheck: recheck,
	}
	h.waiters.Life, h.waiters.Emptied = wakeupLife, h.removeView
	h.ctx, h.end = context.WithCancel(e.ctx)
	return h
}

// enter adds a waiter to its queues, and tells which of them have to be looked
// at before it may sleep.
func (h *hub) enter(refs []duly.QueueRef) (w *waiter, unsure []duly.QueueRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w = h.waiters.Add(refs...)
	if h.closed {
		return w, nil
	}

	for _, ref := range refs {
		v := h.views[ref]
		if v == nil {
			v = &view{ref: ref}
			h.views[ref] = v
		}
		h.learn(v, h.e.queues.get(ref))
		if v.q != nil && v.q.justEmptied(h.e.local().Mono()) {
			v.quiet = true
		}
		if !v.quiet {
			unsure = append(unsure, ref)
		}
	}
	return w, unsure
}

// learn takes over what is known of a view's queue and watches its shards.
func (h *hub) learn(v *view, q *queue) {
	if v.q == q && (q != nil || v.guess != nil) {
		return
	}
	h.unwatch(v)
	h.unguess(v)
	if q == nil && h.guesses < mostGuesses {
		v.guess = h.e.guess(v.ref)
		h.guesses++
	}
	v.q, v.quiet = q, false
	h.watch(v)
}

// mostGuesses bounds the unknown queues whose markers are watched: in a cluster
// each costs a connection, and whoever may wait can wait for any name. The others
// are heard of by the look.
const mostGuesses = 100

// guessed is the version of a queue that is guessed. No shard has it.
const guessed = "?"

// guess is what a queue will be if somebody with the settings of this process
// makes it. Its shards' markers have the names that they will have then, so that
// the first job wakes who waited before there was a queue.
func (e *Engine) guess(ref duly.QueueRef) *queue {
	q := &queue{ref: ref, cfg: e.queueConfig(), version: guessed}
	q.shards = make([]*shard, q.cfg.Shards)
	for i := range q.shards {
		q.shards[i] = &shard{index: i, tag: shardTag(e.prefix, ref, i)}
	}
	return q
}

func (h *hub) unguess(v *view) {
	if v.guess != nil {
		v.guess = nil
		h.guesses--
	}
}

// watches is the queue whose markers are watched for a view, nil for none.
func (v *view) watches() *queue {
	if v.q == nil {
		return v.guess
	}
	return v.q
}

// leave takes a waiter out of its queues and tells whether it was woken.
func (h *hub) leave(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiters.Remove(w)
}

// removeView forgets a queue that nobody waits for any more. The caller holds the
// lock.
func (h *hub) removeView(ref duly.QueueRef) {
	v := h.views[ref]
	h.unwatch(v)
	h.unguess(v)
	delete(h.views, ref)
}

// spawn does something beside, unless the hub is closed. While the lock is held
// and it is not, the engine does not end either.
func (h *hub) spawn(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.begin(f)
	}
}

// begin is spawn for who holds the lock, and has seen that the hub is not closed.
func (h *hub) begin(f func()) {
	h.busy.begin()
	h.e.work.begin(func() {
		defer h.busy.end()
		f()
	})
}

// mark gives a marker back that was taken here. If that fails, the next look
// of somebody finds what it stood for.
func (h *hub) mark(s *shard, member string, score int64) {
	h.restore(s.name("marker"), member, score)
}

// quieten notes that queues were looked at and had nothing.
func (h *hub) quieten(refs []duly.QueueRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ref := range refs {
		if v := h.views[ref]; v != nil && v.q != nil {
			v.quiet = true
		}
	}
}

// reconfigured tells of a queue that was made or changed in this process. Of
// several who tell at once the last one may not be the one who knows best.
func (h *hub) reconfigured(q *queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.views[q.ref]
	if best := h.e.queues.get(q.ref); v != nil && best != nil {
		h.learn(v, best)
	}
}

// close ends every Wait and every watch.
func (h *hub) close() {
	h.mu.Lock()
	h.closed = true
	wakeups := h.waiters.Close()
	for _, k := range h.keepers {
		k.timer.Stop()
	}
	for _, timer := range []clock.Timer{h.tick, h.doubting} {
		if timer != nil {
			timer.Stop()
		}
	}
	moments := slices.Collect(maps.Values(h.moments))
	clear(h.moments)
	for _, m := range moments {
		m.timer.Stop()
	}
	h.mu.Unlock()
	h.end()
	h.handOn(moments, wakeups)
}

// handOn lets others keep the moments, and reserve for those who were woken and
// have not. One request for all of them, with an end of its own: a server that
// is down holds up no Close for longer.
func (h *hub) handOn(moments []*moment, wakeups []wakeup) {
	var calls []link.Call
	for _, m := range moments {
		calls = append(calls, restoring(m.s.name("marker"), "later", m.at))
	}
	for _, w := range wakeups {
		if s := h.e.queues.get(w.Key).shard(w.Tag); s != nil {
			calls = append(calls, restoring(s.name("marker"), "now", 1))
		}
	}
	ctx, cancel := context.WithTimeout(h.e.ctx, min(lookLimit, h.e.link.Options().Retry))
	defer cancel()
	h.e.link.RunAll(ctx, calls)
}

// activity counts what is under way.
type activity struct {
	mu   sync.Mutex
	n    int
	all  uint64        // that ever began
	idle chan struct{} // closed at 0, if somebody waits for it
}

func (a *activity) begin() {
	a.mu.Lock()
	a.n++
	a.all++
	a.mu.Unlock()
}

func (a *activity) end() {
	a.mu.Lock()
	if a.n--; a.n == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
	a.mu.Unlock()
}

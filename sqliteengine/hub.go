package sqliteengine

import (
	"slices"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/waiters"
)

const (
	// recheck is how long after a waiter was woken another one is, if nobody
	// has reserved meanwhile: the first may have vanished.
	recheck = 2 * time.Second
	// longestSleep bounds the timer, so that a wall clock that was set is
	// noticed.
	longestSleep = 2 * time.Second
)

// hub is what may be known of queues without asking the writer: it wakes
// waiters and holds the engine's one timer. The writer tells it of every
// commit.
type hub struct {
	e  *Engine
	mu sync.Mutex
	// views holds every queue, and those that are not there but waited for.
	views   map[door]*view
	waiters waiters.Registry[door]
	// leasing are the views with leases, which the engine takes back by itself. The
	// timer serves them and those with waiters.
	leasing map[*view]struct{}
	timer   clock.Timer
	armed   int64 // the moment that the timer is set for; never: not set
	closed  bool
}

// door is one of the two ways into a queue: callers that take jobs for themselves
// stand at one, dispatchers at the other. A queue has jobs at one of them; at the other
// it looks as if it did not exist.
type door struct {
	ref        duly.QueueRef
	dispatcher bool
}

// other is the other door of the same queue.
func (d door) other() door { return door{d.ref, !d.dispatcher} }

// view is a queue as it was when it was last committed, and who waits for it.
type view struct {
	door    door
	exists  bool
	cfg     duly.QueueConfig
	ready   int64
	open    func(now int64) int // deliveries that pause and limits allow
	opensAt int64               // when the rate limit opens; 0: there is none
	first   moments             // lower bounds
	next    moments             // of those the ones that lie ahead, for the timer

	kind    kind
	called  int64         // of a group: when it was last reserved from
	unsure  bool          // of a group: only a look can tell what its lag is worth
	last    int64         // of a topic: the ordinal of its newest message
	floor   heldFloor     // of a topic
	readers chan struct{} // of a topic: closed when messages enter

	stepping bool // a step was asked for and has not been committed
}

// waiter is one Wait under way.
type waiter = waiters.Waiter[door]

func newHub(e *Engine) *hub {
	h := &hub{e: e, views: map[door]*view{}, leasing: map[*view]struct{}{}, armed: never}
	h.waiters.Life = recheck
	h.waiters.Emptied = func(d door) { h.forget(h.views[d]) }
	return h
}

// config is the configuration of a queue, if it exists.
func (h *hub) config(ref duly.QueueRef) (cfg duly.QueueConfig, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range []door{{ref, false}, {ref, true}} {
		if v := h.views[d]; v != nil && v.exists && v.kind != kindTopic {
			return v.cfg, true
		}
	}
	return cfg, false
}

// view finds the view of a door, or makes one for a queue that is not there.
func (h *hub) view(d door) *view {
	v := h.views[d]
	if v == nil {
		v = &view{door: d}
		v.empty()
		h.views[d] = v
	}
	return v
}

func (v *view) empty() {
	v.exists, v.ready = false, 0
	v.kind, v.unsure, v.called, v.last, v.floor = kindQueue, false, 0, 0, heldFloor{}
	v.wakeReaders()
	v.first = noMoments
	v.next, v.opensAt = v.first, 0
	v.open = func(int64) int { return 0 }
	v.cfg = duly.QueueConfig{}
}

// reset tells all queues anew, after the store was opened.
func (h *hub) reset(queues map[duly.QueueRef]*queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for d, v := range h.views {
		if q := queues[d.ref]; q == nil || q.door() != d {
			h.empty(v)
		}
	}
	now := h.now()
	for _, q := range queues {
		h.update(q, now)
	}
	h.arm(now)
}

// publish tells of the queues that a transaction has touched.
func (h *hub) publish(t *tx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, q := range t.touched {
		if q.destroyed {
			h.empty(h.view(q.door()))
			h.leaveOther(q)
			continue
		}
		if !t.lookedAt(q) {
			h.update(q, now)
		}
	}
	for _, l := range t.looks {
		h.learn(l.q, now)
		h.found(l, now)
	}
}

// lookedAt tells whether a look has asked for the queue: it knows more than
// the queue's sizes tell.
func (t *tx) lookedAt(q *queue) bool {
	return slices.ContainsFunc(t.looks, func(l look) bool { return l.q == q })
}

// update takes a queue's new truth over, wakes who has something to take by
// it, and brings the timer nearer if need be.
func (h *hub) update(q *queue, now int64) {
	v := h.learn(q, now)
	h.wake(v, now, v.ready)
	h.armFor(v, now)
	if q.log != nil {
		h.updateGroups(q, now)
	}
}

func (h *hub) learn(q *queue, now int64) *view {
	v := h.view(q.door())
	if q.cfgDirty {
		h.leaveOther(q)
	}

	v.exists, v.cfg, v.ready, v.first = true, q.cfg, q.sizes.Ready, q.first
	v.stepping, v.kind = false, q.kind
	switch q.kind {
	case kindTopic:
		h.learnTopic(v, q)
	case kindGroup:
		h.learnGroup(v, q)
	}

	if v.open, v.opensAt = q.openLater(now); q.sizes.Blocked == 0 {
		v.next.expiry = never // nobody waits for what an expiry could free
	} else {
		v.next.expiry = v.first.expiry
	}

	v.next.due, v.next.leaseEnd = v.first.due, v.first.leaseEnd
	if !h.e.cfg.Manual {
		if q.sizes.Leased > 0 || q.kind == kindTopic && v.first.leaseEnd != never {
			h.leasing[v] = struct{}{}
		} else {
			delete(h.leasing, v)
		}
	}

	for range q.reserves {
		h.waiters.Arrive(v.door)
	}

	if v.ready == 0 && q.reserves > 0 || !v.passed(now) { // more than there are jobs come in vain
		h.waiters.Trim(v.door, int(v.ready))
	}
	return v
}

// leaveOther empties the other door of a queue: its delivery may have changed.
func (h *hub) leaveOther(q *queue) {
	if v := h.views[q.door().other()]; v != nil && v.exists {
		h.empty(v)
	}
}

// openLater is open for a moment that comes later, and when the rate limit
// opens. It does not hold on to the queue.
func (q *queue) openLater(now int64) (open func(int64) int, opensAt int64) {
	if !q.cfg.Paused && q.cfg.MaxLeased == duly.None && !q.cfg.Rate.Limited() {
		return unlimited, 0
	}
	if r := q.cfg.Rate; r.Limited() {
		opensAt = q.bucket.Fill(r, now).OpensAt(r)
	}
	limits := queue{cfg: q.cfg, bucket: q.bucket, sizes: q.sizes}
	return limits.open, opensAt
}

func unlimited(int64) int { return never }

// wake wakes waiters for n deliverable jobs, as far as limits allow and others
// are not on their way already. Where moments have passed, a look has to tell
// how many there are beside.
func (h *hub) wake(v *view, now, n int64) {
	if h.waiters.Waiting(v.door) == 0 {
		return
	}
	if v.passed(now) {
		h.e.inbox.wantLook()
		if v.first.expiry < now {
			return // some that count as ready may be over
		}
	}
	h.wakeFor(v, min(n, int64(v.open(now))))
}

// wakeFor wakes the oldest waiters until as many are on their way as there are
// deliverable jobs.
func (h *hub) wakeFor(v *view, n int64) {
	h.waiters.Wake(v.door, 0, int(n), h.e.cfg.Clock.Mono())
}

// passed tells whether there may be more deliverable jobs, or fewer, than are
// counted as ready.
func (v *view) passed(now int64) bool {
	return v.first.due <= now || v.first.leaseEnd <= now || v.first.expiry < now || v.unsure
}

// found takes over what a look has found.
func (h *hub) found(l look, now int64) {
	v := h.view(l.q.door())
	if v.next = l.next; v.unsure {
		v.unsure, v.ready = false, l.n
	}
	h.wakeFor(v, l.n)
	h.armFor(v, now)
}

// empty notes that a queue is not there.
func (h *hub) empty(v *view) {
	v.empty()
	h.waiters.Trim(v.door, 0)
	h.forget(v)
}

// forget drops the view of a queue that is not there and that nobody waits
// for.
func (h *hub) forget(v *view) {
	if v.exists {
		return
	}
	delete(h.leasing, v)
	if h.waiters.Waiting(v.door) == 0 {
		delete(h.views, v.door)
	}
}

func (h *hub) now() int64 { return clock.Milli(h.e.cfg.Clock.Now()) }

// close ends every Wait.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.waiters.Close()
}

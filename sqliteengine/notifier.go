package sqliteengine

import (
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/waiters"
)

const (
	// recheck is the time after which the notifier wakes another waiter if the woken one has not
	// reserved, because that one may have disappeared.
	recheck = 2 * time.Second
	// longestSleep bounds the timer, so that a wall clock set forward is noticed.
	longestSleep = 2 * time.Second
)

// notifier knows the committed state of the queues, wakes waiters and holds the engine's one timer.
// The writer reports every commit to it.
//
// The timer is set for the next time at which a waited queue may have a deliverable job. Unless the
// engine is manual, it is also set for the next lease end. It fires at least every longestSleep,
// because nothing else notices a wall clock set forward. A needless check in memory is cheap.
// Without waiters and leases no timer runs.
type notifier struct {
	e  *store
	mu sync.Mutex
	// views holds all existing queues, and unknown queues that have waiters.
	views   map[waitKey]*queueView
	waiters waiters.Registry[waitKey]
	// leasing holds the queues with leases, which the engine takes back by itself. The timer serves
	// these queues and those with waiters.
	leasing map[*queueView]struct{}
	// scheduled holds the queues with a next tick. firing holds the queues whose due ticks are
	// being fired. Both maps are empty in a manual engine.
	scheduled   map[*queueView]struct{}
	firing      map[duly.QueueRef]bool
	tickWarning string // the last logged error of a pass
	timer       duly.Timer
	armed       int64 // time for which the timer is set, or never
	closed      bool
}

// waitKey is a queue and a kind of callers. Dispatchers of push queues wait apart from callers that
// take jobs for themselves. Each queue serves only one of the two kinds of callers. For the other
// kind it looks like an unknown queue.
type waitKey struct {
	ref        duly.QueueRef
	dispatcher bool
}

// otherKind returns the same queue with the other kind of callers.
func (d waitKey) otherKind() waitKey { return waitKey{d.ref, !d.dispatcher} }

// queueView is the last committed state of a queue.
type queueView struct {
	key          waitKey
	exists       bool
	cfg          duly.QueueConfig
	ready        int64
	allowance    func(now int64) int // returns the number of deliveries that pause, closing and limits allow
	limitOpensAt int64               // time at which closing and rate limit allow the next delivery, or 0
	earliest     eventTimes          // lower bounds for the times of the next events
	upcoming     eventTimes          // those of the times that lie in the future, for the timer

	kind      kind
	called    int64         // time of the last Reserve, for a group
	uncounted bool          // whether only a poll can count the deliverable messages, for a group
	last      int64         // ordinal of the newest message, for a topic
	floor     heldFloor     // the group that needs the oldest message, for a topic
	readers   chan struct{} // closed when messages enter the log, for a topic

	stepping bool          // whether a step was requested and has not committed yet
	tickHold time.Duration // monotonic time until which due ticks are not fired
}

// waiter is one Wait call.
type waiter = waiters.Waiter[waitKey]

func newNotifier(e *store) *notifier {
	h := &notifier{e: e, views: map[waitKey]*queueView{}, leasing: map[*queueView]struct{}{}, armed: never,
		scheduled: map[*queueView]struct{}{}, firing: map[duly.QueueRef]bool{}}
	h.waiters.Life = recheck
	h.waiters.Emptied = func(d waitKey) { h.forget(h.views[d]) }
	return h
}

// config returns the configuration of a queue if it exists.
func (h *notifier) config(ref duly.QueueRef) (cfg duly.QueueConfig, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The mode of delivery is unknown here, so both views are visited. Only one of them is in use.
	for _, d := range []waitKey{{ref, false}, {ref, true}} {
		if v := h.views[d]; v != nil && v.exists && v.kind != kindTopic {
			return v.cfg, true
		}
	}
	return cfg, false
}

// viewOf returns the state of a queue. For an unknown queue it creates a state.
func (h *notifier) viewOf(d waitKey) *queueView {
	v := h.views[d]
	if v == nil {
		v = &queueView{key: d}
		v.clear()
		h.views[d] = v
	}
	return v
}

func (v *queueView) clear() {
	v.exists, v.ready, v.tickHold = false, 0, 0
	v.kind, v.uncounted, v.called, v.last, v.floor = kindQueue, false, 0, 0, heldFloor{}
	v.wakeReaders()
	v.earliest = noEvents
	v.upcoming, v.limitOpensAt = v.earliest, 0
	v.allowance = func(int64) int { return 0 }
	v.cfg = duly.QueueConfig{}
}

// reset replaces the state of all queues after the store was opened.
func (h *notifier) reset(queues map[duly.QueueRef]*queue) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Destroyed queues keep their waiters, for which they are unknown queues.
	for d, v := range h.views {
		if q := queues[d.ref]; q == nil || q.waitKey() != d {
			h.clear(v)
		}
	}
	now := h.now()
	for _, q := range queues {
		h.update(q, now)
	}
	h.arm(now)
}

// applyCommit applies a commit.
func (h *notifier) applyCommit(t *tx) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, q := range t.touched {
		if q.destroyed {
			h.clear(h.viewOf(q.waitKey()))
			h.clearOther(q)
			continue
		}
		// If a poll of this transaction has read the queue, the loop below uses its exact result.
		if !t.polled(q) {
			h.update(q, now)
		}
	}

	for _, p := range t.polls {
		h.apply(p.q, now)
		h.applyPoll(p, now)
	}
}

// update applies a queue's new state, wakes waiters and sets the timer earlier if
// necessary.
func (h *notifier) update(q *queue, now int64) {
	v := h.apply(q, now)
	h.wake(v, now, v.ready)
	h.fireDue(v, now)
	h.armFor(v, now)
	if q.log != nil {
		h.updateGroups(q, now)
	}
}

// apply applies a queue's new state.
func (h *notifier) apply(q *queue, now int64) *queueView {
	v := h.viewOf(q.waitKey())
	// The delivery mode may have changed, and with it the kind of callers.
	if q.cfgDirty {
		h.clearOther(q)
	}

	v.exists, v.cfg, v.ready, v.earliest = true, q.cfg, q.sizes.Ready, q.earliest
	v.stepping, v.kind = false, q.kind
	switch q.kind {
	case kindTopic:
		h.applyTopic(v, q)
	case kindGroup:
		h.applyGroup(v, q)
	}

	if v.allowance, v.limitOpensAt = q.allowanceLater(now); q.sizes.Blocked == 0 {
		// An expiry makes jobs ready only if some jobs are blocked by an expired one.
		v.upcoming.expiry = never
	} else {
		v.upcoming.expiry = v.earliest.expiry
	}

	v.upcoming.due, v.upcoming.leaseEnd = v.earliest.due, v.earliest.leaseEnd
	h.applyTicks(v, q)
	if !h.e.cfg.Manual {
		if q.sizes.Leased > 0 || q.kind == kindTopic && v.earliest.leaseEnd != never {
			h.leasing[v] = struct{}{}
		} else {
			delete(h.leasing, v)
		}
	}

	// Each Reserve ends one wake-up, even that of a caller that did not wait.
	for range q.reserves {
		h.waiters.Arrive(v.key)
	}

	// Waiters that were woken in addition find no job, so their wake-ups end as well.
	if !h.tickWaits(v, now) && (v.ready == 0 && q.reserves > 0 || !v.outdated(now)) {
		h.waiters.Trim(v.key, int(v.ready))
	}
	return v
}

// clearOther empties the queue's state for the other kind of callers, because its
// delivery mode may have changed.
func (h *notifier) clearOther(q *queue) {
	if v := h.views[q.waitKey().otherKind()]; v != nil && v.exists {
		h.clear(v)
	}
}

// wake wakes waiters for n deliverable jobs, within the limits and except for waiters
// already woken. If a time has passed, it requests a poll to count further jobs.
func (h *notifier) wake(v *queueView, now, n int64) {
	// A queue without waiters needs no count.
	if h.waiters.Waiting(v.key) == 0 {
		return
	}
	if h.tickWaits(v, now) {
		h.wakeUpTo(v, 1)
	}
	if v.outdated(now) {
		h.e.inbox.requestPoll()
		if v.earliest.expiry < now {
			// Some of the ready jobs may have expired, so a poll must count the others.
			return
		}
	}
	h.wakeUpTo(v, min(n, int64(v.allowance(now))))
}

// wakeUpTo wakes the oldest waiters until as many are woken as there are deliverable jobs.
func (h *notifier) wakeUpTo(v *queueView, n int64) {
	h.waiters.Wake(v.key, 0, int(n), h.e.cfg.Clock.Mono())
}

// outdated reports whether the number of deliverable jobs may differ from v.ready.
func (v *queueView) outdated(now int64) bool {
	return v.earliest.due <= now || v.earliest.leaseEnd <= now || v.earliest.expiry < now || v.uncounted
}

// applyPoll applies the result of a poll.
func (h *notifier) applyPoll(p pollResult, now int64) {
	v := h.viewOf(p.q.waitKey())
	if v.upcoming = p.upcoming; v.uncounted {
		v.uncounted, v.ready = false, p.ready
	}
	h.wakeUpTo(v, p.ready)
	h.armFor(v, now)
}

// clear marks a queue as unknown.
func (h *notifier) clear(v *queueView) {
	v.clear()
	h.waiters.Trim(v.key, 0)
	h.forget(v)
}

// forget drops an unknown queue without waiters.
func (h *notifier) forget(v *queueView) {
	if v.exists {
		return
	}
	// The timer must not visit a destroyed queue.
	delete(h.leasing, v)
	delete(h.scheduled, v)
	if h.waiters.Waiting(v.key) == 0 {
		delete(h.views, v.key)
	}
}

func (h *notifier) now() int64 { return clock.Milli(h.e.cfg.Clock.Now()) }

// close ends all Wait calls.
func (h *notifier) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.timer != nil {
		h.timer.Stop()
	}
	h.waiters.Close()
}

// nextCheck returns when the timer must check the queue, or never. Past times don't count, because
// a poll was already requested for them.
func (h *notifier) nextCheck(v *queueView, now int64, mono time.Duration, waited bool) int64 {
	at := int64(never)
	ahead := func(moment int64) {
		if moment > now {
			at = min(at, moment)
		}
	}

	// A lease end matters even without waiters, because the engine takes back the lease.
	ahead(v.upcoming.leaseEnd)
	// Nor does a tick need waiters, except in a manual engine.
	if waited || !h.e.cfg.Manual {
		ahead(h.tickAt(v, now))
	}
	if !waited {
		return at
	}

	ahead(v.upcoming.due)
	if v.upcoming.expiry != never {
		// The last millisecond of a TTL still counts.
		ahead(v.upcoming.expiry + 1)
	}
	if v.limitOpensAt != 0 {
		ahead(v.limitOpensAt)
	}
	if recheckAt, woken := h.waiters.NextExpiry(v.key); woken {
		ahead(now + max(1, clock.Millis(recheckAt-mono)))
	}

	return at
}

// armFor sets the timer earlier if the queue needs it.
func (h *notifier) armFor(v *queueView, now int64) {
	waited := h.waiters.Waiting(v.key) > 0
	_, leasing := h.leasing[v]
	_, scheduled := h.scheduled[v]
	if !waited && !leasing && !scheduled {
		return
	}
	at := min(h.nextCheck(v, now, h.e.cfg.Clock.Mono(), waited), now+longestSleep.Milliseconds())
	if at < h.armed {
		h.set(at)
	}
}

// arm sets the timer for all queues.
func (h *notifier) arm(now int64) {
	mono, at := h.e.cfg.Clock.Mono(), int64(never)
	anyone := len(h.leasing) > 0 || len(h.scheduled) > 0
	for d := range h.waiters.Keys() {
		at, anyone = min(at, h.nextCheck(h.views[d], now, mono, true)), true
	}
	for v := range h.leasing {
		at = min(at, h.nextCheck(v, now, mono, false))
	}
	for v := range h.scheduled {
		at = min(at, h.nextCheck(v, now, mono, false))
	}
	// With nothing to watch, the timer stays off, so that the engine uses no processor time.
	if !anyone {
		h.armed = never
		return
	}
	h.set(min(at, now+longestSleep.Milliseconds()))
}

func (h *notifier) set(at int64) {
	h.armed = at
	// A commit after Close must not start the timer again.
	if h.closed {
		return
	}
	d := max(0, clock.FromMilli(at).Sub(h.e.cfg.Clock.Now()))
	if h.timer == nil {
		h.timer = h.e.cfg.Clock.AfterFunc(d, h.tick)
		return
	}
	h.timer.Reset(d)
}

// tick runs when the timer fires.
func (h *notifier) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}

	now, mono := h.now(), h.e.cfg.Clock.Mono()
	// Wake-ups whose waiters did not reserve go to other waiters below.
	h.waiters.Expire(mono)
	for d := range h.waiters.Keys() {
		v := h.views[d]
		h.wake(v, now, v.ready)
	}

	for v := range h.leasing {
		// One step at a time is enough, because its commit requests the next step.
		if v.earliest.leaseEnd <= now && !v.stepping {
			v.stepping = true
			h.requestStep(v.key.ref)
		}
	}

	for v := range h.scheduled {
		h.fireDue(v, now)
	}

	h.arm(now)
}

// overdueQueues returns the waited queues for which a time has passed. The map's values are the
// numbers of deliverable jobs that their waiters need.
func (h *notifier) overdueQueues() map[waitKey]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	queues := map[waitKey]int{}
	// Queues without waiters are left out, because a poll costs a read.
	for d := range h.waiters.Keys() {
		if v := h.views[d]; v.exists && v.outdated(now) {
			queues[d] = h.waiters.Waiting(d) + h.waiters.Outstanding(d, 0)
		}
	}
	return queues
}

// floor returns the group that needs the oldest message of a topic, as far as memory has it.
func (h *notifier) floor(topic duly.QueueRef) heldFloor {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.views[waitKey{ref: topic}]; v != nil {
		return v.floor
	}
	return heldFloor{}
}

// called returns the time of a group's last Reserve, as far as memory has it.
func (h *notifier) called(group duly.QueueRef) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.views[waitKey{ref: group}]; v != nil {
		return v.called
	}
	return 0
}

// requestStep makes the writer step a queue whose first lease has ended.
func (h *notifier) requestStep(ref duly.QueueRef) {
	h.e.submit(&op{Call: items(stepBound), done: func(err error) { h.stepDone(ref, err) }, run: func(t *tx) error {
		q := t.queue(ref)
		if q == nil {
			return nil
		}
		more, err := q.step(t)
		if more && err == nil {
			h.requestStep(ref)
		}
		return err
	}})
}

// stepDone lets the timer request a failed step again. A successful step reports through
// its commit.
func (h *notifier) stepDone(ref duly.QueueRef, err error) {
	if err == nil {
		return
	}
	h.e.w.warnOnce(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range []waitKey{{ref, false}, {ref, true}} {
		if v := h.views[d]; v != nil {
			v.stepping = false
		}
	}
}

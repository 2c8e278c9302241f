package model

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// recheck is the time after which another waiter is woken if the first one has not reserved,
	// because it may have disappeared.
	recheck = 2 * time.Second
	// longestSleep bounds a timer, so that a wall clock which was set is
	// noticed.
	longestSleep = time.Minute
)

// waiter is one Wait in progress.
type waiter struct {
	queues []duly.QueueRef
	// dispatcher says whether the caller is a dispatcher, which decides which queues have jobs for
	// it.
	dispatcher bool
	until      int64 // end of its timeout, by the wall clock
	woken      bool
	// Closed when the waiter is woken, when its time is over, or when the engine is closed.
	done chan struct{}
}

// Wait implements duly.Engine.
func (e *Engine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if err := contract.ValidateWait(&p); err != nil {
		return false, err
	}
	if err := e.begin(ctx); err != nil {
		return false, err
	}

	w := &waiter{queues: refs(p.Namespace, p.Queues), dispatcher: p.Dispatcher, done: make(chan struct{})}
	for _, ref := range w.queues {
		if err := e.known(ref); err != nil {
			e.mu.Unlock()
			return false, err
		}
	}
	t, _ := e.now()
	w.until = clock.CeilMilli(t.Add(p.Timeout))
	e.waiters = append(e.waiters, w)

	// wake is called before the timer is set, because a job that is already there ends the Wait at
	// once.
	e.wake()
	if w.woken || p.Timeout == 0 {
		e.leave(w)
		e.mu.Unlock()
		return w.woken, nil
	}

	timeout := e.cfg.Clock.AfterFunc(p.Timeout, func() { e.overtime(w) })
	defer timeout.Stop()
	e.notify()
	e.mu.Unlock()
	return e.await(ctx, w)
}

// overtime ends a Wait whose timeout has passed. It removes the waiter while the clock moves,
// before the goroutine returns, because Idle must not count it as asleep.
func (e *Engine) overtime(w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.leave(w) {
		close(w.done)
	}
}

func (e *Engine) await(ctx context.Context, w *waiter) (bool, error) {
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	err := ctx.Err()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leave(w)
	switch {
	// The caller has left, but the job for which it was woken is still there.
	case w.woken && err != nil:
		e.pass(w.queues, w.dispatcher) // nobody will reserve the job for which this waiter was woken
		return false, err
	case w.woken:
		return true, nil
	case e.closed:
		return false, duly.ErrClosed
	}
	return false, err
}

func refs(namespace string, names []string) (refs []duly.QueueRef) {
	for _, name := range names {
		refs = append(refs, duly.QueueRef{Namespace: namespace, Name: name}.Normal())
	}
	return refs
}

// leave removes the waiter, and reports whether it was registered.
func (e *Engine) leave(w *waiter) bool {
	i := slices.Index(e.waiters, w)
	if i >= 0 {
		e.waiters = slices.Delete(e.waiters, i, i+1)
	}
	return i >= 0
}

// pass wakes other waiters instead of a caller that does not reserve from these queues, although it
// may have been woken for them.
func (e *Engine) pass(queues []duly.QueueRef, dispatcher bool) {
	for _, ref := range queues {
		if q := e.queues[ref]; q != nil && q.serves(dispatcher) {
			q.woken = max(0, q.woken-1)
		}
	}
	e.wake()
}

// Pass implements contract.Passer.
func (e *Engine) Pass(_ context.Context, namespace string, queues []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, dispatcher := range []bool{false, true} { // the caller may be of either kind
		e.pass(refs(namespace, queues), dispatcher)
	}
}

// wake wakes one waiter per deliverable job, and sets the timer for the next time at which a job
// may become deliverable.
func (e *Engine) wake() {
	if e.closed {
		return
	}
	t, now := e.now()
	if !e.cfg.Manual {
		e.takeBack(now)
	}

	// A copy, because a waiter that wakes leaves the list.
	for _, w := range slices.Clone(e.waiters) {
		for _, ref := range w.queues {
			q := e.queues[ref]
			if q == nil || !q.serves(w.dispatcher) {
				continue
			}
			if q.recheckAt != 0 && now >= q.recheckAt {
				q.woken, q.recheckAt = 0, 0
			}
			n := q.deliverable(now, q.woken+1)
			if slices.ContainsFunc(q.shards, e.canFire) {
				n++ // one waiter is woken to fire the tick
			}
			if q.woken = min(q.woken, n); q.woken < n { // further woken waiters would find no job
				q.woken++
				q.recheckAt = now + recheck.Milliseconds()
				w.woken = true
				close(w.done)
				e.leave(w)
				break
			}
		}
	}
	e.setTimer(t)
}

// takeBack steps the queues whose first lease has ended, fires due ticks, and lets due messages
// enter their logs.
func (e *Engine) takeBack(now int64) {
	for _, t := range e.topics {
		for _, l := range t.logs {
			for l.enterDue(now) {
			}
		}
	}
	for _, q := range e.queues {
		for _, s := range q.shards {
			if first := s.sets[duly.StateLeased].first(); first != nil && first.leaseEnd <= now {
				for s.step(now) {
				}
			}
		}
		e.fireAll(q)
	}
}

// deliverable returns how many jobs a Reserve may find now. It counts no further
// than to most.
func (q *queue) deliverable(now int64, most int) (n int) {
	for _, s := range q.shards {
		if n += s.deliverable(now, most-n); n == most {
			break
		}
	}
	return n
}

func (s *shard) deliverable(now int64, most int) int {
	s = s.withoutRunOutProbe(now)
	if s.closed(now) {
		return 0
	}
	open := s.open(now)
	first := s.sets[duly.StateLeased].first()
	runOut := first != nil && first.leaseEnd <= now

	// An expired lease frees a place at the next step, so it counts as one free place.
	if runOut && !s.cfg.Paused && s.cfg.MaxLeased != duly.None {
		open = max(open, 1)
	}
	if limited := s.limiter.Most(); limited >= 0 {
		open = min(open, limited)
	}
	most = min(most, open)
	n := count(s.readyJobs(now), most)
	if runOut {
		n += count(s.runOut(now), most)
	}
	if s.reader != nil {
		n += s.unread(now, most)
	}
	if over := s.ending.first(); s.size(duly.StateBlocked) > 0 && over != nil && over.over(now) {
		n++ // an expired job may hold a key
	}
	return min(n, most)
}

// runOut yields the jobs whose lease has ended.
func (s *shard) runOut(now int64) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		for j := range s.sets[duly.StateLeased].all() {
			if j.leaseEnd > now || !yield(j) {
				return
			}
		}
	}
}

// setTimer sets the engine's one timer to the next time at which something may change.
func (e *Engine) setTimer(t time.Time) {
	now := clock.Milli(t)
	next := int64(0)
	soonest := func(at int64) {
		if at > now && (next == 0 || at < next) {
			next = at
		}
	}

	for _, w := range e.waiters {
		for _, ref := range w.queues {
			if q := e.queues[ref]; q != nil && q.serves(w.dispatcher) {
				q.moments(now, soonest)
				e.tickMoments(q, now, soonest)
			}
		}
	}

	if !e.cfg.Manual {
		for _, t := range e.topics {
			t.moments(soonest)
		}
		for _, q := range e.queues {
			e.tickMoments(q, now, soonest)
			for _, s := range q.shards {
				if first := s.sets[duly.StateLeased].first(); first != nil {
					soonest(first.leaseEnd)
				}
			}
		}
	}

	if e.timer != nil {
		e.timer.Stop()
	}
	if next == 0 {
		return
	}

	sleep := min(clock.FromMilli(next).Sub(t), longestSleep)
	e.timer = e.cfg.Clock.AfterFunc(sleep, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.wake()
		e.notify()
	})
}

// moments calls soonest with each time at which the queue may have a deliverable job.
func (q *queue) moments(now int64, soonest func(int64)) {
	for _, s := range q.shards {
		s.moments(now, soonest)
	}
	soonest(q.recheckAt)
}

func (s *shard) moments(now int64, soonest func(int64)) {
	s = s.withoutRunOutProbe(now)
	if next := s.nextDue(now); next != nil {
		soonest(next.DueAt)
	}
	if s.reader != nil {
		s.reader.log.moments(soonest)
	}
	place := &job{leaseEnd: now + 1} // sorts before any number
	for j := range s.sets[duly.StateLeased].behind(place) {
		soonest(j.leaseEnd)
		break
	}
	soonest(s.closing.Clip(now).Until)
	if s.cfg.Rate.Limited() {
		rate := s.limits().Rate
		soonest(s.bucket.Fill(rate, now).OpensAt(rate))
	}
	if first := s.ending.first(); s.size(duly.StateBlocked) > 0 && first != nil {
		soonest(first.end() + 1)
	}
}

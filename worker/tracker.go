package worker

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// activeJob is a delivery from its Reserve until the engine has answered its settlement.
type activeJob struct {
	delivery Delivery
	route    *route
	handler  *jobHandler // handler of the job's route
	ctx      jobContext
	cancel   context.CancelCauseFunc
	sent     instant // time before the Reserve was sent

	// tracker.mu guards these fields.

	index     int // index in tracker.running; −1 once the handler has returned
	lease     lease
	abandoned bool // whether the worker has released the job while its handler runs
}

// cause returns the cause of the handler's context, nil if the context has not ended.
func (j *activeJob) cause() error { return context.Cause(j.ctx.Context) }

// canceled reports whether the job was removed while its handler ran.
func (j *activeJob) canceled() bool { return j.cause() == duly.ErrCanceled }

// tracker has every delivery that the worker is responsible for: while its handler runs,
// while its outcome waits, and while its Settle is in flight. The loops of a worker share
// it.
type tracker struct {
	slots    int
	slotFree signal // signals that enough slots may be free, or that all jobs are done
	outcomes signal // signals that an outcome waits to be settled
	leaseDue signal // signals that a lease is due before the renewer's timer fires

	mu        sync.Mutex
	running   []*activeJob
	limit     int // limit of the slots in use, from 1 to slots
	reserving int // number of slots that the Reserves in flight may fill
	needed    int // number of free slots for which the fetcher waits
	pending   batch.Queue[settlement]
	settling  int // number of outcomes of the Settle in flight
	stopping  bool
	renewAt   time.Duration // time at which the renewer's timer fires
}

// settlement is an outcome with its job.
type settlement struct {
	job     *activeJob
	outcome duly.SettleRequest
}

// size returns how much a settlement adds to a Settle.
func (s settlement) size() (items, bytes int) {
	return 1, len(s.outcome.Result) + len(s.outcome.Error)
}

// signal wakes one goroutine. Several signals before the goroutine wakes count once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) notify() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func newTracker(slots int) *tracker {
	t := &tracker{
		slots: slots, limit: slots, renewAt: never,
		slotFree: newSignal(), outcomes: newSignal(), leaseDue: newSignal(),
	}
	t.pending.Size = settlement.size
	return t
}

// free returns how many jobs may be reserved now.
func (t *tracker) free() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.freeLocked()
}

// freeOr is like free, and makes slotFree notify the caller once needed slots are free.
func (t *tracker) freeOr(needed int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.needed = needed
	return t.freeLocked()
}

func (t *tracker) freeLocked() int {
	free := t.limit - len(t.running) - t.reserving
	unsettled := t.pending.Len() + t.settling
	// At most twice as many outcomes as slots are unsettled, so a slow store slows the worker down.
	// Twice as many keep the calls full, because the outcomes of the next Settle gather while one
	// is in flight.
	return max(0, min(free, 2*t.slots+free-unsettled, duly.MaxBatch))
}

// addReserving reserves n slots for the jobs of a Reserve. A negative n frees slots.
func (t *tracker) addReserving(n int) {
	t.mu.Lock()
	t.reserving += n
	t.mu.Unlock()
}

// setLimit sets the limit of the slots in use. It returns the limit, cut to 1…slots, and reports
// whether it has changed.
func (t *tracker) setLimit(slots int) (limit int, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit = min(max(slots, 1), t.slots)
	changed = limit != t.limit
	t.limit = limit
	return limit, changed
}

// inUse returns the number of slots in use, and their limit.
func (t *tracker) inUse() (slots, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.running), t.limit
}

// start adds jobs whose handlers are about to run. It returns false if the worker is stopping. In
// that case the jobs must be released.
func (t *tracker) start(jobs []*activeJob) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return false
	}

	for _, j := range jobs {
		j.index = len(t.running)
		t.running = append(t.running, j)
		// The renewer has to be woken only if its timer fires too late.
		if j.lease.renewAt < t.renewAt {
			t.renewAt = j.lease.renewAt
			t.leaseDue.notify()
		}
	}
	return true
}

// verify makes the renewer extend the leases of jobs that may have been removed. The engine's
// answer shows which jobs were removed.
func (t *tracker) verify(removed func(*activeJob) bool, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.running {
		l := &j.lease
		if l.released || !removed(j) {
			continue
		}
		l.suspect, l.verifying, l.renewAt = true, false, now
		t.renewAt = now
		t.leaseDue.notify()
	}
}

// releaseLease stops extending the lease of a job.
func (t *tracker) releaseLease(j *activeJob) {
	t.mu.Lock()
	j.lease.released = true
	t.mu.Unlock()
}

// finish frees the slot of a job whose handler has returned, and queues its outcome.
func (t *tracker) finish(j *activeJob, out duly.SettleRequest) {
	t.mu.Lock()
	// The worker has released the job already, and its receipt is no longer current.
	if j.abandoned {
		t.mu.Unlock()
		return
	}
	t.removeLocked(j)
	t.settleLocked(j, out)
	notify := t.stopping || t.freeLocked() >= t.needed
	t.mu.Unlock()

	t.outcomes.notify()
	if notify {
		t.slotFree.notify()
	}
}

// refuse releases a job whose handler was never started.
func (t *tracker) refuse(j *activeJob) {
	t.mu.Lock()
	j.index = -1
	t.settleLocked(j, duly.SettleRequest{As: duly.Release})
	t.mu.Unlock()
	t.outcomes.notify()
}

// settleLocked queues an outcome for the next Settle.
func (t *tracker) settleLocked(j *activeJob, out duly.SettleRequest) {
	out.Receipt = j.delivery.Receipt
	t.pending.Put(settlement{j, out})
}

// removeLocked removes a running job. The last running job takes its place in the list.
func (t *tracker) removeLocked(j *activeJob) {
	last := len(t.running) - 1
	moved := t.running[last]
	t.running[j.index], moved.index = moved, j.index
	t.running[last] = nil
	t.running = t.running[:last]
	j.index = -1
}

// stop lets no more jobs start.
func (t *tracker) stop() {
	t.mu.Lock()
	t.stopping = true
	t.mu.Unlock()
}

// counts returns how many handlers run, and how many outcomes are unsettled.
func (t *tracker) counts() (running, unsettled int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.running), t.pending.Len() + t.settling
}

// done reports whether no job is left.
func (t *tracker) done() bool {
	running, unsettled := t.counts()
	return running+unsettled == 0
}

// idle reports whether no handler runs.
func (t *tracker) idle() bool {
	running, _ := t.counts()
	return running == 0
}

// cancelAll ends the context of every running handler.
func (t *tracker) cancelAll(cause error) {
	t.mu.Lock()
	running := append([]*activeJob(nil), t.running...)
	t.mu.Unlock()
	// Cancel runs functions of the users of a context, so the lock is not held.
	for _, j := range running {
		j.cancel(cause)
	}
}

// abandon releases every job whose handler still runs, and ignores what those handlers
// return later. It returns the number of jobs.
func (t *tracker) abandon() int {
	t.mu.Lock()
	n := len(t.running)
	for len(t.running) > 0 {
		j := t.running[0]
		t.removeLocked(j)
		j.abandoned = true
		t.settleLocked(j, duly.SettleRequest{As: duly.Release})
	}
	t.mu.Unlock()
	t.outcomes.notify()
	return n
}

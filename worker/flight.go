package worker

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/batch"
)

// moment is a reading of both hands of the worker's clock.
type moment struct {
	mono time.Duration
	wall time.Time
}

// flight is a delivery from when it was leased until the engine has answered
// its settlement.
type flight struct {
	delivery Delivery
	route    *route
	handler  *jobHandler // of the route
	ctx      jobContext
	cancel   context.CancelCauseFunc
	sent     moment // before the Reserve that brought it

	// What follows is guarded by table.mu.

	place     int // in table.running; −1 once the handler has returned
	lease     lease
	abandoned bool // the worker has ended without its handler
}

// lease is what the worker knows of a lease.
type lease struct {
	length time.Duration // what an extension gives
	from   moment        // before the call that gave it was sent
	// trusted is for how long after from the lease is held to be ours.
	trusted time.Duration
	renewAt time.Duration // on the monotonic hand
	holdEnd time.Duration // on the monotonic hand
	// letGo: it is not extended any more.
	letGo bool
	// gone: it is lost, or may be.
	gone bool
	// doubted is set when the engine reports the job as removed, until an Extend
	// that was sent later succeeds. asking is set while such an Extend runs.
	doubted, asking bool
	// notified: the handler's context has ended, because the lease is gone or will be.
	notified bool
}

const never = time.Duration(math.MaxInt64)

// give starts the lease anew: it was given by a call sent at from.
func (l *lease) give(from moment, length, margin time.Duration) {
	l.from, l.trusted = from, length-margin
	l.renewAt = from.mono + length/3
}

// lost reports whether the lease may have ended by now. It is judged by both
// hands: monotonic time does not notice a machine that was asleep, and wall
// time may be set back.
func (l *lease) lost(now moment) bool {
	return now.mono-l.from.mono >= l.trusted || now.wall.Sub(l.from.wall) >= l.trusted
}

// table holds every delivery that the worker is answerable for: running, then
// decided, then in the Settle under way. It is the one place where the parts
// of a worker meet.
type table struct {
	slots   int
	freed   signal // there may be room for as many as need says, or all is done
	decided signal // there is something to settle
	look    signal // a lease needs the keeper sooner than it knows

	mu       sync.Mutex
	running  []*flight
	limit    int // of the slots in use, from 1 to slots
	asked    int // slots that the Reserves under way are to fill
	need     int // room that the next Reserve waits for
	pending  batch.Queue[settlement]
	sending  int // outcomes in the Settle under way
	stopping bool
	lookAt   time.Duration // when the keeper looks next
}

// settlement is an outcome with the flight that it ends.
type settlement struct {
	flight  *flight
	outcome duly.SettleRequest
}

// size is how much a settlement adds to a Settle.
func (s settlement) size() (items, bytes int) {
	return 1, len(s.outcome.Result) + len(s.outcome.Error)
}

// signal wakes one sleeper. Raised twice before it is heard it is heard once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func newTable(slots int) *table {
	t := &table{slots: slots, limit: slots, freed: newSignal(), decided: newSignal(), look: newSignal(), lookAt: never}
	t.pending.Size = settlement.size
	return t
}

// room is how many jobs may be reserved now: as many as there are free slots,
// so that every job that is leased is started; and only while the outcomes
// that the engine has not answered yet are at most twice the slots, so that a
// slow store holds the worker back. Twice, because that is what keeps the calls
// full: while one Settle is under way the next one gathers.
func (t *table) room() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.roomLocked()
}

// roomFor is how much room there is. Where that is less than need the caller
// sleeps until freed.
func (t *table) roomFor(need int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.need = need
	return t.roomLocked()
}

func (t *table) roomLocked() int {
	free := t.limit - len(t.running) - t.asked
	unsettled := t.pending.Len() + t.sending
	return max(0, min(free, 2*t.slots+free-unsettled, duly.MaxBatch))
}

// ask takes n slots for a Reserve; less than 0: that one has ended.
func (t *table) ask(n int) {
	t.mu.Lock()
	t.asked += n
	t.mu.Unlock()
}

// start takes deliveries in that are about to run. false: the worker is
// stopping, and they are to be released.
func (t *table) start(flights []*flight) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return false
	}
	for _, f := range flights {
		f.place = len(t.running)
		t.running = append(t.running, f)
		if f.lease.renewAt < t.lookAt {
			t.lookAt = f.lease.renewAt
			t.look.raise()
		}
	}
	return true
}

// doubt makes the keeper extend the leases of flights whose jobs may have been
// removed. The answer shows which ones were.
func (t *table) doubt(removed func(*flight) bool, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.running {
		l := &f.lease
		if l.letGo || !removed(f) {
			continue
		}
		l.doubted, l.asking, l.renewAt = true, false, now
		t.lookAt = now
		t.look.raise()
	}
}

// letGo stops extending a flight's lease.
func (t *table) letGo(f *flight) {
	t.mu.Lock()
	f.lease.letGo = true
	t.mu.Unlock()
}

// setLimit sets the limit of the slots in use. It returns the limit within its bounds, and
// reports whether that has changed.
func (t *table) setLimit(slots int) (limit int, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit = min(max(slots, 1), t.slots)
	changed = limit != t.limit
	t.limit = limit
	return limit, changed
}

// inUse returns the number of slots in use, and their limit.
func (t *table) inUse() (slots, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.running), t.limit
}

// finish takes a flight whose handler has returned out of its slot, and keeps
// what is to be settled.
func (t *table) finish(f *flight, out duly.SettleRequest) {
	t.mu.Lock()
	if f.abandoned {
		t.mu.Unlock()
		return
	}
	t.removeLocked(f)
	t.settleLocked(f, out)
	freed := t.stopping || t.roomLocked() >= t.need
	t.mu.Unlock()
	t.decided.raise()
	if freed {
		t.freed.raise()
	}
}

// give keeps an outcome for a flight that was never started.
func (t *table) give(f *flight, out duly.SettleRequest) {
	t.mu.Lock()
	f.place = -1
	t.settleLocked(f, out)
	t.mu.Unlock()
	t.decided.raise()
}

// settleLocked keeps an outcome for the next Settle.
func (t *table) settleLocked(f *flight, out duly.SettleRequest) {
	out.Receipt = f.delivery.Receipt
	t.pending.Put(settlement{f, out})
}

func (t *table) removeLocked(f *flight) {
	last := len(t.running) - 1
	moved := t.running[last]
	t.running[f.place], moved.place = moved, f.place
	t.running[last] = nil
	t.running = t.running[:last]
	f.place = -1
}

// stop lets no more flights start.
func (t *table) stop() {
	t.mu.Lock()
	t.stopping = true
	t.mu.Unlock()
}

// left is how many flights run, and how many are to be settled.
func (t *table) left() (running, unsettled int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.running), t.pending.Len() + t.sending
}

// cancelAll ends the context of every running handler.
func (t *table) cancelAll(cause error) {
	t.mu.Lock()
	running := append([]*flight(nil), t.running...)
	t.mu.Unlock()
	for _, f := range running {
		f.cancel(cause)
	}
}

// abandon releases every flight whose handler still runs, and no longer
// listens to that handler. It returns how many there were.
func (t *table) abandon() int {
	t.mu.Lock()
	n := len(t.running)
	for len(t.running) > 0 {
		f := t.running[0]
		t.removeLocked(f)
		f.abandoned = true
		t.settleLocked(f, duly.SettleRequest{As: duly.Release})
	}
	t.mu.Unlock()
	t.decided.raise()
	return n
}

package schedule

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cron"
)

// Firing fires the due ticks of one process. An engine calls Round when it finds a due tick.
// It is safe for concurrent use.
type Firing struct {
	engine contract.Firer
	clock  duly.Clock
	log    *slog.Logger
	// observer is nil for none.
	observer atomic.Pointer[contract.Firing]

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	rounds  map[place]*round
	held    map[name]heldTick
	logged  map[event]int64 // last logged version of each schedule and event
}

// place identifies a shard of a queue.
type place struct {
	queue duly.QueueRef
	shard int
}

// name is a schedule.
type name struct {
	queue duly.QueueRef
	name  string
}

// event is an event of a schedule that is logged once per version.
type event struct {
	name
	message string
}

// heldTick is a due tick that this process does not fire until a time on the monotonic clock.
type heldTick struct {
	version, next int64
	until         time.Duration
}

// round is a running round, for whose end other calls wait.
type round struct {
	done    chan struct{}
	outcome Outcome
	err     error
}

// Outcome is the result of a round.
type Outcome struct {
	// Fired is the number of items that were fired.
	Fired int
	// More reports whether another round may find due ticks.
	More bool
	// Pause is the time for which the process does not fire due ticks that cannot fire now. 0 means
	// that there are no such ticks.
	Pause time.Duration
}

// NewFiring returns a Firing of an engine.
func NewFiring(engine contract.Firer, clock duly.Clock, log *slog.Logger) *Firing {
	return &Firing{
		engine: engine, clock: clock, log: log,
		rounds: map[place]*round{}, held: map[name]heldTick{}, logged: map[event]int64{},
	}
}

// ObserveFire implements contract.FireObserver.
func (f *Firing) ObserveFire(observer contract.Firing) {
	if observer == nil {
		f.observer.Store(nil)
		return
	}
	f.observer.Store(&observer)
}

// observed calls the engine, and the observer before and after the call.
func (f *Firing) observed(ctx context.Context, q duly.QueueRef, now int64, items []contract.FireItem) (
	results []contract.FireResult, err error,
) {
	if observer := f.observer.Load(); observer != nil {
		var end func([]contract.FireResult, error)
		ctx, items, end = (*observer)(ctx, q, now, items)
		// The function ends a span also if the engine panics.
		defer func() { end(results, err) }()
	}
	return f.engine.Fire(ctx, q, items)
}

// Close waits until the rounds and functions under way have returned. All later calls of
// Round return [duly.ErrClosed].
func (f *Firing) Close() {
	f.mu.Lock()
	f.closed = true

	// A round takes the lock to end, so the lock is released before the wait.
	f.mu.Unlock()
	f.running.Wait()
}

// Go runs a function on a goroutine that Close waits for. It reports false after Close.
func (f *Firing) Go(run func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.goLocked(run)
}

func (f *Firing) goLocked(run func()) bool {
	if f.closed {
		return false
	}
	f.running.Go(run)
	return true
}

// Round reads due schedules of a shard and fires their ticks. It skips ticks that cannot
// fire yet, so they do not delay later ticks. If a round of the shard is running already, Round waits for
// its end and returns its result. If ctx ends, Round returns and the running round continues.
func (f *Firing) Round(ctx context.Context, q duly.QueueRef, shard int) (Outcome, error) {
	r, err := f.join(ctx, place{q.Normal(), shard})
	if err != nil {
		return Outcome{}, err
	}
	select {
	case <-r.done:
		return r.outcome, r.err
	case <-ctx.Done():
		return Outcome{}, contract.Unanswered(ctx.Err())
	}
}

// join returns the running round of the shard, or starts one.
func (f *Firing) join(ctx context.Context, p place) (*round, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.rounds[p]; r != nil {
		return r, nil
	}

	r := &round{done: make(chan struct{})}
	started := f.goLocked(func() {
		// Other calls may join the round, so it outlives the call that started it.
		r.outcome, r.err = f.round(context.WithoutCancel(ctx), p)

		// A later call must start a new round, because this round may have read the schedules too
		// early.
		f.mu.Lock()
		delete(f.rounds, p)
		f.mu.Unlock()
		close(r.done)
	})
	if !started {
		return nil, duly.ErrClosed
	}
	f.rounds[p] = r
	return r, nil
}

func (f *Firing) round(ctx context.Context, p place) (o Outcome, err error) {
	for cursor := ""; ; {
		due, err := f.engine.DueSchedules(ctx, p.queue, p.shard, cursor)
		if err != nil {
			return o, err
		}
		progress, more, err := f.fire(ctx, p, &due, &o)
		// Without progress another round would find the same ticks, so it would spin.
		if err != nil || progress || due.Next == "" {
			o.More = progress && (more || due.Next != "")
			return o, err
		}
		cursor = due.Next
	}
}

// fire fires the ticks of one page. progress reports that a schedule has moved on, and more that one of
// them is still due.
func (f *Firing) fire(ctx context.Context, p place, due *contract.DueSchedules, o *Outcome) (progress, more bool, err error) {
	items, more := f.items(due, o)
	// Every tick of the page is held for now.
	if len(items) == 0 {
		return false, false, nil
	}
	results, err := f.observed(ctx, p.queue, due.Now, items)
	if err != nil {
		return false, false, err
	}
	for i := range results {
		progress = f.note(p.queue, &items[i], &results[i], o) || progress
	}
	return progress, more, nil
}

// items returns the items of one call to Fire for due schedules. more reports whether some of these
// schedules are still due after the call.
func (f *Firing) items(due *contract.DueSchedules, o *Outcome) (items []contract.FireItem, more bool) {
	size := 0
	for i := range due.Schedules {
		r := &due.Schedules[i]
		if pause := f.holds(r); pause > 0 {
			o.pause(pause)
			continue
		}
		t, err := Timing(&r.Schedule)
		if err != nil {
			f.logOnce(r.Queue, r.Name, r.Version, "a schedule cannot be fired by this process", "error", err)
			o.pause(f.hold(r.Queue, r.Name, r.Version, r.Next))
			continue
		}
		f.compare(r, t)

		// The size of a call is limited. Items that do not fit are left to the next round.
		own := Fold(r, t, due.Now, due.TTL)
		if room := min(duly.MaxBatch-len(items), (duly.MaxBatchBytes-size)/max(len(r.Template.Body), 1)); len(own) > room {
			return append(items, own[:max(room, 0)]...), true
		}
		items = append(items, own...)
		size += len(own) * len(r.Template.Body)
		if n := len(own); n > 0 && own[n-1].Following != 0 && own[n-1].Following <= due.Now {
			more = true
		}
	}
	return items, more
}

// compare logs a stored next tick that this process would not have computed, because its time zone
// data differs from that of another process. The tick fires nevertheless.
func (f *Firing) compare(r *contract.ScheduleRecord, t cron.Timing) {
	if own := nextTick(t, r.Next-1); own != r.Next {
		f.logOnce(r.Queue, r.Name, r.Version, "the next tick of a schedule differs from this process's own result; "+
			"compare the time zone data of all processes",
			"tick", contract.TickText(r.Next), "own", contract.TickText(own), "zone", r.Zone)
	}
}

// note handles the result of an item. It reports whether the schedule has moved on.
func (f *Firing) note(q duly.QueueRef, item *contract.FireItem, result *contract.FireResult, o *Outcome) bool {
	switch result.Status {
	case contract.FireFired:
		o.Fired++
		if result.Run.Err != nil {
			f.logOnce(q, item.Name, item.Version, "a tick made no run, because the settings of its queue do not allow it",
				"tick", contract.TickText(item.Tick), "error", result.Run.Err)
		}
	case contract.FireStale, contract.FireNotFound: // another process has fired the tick first

	case contract.FireFull:
		o.pause(f.hold(q, item.Name, item.Version, item.Expected))
		return false
	case contract.FireEarly:
		return false // the clock was set back, so the tick is no longer due
	default:
		f.logOnce(q, item.Name, item.Version, "the ticks of a schedule are refused", "error", result.Err)
		o.pause(f.hold(q, item.Name, item.Version, item.Expected))
		return false
	}
	return true
}

// pause shortens the pause to d if that ends earlier.
func (o *Outcome) pause(d time.Duration) {
	if o.Pause == 0 || d < o.Pause {
		o.Pause = d
	}
}

// hold keeps a due tick from being fired for some time, and returns that time.
func (f *Firing) hold(q duly.QueueRef, schedule string, version, next int64) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Mono()

	// Dropping all holds costs one useless try for each, and keeps the map small.
	if len(f.held) >= maxRemembered {
		clear(f.held)
	}
	f.held[name{q.Normal(), schedule}] = heldTick{version, next, now + contract.FullPause}
	return contract.FullPause
}

// holds returns the time for which a due tick is still held, or 0 if it may fire.
func (f *Firing) holds(r *contract.ScheduleRecord) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := name{r.Queue.Normal(), r.Name}
	h, ok := f.held[key]
	if !ok {
		return 0
	}

	// A hold ends early if the schedule has changed: the reason may be gone.
	if left := h.until - f.clock.Mono(); left > 0 && h.version == r.Version && h.next == r.Next {
		return left
	}
	delete(f.held, key)
	return 0
}

// maxRemembered bounds the schedules that a process remembers for its log and for its
// pauses.
const maxRemembered = 10_000

// logOnce logs a message about a schedule, once per version.
func (f *Firing) logOnce(q duly.QueueRef, schedule string, version int64, message string, args ...any) {
	f.mu.Lock()
	key := event{name{q.Normal(), schedule}, message}
	last, ok := f.logged[key]
	if len(f.logged) >= maxRemembered {
		clear(f.logged)
	}
	f.logged[key] = version
	f.mu.Unlock()

	// The logger may block, so it is called without the lock.
	if !ok || last != version {
		f.log.Warn(message, append([]any{"queue", q.String(), "schedule", schedule}, args...)...)
	}
}

package schedule

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cron"
)

// noneWindow is the age up to which a tick fires with [duly.CatchupNone].
const noneWindow = time.Minute

// Fold returns the items of one call that fires the due ticks of a schedule, oldest first. It
// returns nil if no tick is due at now, the engine's clock in ms. ttl is the queue's default for
// jobs without a TTL.
//
// The schedule can still be due after the call. The process then reads the record and calls Fold
// again.
func Fold(r *contract.ScheduleRecord, t cron.Timing, now int64, ttl time.Duration) []contract.FireItem {
	return foldTicks(r, t, now, ttl)
}

// ticks is the part of cron.Timing that finds ticks.
type ticks interface {
	Next(after time.Time) (time.Time, bool)
	Prev(before time.Time) (time.Time, bool)
}

func foldTicks(r *contract.ScheduleRecord, t ticks, now int64, ttl time.Duration) []contract.FireItem {
	if r.Idle() || r.Next > now {
		return nil
	}

	f := fold{record: r, timing: t, now: now, ttl: millisOf(r.Template.TTL, ttl), window: windowOf(r)}
	if r.Catchup == duly.CatchupAll {
		return f.all()
	}
	return []contract.FireItem{f.latest()}
}

// fold is one call to Fold.
type fold struct {
	record      *contract.ScheduleRecord
	timing      ticks
	now         int64
	ttl, window int64 // in ms; a ttl of 0 means no TTL
}

// windowOf returns the age up to which a tick fires, in ms.
func windowOf(r *contract.ScheduleRecord) int64 {
	switch {
	case r.Catchup == duly.CatchupNone:
		return noneWindow.Milliseconds()
	case r.Window == 0:
		return duly.DefaultWindow.Milliseconds()
	}
	return r.Window.Milliseconds()
}

// millisOf returns how long a run may wait after its tick, in ms, 0 for any time.
func millisOf(ttl, byDefault time.Duration) int64 {
	if ttl == 0 {
		ttl = byDefault
	}
	if ttl <= 0 {
		return 0
	}

	// Rounded up: no run expires before its TTL.
	return int64((ttl + time.Millisecond - 1) / time.Millisecond)
}

// latest returns the item of the latest tick at or before now.
func (f *fold) latest() contract.FireItem {
	// The stored next tick counts as a tick, even if this process computes a different one.
	tick := f.record.Next
	if last, ok := f.timing.Prev(at(f.now + 1)); ok {
		tick = max(tick, last.UnixMilli())
	}

	item := f.item(f.record.Next, tick, nextTick(f.timing, f.now), f.fires(tick))
	item.Missed = countTicks(f.timing, item.Expected, tick)
	if item.Job == nil {
		item.Missed = min(item.Missed+1, contract.MaxMissed)
	}
	return item
}

// all returns the items of all ticks that fire, as many as one call has.
func (f *fold) all() []contract.FireItem {
	expected, tick := f.record.Next, f.record.Next
	if !f.fires(tick) {
		// Ticks become too old and expire in their order, so those that fire are the last ones.
		if tick = nextTick(f.timing, f.oldest()-1); tick == 0 || tick > f.now {
			return []contract.FireItem{f.latest()}
		}
	}

	// Ticks that are too old count as missed, together with the first tick that fires.
	missed := countTicks(f.timing, expected, tick)
	var items []contract.FireItem
	for range f.most() {
		item := f.item(expected, tick, nextTick(f.timing, tick), true)
		item.Missed, missed = missed, 0
		items = append(items, item)
		if expected, tick = item.Following, item.Following; tick == 0 || tick > f.now {
			break
		}
	}
	return items
}

// oldest returns the earliest time at which a tick still fires.
func (f *fold) oldest() int64 {
	oldest := f.now - f.window
	if f.ttl > 0 {
		oldest = max(oldest, f.now-f.ttl)
	}
	return oldest
}

func (f *fold) fires(tick int64) bool { return tick >= f.oldest() }

// most returns the largest number of items in a call. Their bodies have a common limit.
func (f *fold) most() int {
	// An empty body counts as one byte, because the limit is divided by the size.
	size := max(len(f.record.Template.Body), 1)
	return min(duly.MaxBatch, duly.MaxBatchBytes/size)
}

func (f *fold) item(expected, tick, following int64, fires bool) contract.FireItem {
	item := contract.FireItem{
		Name: f.record.Name, Version: f.record.Version,
		Expected: expected, Tick: tick, Following: following,
	}
	if fires {
		job := Run(f.record, tick)
		item.Job = &job
		if f.ttl > 0 {
			item.ExpiresAt = tick + f.ttl
		}
	}
	return item
}

// countTicks returns the number of ticks from expected, which is a tick, up to but not including
// end. It stops at contract.MaxMissed, so its cost does not grow with the absence.
func countTicks(t ticks, expected, end int64) int {
	n := 0
	for tick := expected; tick != 0 && tick < end && n < contract.MaxMissed; tick = nextTick(t, tick) {
		n++
	}
	return n
}

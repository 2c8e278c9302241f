package contract

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Firer is implemented by engines that store schedules. Every process that has the store can fire a
// tick: it reads the due schedules of a shard, computes their items, and calls Fire. No process
// leads the others. An engine also does this in its maintenance.
type Firer interface {
	duly.Scheduler
	// DueSchedules returns the schedules of one shard whose next tick is due, the earliest first,
	// in pages of at most [MaxDue]. It changes nothing. For a queue that does not exist it returns none.
	DueSchedules(ctx context.Context, q duly.QueueRef, shard int, cursor string) (DueSchedules, error)
	// Fire processes ticks, each item in one atomic step: it pushes the run, sets the next tick,
	// and updates the counters. The items take effect in order, so several of them can fire
	// consecutive ticks of one schedule. A repeat is safe, because its items are stale.
	Fire(ctx context.Context, q duly.QueueRef, items []FireItem) ([]FireResult, error)
}

// MaxMissed is the largest number of missed ticks that one item counts, so that counting after a
// long absence is fast.
const MaxMissed = 1000

// MaxDue is the largest number of schedules in a page of DueSchedules.
const MaxDue = 100

// DueSchedules is the result of DueSchedules.
type DueSchedules struct {
	// Now is the engine's clock at the read, in ms. It decides which ticks are due.
	Now int64
	// TTL is the queue's default TTL, for templates without a TTL. [duly.None] means that there is
	// none.
	TTL       time.Duration
	Schedules []ScheduleRecord
	// Next is the cursor of the next page. It is empty at the end.
	Next string
}

// ScheduleRecord is a schedule in the form that an engine stores: with every default filled in, and
// with times of the engine's clock in ms since 1970, where 0 means that there is none.
type ScheduleRecord struct {
	Queue duly.QueueRef
	duly.Schedule
	Version                int64
	Paused                 bool
	Held                   bool // see ScheduleMover
	Next, Last             int64
	Fired, Skipped, Missed int64
}

// Info returns the record in the form that callers get.
func (r *ScheduleRecord) Info() duly.ScheduleInfo {
	return duly.ScheduleInfo{
		Schedule: r.Schedule, Version: r.Version, Paused: r.Paused,
		Next: clock.FromMilli(r.Next), Last: clock.FromMilli(r.Last),
		Fired: r.Fired, Skipped: r.Skipped, Missed: r.Missed,
	}
}

// FireItem processes ticks of one schedule in one atomic step. Times are in ms since 1970.
type FireItem struct {
	Name string
	// Version and Expected are the version and the next tick that the caller has read. If the
	// schedule has other values by now, the item is stale.
	Version, Expected int64
	// Tick is the tick that fires, or the last tick that passes without a run. Following is the new
	// next tick, or 0 if there is none. Expected ≤ Tick < Following.
	Tick, Following int64
	// Missed is the number of ticks that pass without a run.
	Missed int
	// Job is the run of Tick, without the header [duly.HeaderPrevious]. Nil: no run.
	Job *duly.Job
	// ExpiresAt is the end of the TTL of the run, which counts from the tick. 0 means no TTL.
	ExpiresAt int64
}

// Validate returns [duly.ErrInvalid] with every bad field.
func (i *FireItem) Validate() error {
	var f BadFields
	checkScheduleName(&f, "name", i.Name)
	if i.Expected <= 0 || i.Tick < i.Expected {
		f.Add("tick", "is %d, must be at least expected, %d", i.Tick, i.Expected)
	}
	if i.Following != 0 && i.Following <= i.Tick {
		f.Add("following", "is %d, must be after tick, %d, or 0", i.Following, i.Tick)
	}
	if i.Missed < 0 || i.Missed > MaxMissed {
		f.Add("missed", "is %d, must be between 0 and %d", i.Missed, MaxMissed)
	}
	return f.Err()
}

// PlanRun is like [PlanJob] for the job of an item. previous is the last tick of the schedule that
// created a run, or 0 if there is none. An error means that the queue's settings do not allow the
// run. Fire then counts the tick as missed.
func (i *FireItem) PlanRun(previous int64, cfg *duly.QueueConfig, now time.Time, maxBody int) (Planned, error) {
	// The step may run twice with different previous runs, so the caller's headers must not be
	// changed.
	job := *i.Job
	job.Headers = maps.Clone(job.Headers)
	SetPrevious(&job, previous)
	p, err := PlanJob(job, cfg, now, maxBody)
	if err != nil {
		return p, err
	}

	// The TTL counts from the tick, and not from the push. The caller has used this TTL to decide
	// that the tick still fires, so it applies even if the default has changed since.
	p.ExpiresAt, p.TTL = i.ExpiresAt, duly.None
	if i.ExpiresAt != 0 {
		p.TTL = time.Duration(i.ExpiresAt-i.Tick) * time.Millisecond
	}
	return p, p.checkExpiry(job.TTL == 0)
}

// SetPrevious sets the header with the tick of the previous run. A tick of 0 means that there is
// none. Several items of a call have different previous runs, which depend on the results, so the
// engine sets this header in the step that pushes the run.
func SetPrevious(run *duly.Job, previous int64) {
	if previous == 0 {
		return
	}
	if run.Headers == nil {
		run.Headers = map[string]string{}
	}
	run.Headers[duly.HeaderPrevious] = TickText(previous)
}

// TickText returns a tick as the headers of a run have it.
func TickText(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// FireStatus is the result of an item.
type FireStatus uint8

// The results of an item, in the order in which Fire checks them. Only FireFired changes data.
const (
	// FireNotFound means that the schedule does not exist.
	FireNotFound FireStatus = iota + 1
	// FireStale means that another process has fired the tick, or that the schedule has
	// changed, is paused or is held.
	FireStale
	// FireEarly means that the engine's clock is before the tick.
	FireEarly
	// FireFull means that the push of the run would return [duly.ErrFull]. The tick stays
	// due. The caller waits for at least [FullPause] before it fires the schedule again.
	FireFull
	// FireFired means that the ticks of the item are processed.
	FireFired
)

var fireStatusNames = [...]string{"none", "not_found", "stale", "early", "full", "fired"}

// String returns the name of the status.
func (s FireStatus) String() string {
	if int(s) >= len(fireStatusNames) {
		s = 0
	}
	return fireStatusNames[s]
}

// FullPause is the time for which a process does not fire a schedule after [FireFull].
const FullPause = 2 * time.Second

// FireResult is the result of an item.
type FireResult struct {
	// Status is zero if Err is set.
	Status FireStatus
	// Run is the result of the push, if the item has a job and Status is FireFired. Its Err
	// is set if the queue's settings do not allow the run. The tick is then missed.
	Run duly.PushResult
	// Err is [duly.ErrInvalid] for a bad item, and the [duly.ErrFull] of a FireFull.
	Err error
}

// Advance applies the result of the push of an item's job to the record. This part of Fire is the
// same in every engine.
func (r *ScheduleRecord) Advance(item *FireItem, run duly.PushResult) {
	missed := item.Missed
	switch {
	case item.Job == nil:
	// The queue's settings did not allow the run, so the tick passes without a run.
	case run.Err != nil:
		missed = min(missed+1, MaxMissed)
	case run.Status == duly.Created:
		r.Fired++
		r.Last = item.Tick
	// Either an earlier run still exists, or the push was merged into it.
	default:
		r.Skipped++
	}
	r.Missed += int64(missed)
	r.Next = item.Following
}

// Refuses returns why an item may not fire at now, the engine's clock in ms, or zero if the item may
// fire. r is the record of the schedule, or nil if the schedule does not exist.
func (i *FireItem) Refuses(r *ScheduleRecord, now int64) FireStatus {
	switch {
	case r == nil:
		return FireNotFound
	case r.Version != i.Version || r.Next != i.Expected || r.Paused || r.Held:
		return FireStale
	case now < i.Tick:
		return FireEarly
	}
	return 0
}

// QueuesWithSchedules calls do with the name of each queue of a namespace that has schedules, until
// do returns an error. It also ends with the error of a queue that cannot be read, because that
// queue may have schedules.
func QueuesWithSchedules(ctx context.Context, e Inspector, namespace string, do func(queue string) error) error {
	// Most queues have no schedules, so one call reads the stats of a whole page of queues.
	surveyor := SurveyorOf(e)
	for cursor := ""; ; {
		page, err := surveyor.Survey(ctx, namespace, duly.PageParams{Cursor: cursor, Limit: duly.MaxBatch})
		if err != nil {
			return err
		}
		for _, q := range page.Queues {
			err := q.Err
			if err == nil && q.Stats.Schedules > 0 {
				err = do(q.Name)
			}
			if err != nil {
				return err
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}

// PruneResult is the result of [PruneSchedules].
type PruneResult struct {
	// Deleted are the names of the deleted schedules.
	Deleted []string
	// Changed are the names of schedules that changed between the read and the delete. They are not
	// deleted.
	Changed []string
}

// PruneSchedules deletes the schedules of one owner in a queue that keep does not name. It returns
// what it has deleted even if it also returns an error. A deployment calls it after it has put all
// of its schedules. For a namespace, call it for each queue.
func PruneSchedules(ctx context.Context, e duly.Scheduler, q duly.QueueRef, owner string, keep []string) (PruneResult, error) {
	old, err := SchedulesToPrune(ctx, e, q, owner, keep)
	if err != nil {
		return PruneResult{}, err
	}
	return DeleteUnchanged(ctx, e, q, old)
}

// SchedulesToPrune returns the schedules that [PruneSchedules] would delete.
func SchedulesToPrune(
	ctx context.Context, e duly.Scheduler, q duly.QueueRef, owner string, keep []string,
) (old []duly.ScheduleInfo, err error) {
	if owner == "" {
		return nil, Invalid("owner", "is missing; name the owner whose schedules may be deleted")
	}

	// The list is complete before the first delete, which would move its pages.
	for cursor := ""; ; {
		page, err := e.Schedules(ctx, q, duly.PageParams{Cursor: cursor, Limit: duly.MaxBatch})
		if err != nil {
			return nil, err
		}
		for _, s := range page.Schedules {
			if s.Owner == owner && !slices.Contains(keep, s.Name) {
				old = append(old, s)
			}
		}
		if cursor = page.Next; cursor == "" {
			return old, nil
		}
	}
}

// DeleteUnchanged deletes schedules of a queue that have not changed since they were read. It
// returns what it has deleted even if it also returns an error.
func DeleteUnchanged(
	ctx context.Context, e duly.Scheduler, q duly.QueueRef, old []duly.ScheduleInfo,
) (result PruneResult, err error) {
	for _, s := range old {
		err := e.DeleteSchedule(ctx, q, s.Name, s.Version)
		switch {
		case err == nil:
			result.Deleted = append(result.Deleted, s.Name)
		case errors.Is(err, duly.ErrConflict):
			result.Changed = append(result.Changed, s.Name)
		case errors.Is(err, duly.ErrNotFound): // another process has deleted the schedule
		default:
			return result, err
		}
	}
	return result, nil
}

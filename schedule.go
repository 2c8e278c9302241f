package duly

import (
	"context"
	"maps"
	"time"
)

// Schedule pushes a job at every tick of an expression. The engine stores it in a queue.
// Name, Spec and the queue must be set. Every other zero field takes the default that its
// comment names.
type Schedule struct {
	// Name is unique in its queue. It has 1–100 of A–Z a–z 0–9 . _ - and begins with a
	// letter or a digit.
	Name string
	// Spec is the expression: five fields such as "0 3 * * *", six with the second first,
	// a macro such as "@daily", or "@every 90s".
	Spec string
	// Zone is the name of a time zone, such as "Europe/Berlin". Default UTC.
	Zone string
	// Start and End are the first and the last possible tick. Default: no bound.
	Start, End time.Time
	// Jitter bounds how long after its tick a run is due. The delay of a tick is fixed.
	// It is 0–24 h. Default 0.
	Jitter time.Duration
	// Window is the age up to which a missed tick still fires, 1 min–366 days. Default
	// 24 h.
	Window time.Duration
	// Catchup is the policy for missed ticks. Default [CatchupOne].
	Catchup Catchup
	// Overlap is the policy for a tick while an earlier run waits or runs. Default
	// [OverlapSkip].
	Overlap Overlap
	// Owner names the deployment that may change the schedule. A Put with another owner is
	// [ErrConflict]. It has the characters of Name. Default: none.
	Owner string
	// Template is the job of each tick. It has no ID, Delay and Due, no body above 64 KiB,
	// and Merge only with [OverlapAllow]. It is pushed into the queue of the schedule.
	Template Job
}

// Catchup is the policy for ticks that no process fired in time.
type Catchup string

// The policies for missed ticks.
const (
	// CatchupOne fires the latest missed tick within the window.
	CatchupOne Catchup = "one"
	// CatchupAll fires each missed tick within the window.
	CatchupAll Catchup = "all"
	// CatchupNone fires no tick that is late by more than a minute.
	CatchupNone Catchup = "none"
)

// Overlap is the policy for a tick while an earlier run of its schedule waits or runs.
type Overlap string

// The policies for overlaps.
const (
	// OverlapSkip makes no run: at most one waits or runs.
	OverlapSkip Overlap = "skip"
	// OverlapAllow makes a run that does not depend on earlier ones.
	OverlapAllow Overlap = "allow"
	// OverlapOne makes a run that waits for the active one. At most one waits.
	OverlapOne Overlap = "one"
	// OverlapAll makes a run that waits for all earlier ones.
	OverlapAll Overlap = "all"
)

// The headers of a run. A template cannot set them.
const (
	// HeaderSchedule has the name of the schedule.
	HeaderSchedule = "duly-schedule"
	// HeaderTick has the tick, in RFC 3339 with ms.
	HeaderTick = "duly-tick"
	// HeaderPrevious has the last tick before this one whose run was created, in the same
	// form. The first run has none. The run covers the time after it, up to its own tick.
	HeaderPrevious = "duly-previous"
	// HeaderTrigger is "manual" in a run that [Client.Trigger] made.
	HeaderTrigger = "duly-trigger"
)

// Key returns the key that decides the shard of a schedule with this name, which the
// policies for overlaps use too: "schedule:NAME".
func (s *Schedule) Key() string { return "schedule:" + s.Name }

// Run returns the template with the keys of the policy for overlaps, and with the header
// that names the schedule. It has no ID, queue and tick.
func (s *Schedule) Run() Job {
	job := s.Template
	switch s.Overlap {
	case OverlapAllow:
	case OverlapOne:
		job.Merge = Merge{Key: s.Key(), Mode: MergeKeep, Until: UntilLeased}
	case OverlapAll:
		job.Merge = Merge{}
	default:
		job.Merge = Merge{Key: s.Key(), Mode: MergeKeep, Until: UntilDone}
	}

	if job.OrderKey == "" && (s.Overlap == OverlapOne || s.Overlap == OverlapAll) {
		job.OrderKey = s.Key()
	}

	// The runs of a schedule share its template, so each one gets headers of its own.
	job.Headers = maps.Clone(job.Headers)
	if job.Headers == nil {
		job.Headers = map[string]string{}
	}
	job.Headers[HeaderSchedule] = s.Name
	return job
}

// ScheduleStatus is the outcome of a Put of a schedule.
type ScheduleStatus string

// The statuses. None of them is an error.
const (
	ScheduleCreated   ScheduleStatus = "created"
	ScheduleChanged   ScheduleStatus = "changed"
	ScheduleUnchanged ScheduleStatus = "unchanged"
)

// SchedulePut is the result of a Put of a schedule.
type SchedulePut struct {
	Status ScheduleStatus
	// Version is the version of the stored schedule.
	Version int64
	// Next is the next tick. Zero: there is none.
	Next time.Time
}

// ScheduleInfo is a stored schedule.
type ScheduleInfo struct {
	// Schedule has every default filled in. An unset field of Template takes the default
	// of the queue at each tick.
	Schedule
	// Version is new after every Put that changes something, and after Pause and Resume.
	Version int64
	// Paused is changed by Pause and Resume only.
	Paused bool
	// Next is the next tick. Zero: there is none. A paused schedule keeps the next tick of
	// the time of its Pause.
	Next time.Time
	// Last is the latest tick that created a run. Zero: there is none.
	Last time.Time
	// Fired counts the ticks that created a run. Skipped counts those whose run was merged
	// into an earlier one, or existed. Missed counts those without a run.
	Fired, Skipped, Missed int64
}

// SchedulePage is a page of schedules. The list ends only at an empty Next: a page without
// schedules may have a Next.
type SchedulePage struct {
	Schedules []ScheduleInfo
	Next      string
}

// Scheduler manages the schedules of a queue. Engines that have schedules
// implement it. The rules of contract.Engine for every operation also apply here. A repeat
// of each call is safe.
type Scheduler interface {
	// PutSchedule creates or changes a schedule. It creates the queue if that does not
	// exist. If the stored schedule means the same, PutSchedule changes nothing, so a
	// deployment never moves the next tick. A new expression, zone, start or end moves it.
	// PutSchedule returns [ErrConflict] for a schedule of another owner, and [ErrFull] for
	// a new one in a queue with [MaxSchedules].
	PutSchedule(ctx context.Context, q QueueRef, s Schedule) (SchedulePut, error)
	// GetSchedule returns a schedule. It returns [ErrNotFound] if it does not exist.
	GetSchedule(ctx context.Context, q QueueRef, name string) (ScheduleInfo, error)
	// Schedules lists the schedules of a queue, shard by shard, by the next tick and the
	// name. Paused schedules and those without a next tick come last.
	Schedules(ctx context.Context, q QueueRef, p PageParams) (SchedulePage, error)
	// DeleteSchedule deletes a schedule. Its runs stay. With a version that is not 0, it
	// returns [ErrConflict] if the schedule has another one. It returns [ErrNotFound] if
	// the schedule does not exist.
	DeleteSchedule(ctx context.Context, q QueueRef, name string, version int64) error
	// PauseSchedule stops a schedule. It returns [ErrNotFound] if it does not exist.
	PauseSchedule(ctx context.Context, q QueueRef, name string) error
	// ResumeSchedule ends a PauseSchedule. The ticks of the pause never fire.
	ResumeSchedule(ctx context.Context, q QueueRef, name string) error
}

// Trigger pushes a run of a schedule now, apart from its ticks. The run follows the policy
// for overlaps, so it can be merged into an earlier run. Trigger changes nothing of the
// schedule. It returns [ErrNotFound] if the schedule does not exist, and [ErrUnsupported]
// if the engine has no schedules.
func (c *Client) Trigger(ctx context.Context, queue, schedule string) (PushResult, error) {
	engine, ok := c.engine.(Scheduler)
	if !ok {
		return PushResult{}, &Error{Code: CodeUnsupported, Message: "the engine has no schedules"}
	}
	info, err := engine.GetSchedule(ctx, c.Queue(queue), schedule)
	if err != nil {
		return PushResult{}, err
	}

	job := info.Run()
	job.Queue = queue
	job.Headers[HeaderTrigger] = "manual"
	results, err := c.PushMany(ctx, []Job{job})
	if err != nil {
		return PushResult{}, err
	}
	return results[0], results[0].Err
}

package contract

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/cron"
)

// FillSchedule returns a schedule with every default filled in, in the form that an engine
// stores. An unset field of the template takes the default of the queue at each tick, so it
// stays unset.
func FillSchedule(s duly.Schedule) duly.Schedule {
	if s.Zone == "" {
		s.Zone = "UTC"
	}
	if s.Window == 0 {
		s.Window = duly.DefaultWindow
	}
	if s.Catchup == "" {
		s.Catchup = duly.CatchupOne
	}
	if s.Overlap == "" {
		s.Overlap = duly.OverlapSkip
	}
	s.Start, s.End = utc(s.Start), utc(s.End)

	t := &s.Template
	// These fields come from the schedule, so they must not make two templates differ.
	t.Namespace, t.Queue, t.Made = "", "", false
	t.Headers = lowerHeaders(t.Headers)
	t.Merge, _ = fillMerge(t.Merge, t.Body)
	return s
}

// utc returns the same moment in UTC, so that equal schedules are equal values.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// ValidateSchedule checks everything about a schedule that needs neither a clock nor the queue's
// settings. Its error is [duly.ErrInvalid] and names every bad field. maxBody is the largest body
// that the engine accepts, in bytes; 0 means [duly.DefaultMaxBody].
func ValidateSchedule(q duly.QueueRef, s *duly.Schedule, maxBody int) error {
	var f BadFields
	f.Take(validateScheduled(q))
	checkScheduleName(&f, "name", s.Name)
	if s.Owner != "" {
		checkScheduleName(&f, "owner", s.Owner)
	}
	checkTiming(&f, s)
	checkPolicies(&f, s)
	checkTemplate(&f, q, s, maxBody)
	return f.Err()
}

// ValidateScheduleName returns [duly.ErrInvalid] for a queue or a name that no schedule has.
func ValidateScheduleName(q duly.QueueRef, name string) error {
	var f BadFields
	f.Take(validateScheduled(q))
	checkScheduleName(&f, "name", name)
	return f.Err()
}

// ValidateSchedules returns [duly.ErrInvalid] for bad parameters of a list of schedules. It fills
// in the default of the page.
func ValidateSchedules(q duly.QueueRef, p *duly.PageParams) error {
	var f BadFields
	f.Take(validateScheduled(q))
	checkPage(p, &f)
	return f.Err()
}

// validateScheduled checks the queue of a schedule.
func validateScheduled(q duly.QueueRef) error {
	if err := ValidateQueue(q); err != nil {
		return err
	}
	if q.IsGroup() {
		return NotForGroup(q, "schedules")
	}
	return nil
}

// checkScheduleName checks the name or the owner of a schedule.
func checkScheduleName(f *BadFields, field, name string) {
	if len(name) == 0 || len(name) > duly.MaxScheduleName {
		f.Add(field, "has %d bytes, must have 1 to %d", len(name), duly.MaxScheduleName)
		return
	}
	checkChars(f, field, name, "", "._-")
}

// checkTiming checks the fields that decide the ticks.
func checkTiming(f *BadFields, s *duly.Schedule) {
	_, err := cron.Parse(s.Spec)
	addCron(f, err)
	_, err = cron.LoadZone(s.Zone)
	addCron(f, err)

	checkMoment(f, "start", s.Start)
	checkMoment(f, "end", s.End)
	if !s.Start.IsZero() && !s.End.IsZero() && !s.Start.Before(s.End) {
		f.Add("start", "is %s, must be before end, %s", tickText(s.Start), tickText(s.End))
	}
}

// addCron adds an error of package cron. It does nothing for nil.
func addCron(f *BadFields, err error) {
	var e *cron.Error
	if errors.As(err, &e) {
		f.Add(e.Field, "%s", e.Problem)
	}
}

func checkMoment(f *BadFields, field string, t time.Time) {
	switch {
	case t.IsZero():
	case t.Before(time.Unix(0, 0)) || t.After(duly.MaxTime):
		f.Add(field, "is %s, must be between 1970 and %s", tickText(t), tickText(duly.MaxTime))
	// Engines store whole milliseconds, so a finer time would be changed.
	case t.Nanosecond()%int(time.Millisecond) != 0:
		f.Add(field, "is %s, must be a whole millisecond", t.UTC().Format(time.RFC3339Nano))
	}
}

func tickText(t time.Time) string { return TickText(t.UnixMilli()) }

// checkPolicies checks the fields that decide what happens to a tick.
func checkPolicies(f *BadFields, s *duly.Schedule) {
	if s.Jitter < 0 || s.Jitter > duly.MaxJitter {
		f.Add("jitter", "is %s, must be between 0s and %s", duly.FormatDuration(s.Jitter),
			duly.FormatDuration(duly.MaxJitter))
	} else if s.Jitter%time.Millisecond != 0 {
		f.Add("jitter", "is %s, must be a whole number of milliseconds", duly.FormatDuration(s.Jitter))
	}
	if s.Window != 0 && (s.Window < duly.MinWindow || s.Window > duly.MaxWindow) {
		f.Add("window", "is %s, must be between %s and %s", duly.FormatDuration(s.Window),
			duly.FormatDuration(duly.MinWindow), duly.FormatDuration(duly.MaxWindow))
	}

	catchups := []duly.Catchup{"", duly.CatchupOne, duly.CatchupAll, duly.CatchupNone}
	if !slices.Contains(catchups, s.Catchup) {
		f.Add("catchup", "is %s, must be one, all or none", Quoted(string(s.Catchup)))
	}
	overlaps := []duly.Overlap{"", duly.OverlapSkip, duly.OverlapAllow, duly.OverlapOne, duly.OverlapAll}
	if !slices.Contains(overlaps, s.Overlap) {
		f.Add("overlap", "is %s, must be skip, allow, one or all", Quoted(string(s.Overlap)))
	}
}

// scheduleHeaders are the headers that duly sets in runs.
var scheduleHeaders = []string{duly.HeaderSchedule, duly.HeaderTick, duly.HeaderPrevious, duly.HeaderTrigger}

// checkTemplate checks the job of a schedule.
func checkTemplate(f *BadFields, q duly.QueueRef, s *duly.Schedule, maxBody int) {
	t := s.Template
	checkTemplateUnset(f, q, &t)
	if n := len(t.Body); n > duly.MaxTemplateBody {
		f.Add("template.body", "has %d bytes, may have at most %d; store the rest elsewhere, and name its place in the body",
			n, duly.MaxTemplateBody)
		// ValidateJob must not report the same body again.
		t.Body = nil
	}
	checkTemplateHeaders(f, &t)

	if s.Overlap != duly.OverlapAllow && t.Merge.Set() {
		f.Add("template.merge",
			"is set, but with overlap %s the schedule decides how its runs merge; leave it out, or set overlap to allow",
			Quoted(string(FillSchedule(*s).Overlap)))
		t.Merge = duly.Merge{}
	}
	if t.TTL > 0 && t.TTL < s.Jitter {
		f.Add("template.ttl", "is %s, must be at least jitter, %s", duly.FormatDuration(t.TTL), duly.FormatDuration(s.Jitter))
	}

	// All other fields have the limits of any job.
	t.Namespace, t.Queue = q.Namespace, "template"
	var rest BadFields
	rest.Take(ValidateJob(&t, maxBody))
	for _, field := range rest.fields {
		if field.Field != "namespace" { // the error names the schedule's namespace already
			f.Add("template."+field.Field, "%s", field.Problem)
		}
	}
}

// checkTemplateUnset checks the fields of a job that every run gets from its tick. It removes
// them from t, so that they are reported once.
func checkTemplateUnset(f *BadFields, q duly.QueueRef, t *duly.Job) {
	for _, x := range []struct {
		field string
		set   bool
	}{{"id", t.ID != ""}, {"delay", t.Delay != 0}, {"due", !t.Due.IsZero()}} {
		if x.set {
			f.Add("template."+x.field, "is set, but each run gets its own; leave it out")
		}
	}
	if t.Queue != "" && t.Queue != q.Name {
		f.Add("template.queue", "is %s, must be that of the schedule, %s; leave it out", Quoted(t.Queue), Quoted(q.Name))
	}
	if t.Namespace != "" && t.Namespace != NamespaceOr(q.Namespace) {
		f.Add("template.namespace", "is %s, must be that of the schedule, %s; leave it out",
			Quoted(t.Namespace), Quoted(NamespaceOr(q.Namespace)))
	}
	t.ID, t.Delay, t.Due = "", 0, time.Time{}
}

// checkTemplateHeaders checks the headers of a template. It removes invalid headers from t, so that
// they are reported once.
func checkTemplateHeaders(f *BadFields, t *duly.Job) {
	before := f.Len()
	if n := len(t.Headers); n > duly.MaxTemplateHeaders {
		f.Add("template.headers", "are %d, may be at most %d", n, duly.MaxTemplateHeaders)
	} else if n := headerBytes(t.Headers); n > duly.MaxTemplateHeaderBytes {
		f.Add("template.headers", "have %d bytes together, may have at most %d", n, duly.MaxTemplateHeaderBytes)
	}

	for name := range t.Headers {
		if lower := strings.ToLower(name); slices.Contains(scheduleHeaders, lower) {
			f.Add("template.headers", "have %s, which duly sets in each run; remove it", lower)
		}
	}
	if f.Len() > before {
		t.Headers = nil
	}
}

// CheckTicks returns [duly.ErrInvalid] for a valid schedule without a tick in the next years.
func CheckTicks(s *duly.Schedule, now time.Time) error {
	var f BadFields
	expr, err := cron.Parse(s.Spec)
	addCron(&f, err)
	zone, err := cron.LoadZone(s.Zone)
	addCron(&f, err)
	// Without an expression and a zone there are no ticks to check.
	if f.Len() == 0 {
		addCron(&f, cron.Timing{Expr: expr, Zone: zone, Start: s.Start, End: s.End}.Check(now))
	}
	return f.Err()
}

// ScheduleShard returns the shard of a schedule in a queue with that many shards.
func ScheduleShard(name string, shards int) int {
	s := duly.Schedule{Name: name}
	return KeyShard(s.Key(), shards)
}

// ScheduleMaxPart returns the number of schedules that shard i of that many may have.
func ScheduleMaxPart(shards, i int) int { return ShardPart(duly.MaxSchedules, shards, i) }

// CheckScheduleShard returns [duly.ErrInvalid] if the runs of a schedule belong to another shard
// than the schedule itself, in a queue with that many shards. The reason: one atomic step could not
// change both.
func CheckScheduleShard(s *duly.Schedule, shards int) error {
	run := s.Run()
	own, theirs := ScheduleShard(s.Name, shards), int(RunPart(s, &run))%shards
	if own == theirs {
		return nil
	}

	// If a run has both keys, the order key decides its shard.
	field := "template.order_key"
	if run.OrderKey == "" {
		field = "template.merge"
	}
	return Invalid(field, "belongs to shard %d, but the schedule to shard %d; leave the key out, use %s, "+
		"or let the handler push a job with the key", theirs, own, Quoted(s.Key()))
}

// RunPart returns the byte that names the shard in the ID of a run: that of the run's order key if
// it has one, else that of its merge key if it has one, else that of the schedule.
func RunPart(s *duly.Schedule, run *duly.Job) byte {
	key := run.ShardKey()
	if key == "" {
		key = s.Key()
	}
	return duly.KeyPart(key)
}

package wire

import "github.com/dulymq/duly"

// The limits of schedules as keywords of JSON Schema.
const (
	specBounds     = `maxLength:"255" example:"0 3 * * *"`
	zoneBounds     = `maxLength:"64" example:"Europe/Berlin"`
	ownerBounds    = `maxLength:"100"`
	catchups       = `enum:"one,all,none"`
	overlaps       = `enum:"skip,allow,one,all"`
	scheduleStatus = `enum:"created,changed,unchanged"`
)

// scheduleSettings declares a schedule in a request. Its name is in the path.
func (f *fields) scheduleSettings(s *duly.Schedule) {
	f.request("Schedule")
	f.scheduleFields(s)
}

func (f *fields) scheduleFields(s *duly.Schedule) {
	f.text("spec", &s.Spec, required, specBounds, "The expression: five fields (minute, hour, day of month, month, "+
		"day of week), six with the second first, a macro such as @daily, or @every 90s.")
	f.name("zone", &s.Zone, optional, zoneBounds, "The time zone of the expression. Default: UTC.")
	f.time("start", &s.Start, optional, "The first possible tick. Default: no bound.")
	f.time("end", &s.End, optional, "The last possible tick. Default: no bound.")
	f.duration("jitter", &s.Jitter, optional,
		"How long after its tick a run is due at most. Each tick has a fixed delay. Bound: 0s to 24h. Default: 0s.")
	f.period("window", &s.Window,
		"The age up to which a missed tick still makes a run. Bound: 1m to 366d. Default: 24h.")
	f.name("catchup", (*string)(&s.Catchup), optional, catchups, "What happens to missed ticks: the latest one "+
		"makes a run, all of them do, or none that is over a minute late. Default: one.")
	f.name("overlap", (*string)(&s.Overlap), optional, overlaps, "What a tick does while an earlier run waits or "+
		"runs: no new run, an independent one, one that waits, or one more that waits. Default: skip.")
	f.name("owner", &s.Owner, optional, ownerBounds, "What may change the schedule, such as the name of a "+
		"deployment. A request with another owner is a conflict. Default: none.")
	f.nested("template", false, always, "The job of each tick.", func() { f.template(&s.Template) })
}

// template declares the job of a schedule. It has no queue, and nothing that each run gets from its tick.
func (f *fields) template(j *duly.Job) {
	f.request("Template")
	f.sentBytes("body", &j.Body, optional, "The body, if it is UTF-8 without NUL. Bound: 64 KiB. Default: empty.",
		base64Doc)
	f.headers(&j.Headers, optional, `maxProperties:"61"`,
		"Names and values that travel with each run. Names become lower case. Bound: 61 headers, 7936 bytes together.")
	f.int("priority", &j.Priority, optional, priorityRange, priorityDoc)
	f.rules(&j.Tries, &j.MaxStalls, &j.Backoff, &j.TTL, &j.Lease, &j.Retain)
	f.name("order_key", &j.OrderKey, optional, keyBounds,
		"Jobs with the same order key run one at a time, in order. It must belong to the shard of the schedule.")
	f.nested("merge", !j.Merge.Set(), optional, "Equal jobs that still wait become one job. Only with overlap allow.",
		func() { f.merge(&j.Merge) })
	f.destinations(j)
}

func (f *fields) schedulePut(p *duly.SchedulePut) {
	f.answer("SchedulePut")
	f.text("outcome", (*string)(&p.Status), required, scheduleStatus, "What the request did.")
	f.integer("version", &p.Version, "The version of the schedule.")
	f.time("next", &p.Next, optional, "The next tick; absent if there is none.")
}

// scheduleInfo declares a schedule returned by an engine.
func (f *fields) scheduleInfo(s *duly.ScheduleInfo) {
	f.answer("ScheduleInfo")
	f.text("name", &s.Name, required, "", "The name.")
	f.scheduleFields(&s.Schedule)
	f.integer("version", &s.Version, "New after each change, pause and resume.")
	f.bool("paused", &s.Paused, required, "true: no tick makes a run.")
	f.time("next", &s.Next, optional, "The next tick; absent if there is none.")
	f.time("last", &s.Last, optional, "The latest tick that made a run.")
	f.integer("fired", &s.Fired, "Ticks that made a run.")
	f.integer("skipped", &s.Skipped, "Ticks whose run was merged into an earlier one.")
	f.integer("missed", &s.Missed, "Ticks without a run.")
}

func (f *fields) schedules(p *duly.SchedulePage) {
	f.answer("Schedules")
	list(f, "schedules", &p.Schedules, required, "The schedules of this page, the next tick first.",
		(*fields).scheduleInfo)
	f.cursor(&p.Next)
}

// SizeOfSchedules returns at least the number of bytes of a page of schedules, and little more
// than that or 64 KiB.
func SizeOfSchedules(p duly.SchedulePage) int {
	return size(func(s sizer) int {
		n := jobSize + len(p.Next)
		for i := range p.Schedules {
			n += s.schedule(&p.Schedules[i])
		}
		return n
	})
}

// schedule returns the size of a schedule in a list.
func (s sizer) schedule(info *duly.ScheduleInfo) int {
	job := info.Template
	return 2*jobSize + len(info.Spec)*escaped + s.stored(&job, true)
}

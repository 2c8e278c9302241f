package wire

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The descriptions of fields that a push and an update share.
const (
	bodyDoc    = "The body, if it is UTF-8 without NUL. Bound: 1 MiB, or the server's setting. Default: empty."
	base64Doc  = "The body as base64, instead of body."
	headersDoc = "Names and values that travel with the job. Names become lower case. " +
		"Bound: 64 headers, 8 KiB together."
	delayDoc    = "The job is due this long after the server receives it. Not together with due. Default: 0s."
	dueDoc      = "The job is due at this time. A time in the past means now."
	priorityDoc = "A higher priority goes first. Default: 0."
)

// The limits of fields as keywords of JSON Schema.
const (
	maxHeaders    = `maxProperties:"64"`
	idBounds      = `maxLength:"128" pattern:"^[A-Za-z0-9_][A-Za-z0-9._:-]*$"`
	keyBounds     = `maxLength:"128"`
	nameBounds    = `maxLength:"255"`
	urlBounds     = `maxLength:"2048"`
	priorityRange = `minimum:"-1000" maximum:"1000"`
	triesRange    = `minimum:"1" maximum:"65535"`
	anyState      = `enum:"delayed,ready,blocked,leased,dead,done"`
)

// job declares a job of a push.
func (f *fields) job(j *duly.Job) {
	f.request("Job")
	f.text("queue", &j.Queue, required, nameBounds+` pattern:"^[A-Za-z0-9-][A-Za-z0-9._-]*$"`, "The queue's name.")
	f.jobWithoutQueue(j)
}

func (f *fields) jobWithoutQueue(j *duly.Job) {
	f.name("id", &j.ID, optional, idBounds, "Unique in its queue while the job exists. "+
		"Without an ID, a repeat after a lost answer is a second job. Default: a ULID.")
	f.sentBytes("body", &j.Body, always, bodyDoc, base64Doc)
	f.headers(&j.Headers, optional, maxHeaders, headersDoc)
	f.schedule(&j.Delay, &j.Due, delayDoc, dueDoc)
	f.int("priority", &j.Priority, optional, priorityRange, priorityDoc)
	f.rules(&j.Tries, &j.MaxStalls, &j.Backoff, &j.TTL, &j.Lease, &j.Retain)

	f.name("order_key", &j.OrderKey, optional, keyBounds,
		"Jobs with the same order key run one at a time, in order.")
	f.nested("merge", !j.Merge.Set(), optional, "Equal jobs that still wait become one job.",
		func() { f.merge(&j.Merge) })
	f.destinations(j)
	f.bool("made", &j.Made, optional, "For client libraries: the ID is a ULID that the client made for this job, "+
		"and this is the first try. A repeat must not set it, because a receipt of the earlier job with this ID "+
		"would fit the new one. Default: false.")
}

// destinations declares the destinations of a job in a push queue.
func (f *fields) destinations(j *duly.Job) {
	f.name("callback", &j.Callback, optional, urlBounds+` example:"https://example.com/hook"`,
		"For a push queue: the URL that the servers call for this job, or target:NAME. "+
			"It creates the queue as a push queue. Default: the queue's push_url.")
	f.name("on_done", &j.OnDone, optional, urlBounds, "For a push queue: a URL or target:NAME "+
		"that gets a notice when the job is done, or none. Default: the queue's.")
	f.name("on_dead", &j.OnDead, optional, urlBounds, "For a push queue: a URL or target:NAME "+
		"that gets a notice when the job is dead, or none. Default: the queue's.")
}

// schedule declares the delay and the due time of a job or a message. A reader refuses a delay of 0
// together with a due time. In the root package, 0 is the same as an absent delay.
func (f *fields) schedule(delay *time.Duration, due *time.Time, delayDoc, dueDoc string) {
	switch f.task {
	case reading:
		if f.at("delay") {
			d, given := f.r.duration("delay")

			// Only an explicit 0 counts as given, because a Delay of 0 and no Delay are equal in
			// Go.
			*delay, f.zeroDelay = d, given && d == 0
			f.next()
		}
		if f.at("due") {
			*due = f.r.time("due")
			f.next()
		}

		// The fields may come in any order, so the check runs in every pass.
		if f.zeroDelay && !due.IsZero() {
			f.r.bad("delay", "and due are both set, give one of them")
			// Reported once per object.
			f.zeroDelay = false
		}

	default:
		f.duration("delay", delay, optional, delayDoc)
		f.due(due, dueDoc)
	}
}

// rules declares the settings that a push and an update share.
func (f *fields) rules(tries, maxStalls *int, backoff *duly.Backoff, ttl, lease, retain *time.Duration) {
	f.count("tries", tries, optional, triesRange,
		"How many deliveries may fail before the job is dead. Default: the queue's, 16.")
	countOrNone(f, "max_stalls", maxStalls, given, "How many stalls the job survives. "+
		"With none, each stall counts as a failed try. Bound: 1 to 65535. Default: the queue's, 8.")
	f.name("backoff", (*string)(backoff), optional, `example:"exp:1s:1h"`, "The delay before the next try: "+
		"fixed:5s, exp:1s:1h, or steps like 15s,3m,10m. Default: the queue's, exp:1s:1h.")
	f.periodOrNone("ttl", ttl, given,
		"How long the job may wait before it expires. Bound: at least the delay. Default: the queue's, none.")
	f.lease("lease", lease, optional,
		"How long a delivery holds the job. Bound: 100ms to 366d. Default: the queue's, 30s.")
	f.periodOrNone("retain", retain, given,
		"How long the finished job and its result stay visible. Default: the queue's, none.")
}

func (f *fields) merge(m *duly.Merge) {
	f.request("Merge")
	f.name("key", &m.Key, optional, keyBounds, "Jobs with an equal key and an equal order key are equal. "+
		"Default: the SHA-256 of the body, if a mode is given.")
	f.name("mode", (*string)(&m.Mode), optional, `enum:"keep,replace"`, "What a second push does to the waiting job: "+
		"keep leaves it, replace takes every field of the new one. Default: keep.")
	f.name("until", (*string)(&m.Until), optional, `enum:"leased,done"`, "How long the job holds the key: "+
		"until it is leased, or until it is finished (only with keep). Default: leased.")
	f.period("max_wait", &m.MaxWait, "With replace: how long repeated pushes can postpone the job, "+
		"counted from the first. Default: no bound.")
}

// stored declares a job as an engine returns it. It has the body only if body is set.
func (f *fields) stored(j *duly.Job, body bool) {
	f.name("id", &j.ID, required, "", "The job's ID.")
	f.text("queue", &j.Queue, required, "", "The queue's name.")
	f.storedBody(&j.Body, body)
	f.int("priority", &j.Priority, required, "", "A higher priority goes first.")
	f.count("tries", &j.Tries, required, "", "How many deliveries may fail before the job is dead.")
	countOrNone(f, "max_stalls", &j.MaxStalls, required, "How many stalls the job survives.")
	f.name("backoff", (*string)(&j.Backoff), required, "", "The delay before the next try.")
	f.periodOrNone("ttl", &j.TTL, required, "How long the job may wait before it expires.")
	f.lease("lease", &j.Lease, required, "How long a delivery holds the job.")
	f.periodOrNone("retain", &j.Retain, required, "How long the finished job stays visible.")

	f.headers(&j.Headers, optional, "", "The job's headers, names in lower case.")
	f.name("order_key", &j.OrderKey, optional, "", "Jobs with the same order key run one at a time, in order.")
	f.name("callback", &j.Callback, optional, "",
		"For a push queue: the URL that the servers call, or target:NAME.")
	f.name("on_done", &j.OnDone, optional, "",
		"For a push queue: where a notice goes when the job is done, if the job says so.")
	f.name("on_dead", &j.OnDead, optional, "",
		"For a push queue: where a notice goes when the job is dead, if the job says so.")
	f.nested("merge", !j.Merge.Set(), optional, "How the job merges with equal jobs.",
		func() { f.merge(&j.Merge) })
	f.time("due", &j.Due, required, "When the job is or was due.")
}

// storedBody declares a body that a writer leaves out unless show is set.
func (f *fields) storedBody(v *[]byte, show bool) {
	// A reader accepts a body in any case: the answer decides, not the caller.
	if show || f.task != writing {
		f.bytes("body", v, always, "The body, if it is UTF-8 without NUL.",
			"The body as base64, if it is anything else.")
	}
}

func (f *fields) attempts(attempt, failures, stalls *int) {
	f.int("attempt", attempt, required, "", "The number of the running delivery, or of the next one.")
	f.int("failures", failures, required, "", "How many deliveries have failed.")
	f.int("stalls", stalls, required, "", "How many leases have run out.")
}

func (f *fields) lifetime(pushedAt, expiresAt *time.Time) {
	f.time("pushed_at", pushedAt, required, "When the job was pushed.")
	f.time("expires_at", expiresAt, optional, "When the job expires; absent without a TTL.")
}

func (f *fields) delivery(d *duly.Delivery) {
	f.answer("Delivery")
	f.stored(&d.Job, true)
	f.text("receipt", (*string)(&d.Receipt), required, "", "Settles and extends this delivery and no other.")
	f.attempts(&d.Attempt, &d.Failures, &d.Stalls)
	f.time("lease_end", &d.LeaseEnd, required, "When the lease runs out unless it is extended.")
	f.time("now", &d.Now, required, "When the engine handed out the job, on its clock.")
	f.lifetime(&d.PushedAt, &d.ExpiresAt)
}

// info declares a job with its state, with its body if body is set.
func (f *fields) info(j *duly.JobInfo, body bool) {
	f.answer("Info")
	f.stored(&j.Job, body)
	enum(f, "state", &j.State, required, anyState, "The job's state, by the clock.")
	f.int("size", &j.Size, required, "", "The body's length in bytes, also if the body is left out.")
	f.attempts(&j.Attempt, &j.Failures, &j.Stalls)
	f.lifetime(&j.PushedAt, &j.ExpiresAt)
	f.time("lease_end", &j.LeaseEnd, optional, "When the lease runs out, for a leased job.")
	f.time("finished_at", &j.FinishedAt, optional, "When the job became dead or done.")
	f.text("last_error", &j.LastError, optional, "", "The error of the last failure.")
	f.bytes("result", &j.Result, given, "The result of a done job.",
		"The result as base64, if it is not text.")
}

// ReadDeliveries reads the answer to a reserve.
func ReadDeliveries(text, namespace string) (deliveries []duly.Delivery, err error) {
	deliveries, err = DeliveriesForm.ReadAnswer(text)

	// The namespace is in the request and not in the answer.
	for i := range deliveries {
		deliveries[i].Namespace = namespace
	}
	return deliveries, err
}

func (f *fields) deliveries(deliveries *[]duly.Delivery) {
	f.answer("Deliveries")
	list(f, "deliveries", deliveries, required, "The jobs that this call took.", (*fields).delivery)
}

// ReadJob reads a job with its state.
func ReadJob(text, namespace string) (j duly.JobInfo, err error) {
	j, err = JobForm.ReadAnswer(text)
	j.Namespace = namespace
	return j, err
}

// AppendJobs writes a page of jobs, with their bodies if bodies is set.
func AppendJobs(dst []byte, p duly.ListPage, bodies bool) []byte {
	f := writer(dst)
	f.jobs(&p, bodies)
	return f.end()
}

// ReadJobs reads a page of jobs. The bodies are nil if the answer has none.
func ReadJobs(text, namespace string) (p duly.ListPage, err error) {
	p, err = JobsForm.ReadAnswer(text)
	for i := range p.Jobs {
		p.Jobs[i].Namespace = namespace
	}
	return p, err
}

func (f *fields) jobs(p *duly.ListPage, bodies bool) {
	f.answer("Jobs")
	list(f, "jobs", &p.Jobs, required, "The jobs of this page; bodies only with bodies=true.",
		func(f *fields, j *duly.JobInfo) { f.info(j, bodies) })
	f.cursor(&p.Next)
}

// ReadFound reads the jobs that have an ID.
func ReadFound(text, namespace string) (found contract.Found, err error) {
	found, err = FoundForm.ReadAnswer(text)
	for i := range found.Jobs {
		found.Jobs[i].Namespace = namespace
	}
	return found, err
}

func (f *fields) foundJobs(found *contract.Found) {
	f.answer("Found")
	list(f, "jobs", &found.Jobs, required, "The jobs with the ID, by the names of their queues.",
		func(f *fields, j *duly.JobInfo) { f.info(j, true) })
	f.bool("more", &found.More, required, "True if further queues have a job with the ID.")
}

// cursor declares the end of a page.
func (f *fields) cursor(next *string) {
	f.text("next", next, required, "", "The cursor of the next page; empty at the end.")
}

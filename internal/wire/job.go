package wire

import (
	"time"

	"github.com/dulymq/duly"
)

// jobField reads one member of a job as it is pushed, or leaves the key.
func (r *reader) jobField(j *duly.Job, key string) (known bool) {
	switch key {
	case "queue":
		j.Queue = r.string(key)
	case "body", "body_base64":
		j.Body = r.either("body", key, j.Body)
	case "id":
		j.ID = r.name(key)
	case "headers":
		j.Headers = r.headers()
	case "priority":
		j.Priority = int(r.int(key))
	case "order_key":
		j.OrderKey = r.name(key)
	case "merge":
		j.Merge = r.merge()
	case "callback":
		j.Callback = r.name(key)
	case "on_done":
		j.OnDone = r.name(key)
	case "on_dead":
		j.OnDead = r.name(key)
	case "made":
		j.Made = r.boolean(key)
	default:
		return r.ruleField("", key, &j.Tries, &j.MaxStalls, &j.Backoff, &j.TTL, &j.Lease, &j.Retain)
	}

	return true
}

// ruleField reads one member of what jobs, updates and defaults share, or
// leaves the key. The names of the fields stand behind in.
func (r *reader) ruleField(
	in, key string, tries, maxStalls *int, backoff *duly.Backoff, ttl, lease, retain *time.Duration,
) (known bool) {
	switch key {
	case "tries":
		*tries = r.count(in+key, false)
	case "max_stalls":
		*maxStalls = r.count(in+key, true)
	case "backoff":
		*backoff = duly.Backoff(r.name(in + key))
	case "ttl":
		*ttl = r.span(in+key, true)
	case "lease":
		*lease = r.lease(in + key)
	case "retain":
		*retain = r.span(in+key, true)
	default:
		return false
	}
	return true
}

// pushed reads a job of a push.
func (r *reader) pushed(j *duly.Job) {
	var delayed bool
	for key := range r.object {
		switch key {
		case "delay":
			j.Delay, delayed = r.duration(key)
		case "due":
			j.Due = r.time(key)
		default:
			if !r.jobField(j, key) {
				r.unknown(key)
			}
		}
	}
	r.oneSchedule(delayed && j.Delay == 0, j.Due)
}

// oneSchedule refuses a delay of 0 together with a due time: the root package
// cannot see such a delay.
func (r *reader) oneSchedule(delayZero bool, due time.Time) {
	if delayZero && !due.IsZero() {
		r.bad("delay", "and due are both set, give one of them")
	}
}

// headers reads a job's headers. Of more than can be it keeps one too many,
// for the judge of the job to see.
func (r *reader) headers() map[string]string {
	if r.null() {
		return nil
	}
	headers := map[string]string{}
	for name := range r.members {
		value := r.string("headers")
		if _, twice := headers[name]; twice {
			r.bad("headers", "have the name %s twice", duly.Quoted(name))
		}
		if len(headers) <= duly.MaxHeaders {
			headers[name] = value
		}
	}
	return headers
}

func (r *reader) merge() (m duly.Merge) {
	for key := range r.object {
		switch key {
		case "key":
			m.Key = r.name("merge.key")
		case "mode":
			m.Mode = duly.MergeMode(r.name("merge.mode"))
		case "max_wait":
			m.MaxWait = r.span("merge.max_wait", false)
		case "until":
			m.Until = duly.MergeUntil(r.name("merge.until"))
		default:
			r.unknown(key)
		}
	}
	return m
}

// appendPushed writes a job of a push: what is zero is left out.
func appendPushed(dst []byte, j *duly.Job) []byte {
	o := begin(dst)
	o.string("queue", j.Queue)
	o.sent("body", j.Body)
	o.text("id", j.ID)
	if j.Made {
		o.bool("made", true)
	}
	if j.Delay != 0 {
		o.duration("delay", j.Delay)
	}
	o.due(j.Due)
	o.rules(&j.Priority, j.Tries, j.MaxStalls, j.Backoff, j.TTL, j.Lease, j.Retain)
	o.keys(j)
	return o.end()
}

// rules writes what jobs, updates and defaults share, unless it is zero.
func (o *object) rules(priority *int, tries, maxStalls int, backoff duly.Backoff, ttl, lease, retain time.Duration) {
	if priority != nil && *priority != 0 {
		o.int("priority", int64(*priority))
	}
	if tries != 0 {
		o.int("tries", int64(tries))
	}
	if maxStalls != 0 {
		o.count("max_stalls", maxStalls)
	}

	o.text("backoff", string(backoff))
	if ttl != 0 {
		o.span("ttl", ttl)
	}
	if lease != 0 {
		o.duration("lease", lease)
	}
	if retain != 0 {
		o.span("retain", retain)
	}
}

// keys writes the rest of a job's fields unless they are empty.
func (o *object) keys(j *duly.Job) {
	if len(j.Headers) > 0 {
		o.headers("headers", j.Headers)
	}
	o.text("order_key", j.OrderKey)
	o.text("callback", j.Callback)
	o.text("on_done", j.OnDone)
	o.text("on_dead", j.OnDead)
	if !j.Merge.Set() {
		return
	}
	o.key("merge")
	m := begin(o.dst)
	m.text("key", j.Merge.Key)
	m.text("mode", string(j.Merge.Mode))
	m.text("until", string(j.Merge.Until))
	if j.Merge.MaxWait != 0 {
		m.duration("max_wait", j.Merge.MaxWait)
	}
	o.dst = m.end()
}

// stored writes a job as an engine tells it.
func (o *object) stored(j *duly.Job, body bool) {
	o.string("id", j.ID)
	o.string("queue", j.Queue)
	if body {
		o.bytes("body", j.Body)
	}
	o.int("priority", int64(j.Priority))
	o.rules(nil, j.Tries, j.MaxStalls, j.Backoff, j.TTL, j.Lease, j.Retain)
	o.keys(j)
	o.time("due", j.Due)
}

// storedField reads what stored wrote.
func (r *reader) storedField(j *duly.Job, key string) (known bool) {
	if key == "due" {
		j.Due = r.time(key)
		return true
	}
	return r.jobField(j, key)
}

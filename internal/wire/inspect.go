package wire

import (
	"github.com/dulymq/duly"
)

// AppendJob writes a job as it stands, with its body.
func AppendJob(dst []byte, j *duly.JobInfo) []byte { return appendJob(dst, j, true) }

func appendJob(dst []byte, j *duly.JobInfo, body bool) []byte {
	o := begin(dst)
	o.stored(&j.Job, body)
	o.string("state", j.State.String())
	o.int("size", int64(j.Size))
	o.int("attempt", int64(j.Attempt))
	o.int("failures", int64(j.Failures))
	o.int("stalls", int64(j.Stalls))
	o.time("pushed_at", j.PushedAt)
	o.time("expires_at", j.ExpiresAt)
	o.time("lease_end", j.LeaseEnd)
	o.time("finished_at", j.FinishedAt)
	o.text("last_error", j.LastError)
	if j.Result != nil {
		o.bytes("result", j.Result)
	}
	return o.end()
}

// ReadJob reads a job as it stands.
func ReadJob(text, namespace string) (j duly.JobInfo, err error) {
	err = parse(text, Lenient, func(r *reader) { r.job(&j, namespace) })
	return j, err
}

func (r *reader) job(j *duly.JobInfo, namespace string) {
	j.Namespace = namespace
	for key := range r.object {
		if !r.infoField(j, key) && !r.storedField(&j.Job, key) {
			r.unknown(key)
		}
	}
}

func (r *reader) infoField(j *duly.JobInfo, key string) (known bool) {
	switch key {
	case "state":
		unmarshal(r, key, &j.State)
	case "size":
		j.Size = int(r.int(key))
	case "attempt":
		j.Attempt = int(r.int(key))
	case "failures":
		j.Failures = int(r.int(key))
	case "stalls":
		j.Stalls = int(r.int(key))
	case "pushed_at":
		j.PushedAt = r.time(key)
	case "expires_at":
		j.ExpiresAt = r.time(key)
	case "lease_end":
		j.LeaseEnd = r.time(key)
	case "finished_at":
		j.FinishedAt = r.time(key)
	case "last_error":
		j.LastError = r.string(key)
	case "result", "result_base64":
		j.Result = r.either("result", key, j.Result)
	default:
		return false
	}

	return true
}

// AppendJobs writes a page of jobs, with their bodies if they were asked for.
func AppendJobs(dst []byte, p duly.ListPage, bodies bool) []byte {
	o := begin(dst)
	list(&o, "jobs", p.Jobs, func(dst []byte, j *duly.JobInfo) []byte { return appendJob(dst, j, bodies) })
	o.string("next", p.Next)
	return o.end()
}

// ReadJobs reads a page of jobs. Where bodies were not asked for, they are nil.
func ReadJobs(text, namespace string) (p duly.ListPage, err error) {
	err = readList(text, "jobs", func(r *reader) {
		var j duly.JobInfo
		r.job(&j, namespace)
		p.Jobs = append(p.Jobs, j)
	}, next(&p.Next))
	return p, err
}

func next(into *string) func(*reader, string) bool {
	return func(r *reader, key string) bool {
		if key != "next" {
			return false
		}
		*into = r.string(key)
		return true
	}
}

// AppendNames writes a page of names under a field: "queues", "namespaces".
func AppendNames(dst []byte, field string, p duly.NamePage) []byte {
	o := begin(dst)
	list(&o, field, p.Names, func(dst []byte, name *string) []byte {
		o := begin(dst)
		o.string("name", *name)
		return o.end()
	})
	o.string("next", p.Next)
	return o.end()
}

// AppendSurvey writes a page of queues, each with its stats or with why there are
// none.
func AppendSurvey(dst []byte, p duly.SurveyPage) []byte {
	o := begin(dst)
	list(&o, "queues", p.Queues, func(dst []byte, q *duly.QueueStats) []byte {
		o := begin(dst)
		o.string("name", q.Name)
		if q.Err != nil {
			o.error(q.Err)
		} else {
			o.key("stats")
			o.dst = appendStats(o.dst, &q.Stats)
			o.throttle(q.Throttle)
		}
		return o.end()
	})
	o.string("next", p.Next)
	return o.end()
}

// throttle writes what holds jobs back. What does not is left out.
func (o *object) throttle(t duly.Throttle) {
	if t.Paused {
		o.bool("paused", true)
	}
	if t.MaxLeased != duly.None {
		o.count("max_leased", t.MaxLeased)
	}
	if t.Rate.Limited() {
		o.rate("rate", t.Rate.PerSecond)
	}
	if t.Rate.Burst != 0 {
		o.int("burst", int64(t.Rate.Burst))
	}
}

// ReadSurvey reads a page of queues with their stats.
func ReadSurvey(text string) (p duly.SurveyPage, err error) {
	err = readList(text, "queues", func(r *reader) {
		q := duly.QueueStats{Throttle: duly.DefaultQueueConfig().Throttle()}
		for key := range r.object {
			switch key {
			case "name":
				q.Name = r.string(key)
			case "stats":
				r.stats(&q.Stats)
			case "error":
				q.Err = r.errorValue()
			case "paused":
				q.Throttle.Paused = r.boolean(key)
			case "max_leased":
				q.Throttle.MaxLeased = r.count(key, true)
			case "rate":
				q.Throttle.Rate.PerSecond = r.rate(key)
			case "burst":
				q.Throttle.Rate.Burst = r.count(key, false)
			default:
				r.unknown(key)
			}
		}
		if q.Err != nil {
			q.Throttle = duly.Throttle{}
		}
		p.Queues = append(p.Queues, q)
	}, next(&p.Next))

	return p, err
}

// ReadNames reads a page of names.
func ReadNames(text, field string) (p duly.NamePage, err error) {
	err = readList(text, field, func(r *reader) {
		for key := range r.object {
			if key == "name" {
				p.Names = append(p.Names, r.string(key))
			} else {
				r.unknown(key)
			}
		}
	}, next(&p.Next))
	return p, err
}

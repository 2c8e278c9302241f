package wire

import (
	"strconv"

	"github.com/dulymq/duly"
)

// ReadUpdate reads a change of a waiting job.
func ReadUpdate(text string, mode Mode) (u duly.Update, err error) {
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			if !r.updateField(&u, key) {
				r.unknown(key)
			}
		}
	})
	return u, err
}

func (r *reader) updateField(u *duly.Update, key string) (known bool) {
	switch key {
	case "delay":
		if d, given := r.duration(key); given {
			u.Delay = &d
		}
	case "due":
		u.Due = r.time(key)
	case "priority":
		if !r.null() {
			n := int(r.int(key))
			u.Priority = &n
		}
	case "body", "body_base64":
		u.Body = r.either("body", key, u.Body)
	case "headers":
		u.Headers = r.headers()
	default:
		return r.ruleField("", key, &u.Tries, &u.MaxStalls, &u.Backoff, &u.TTL, &u.Lease, &u.Retain)
	}

	return true
}

// AppendUpdate writes a change of a waiting job: what stays is left out.
func AppendUpdate(dst []byte, u *duly.Update) []byte {
	o := begin(dst)
	if u.Delay != nil {
		o.duration("delay", *u.Delay)
	}
	o.due(u.Due)
	if u.Priority != nil {
		o.int("priority", int64(*u.Priority))
	}
	if u.Body != nil {
		o.sent("body", u.Body)
	}
	if u.Headers != nil {
		o.headers("headers", u.Headers)
	}
	o.rules(nil, u.Tries, u.MaxStalls, u.Backoff, u.TTL, u.Lease, u.Retain)
	return o.end()
}

// ReadRequeue reads which dead jobs live again, and how.
func ReadRequeue(text string, mode Mode) (p duly.RequeueParams, err error) {
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "ids":
				p.IDs = r.strings(key, duly.MaxBatch)
			case "n":
				p.N = int(r.int(key))
			case "tries":
				p.Tries = r.count(key, false)
			case "ttl":
				p.TTL = r.span(key, true)
			default:
				r.unknown(key)
			}
		}
	})
	return p, err
}

// AppendRequeue writes which dead jobs live again, and how.
func AppendRequeue(dst []byte, p duly.RequeueParams) []byte {
	o := begin(dst)
	if len(p.IDs) > 0 {
		texts(&o, "ids", p.IDs)
	}
	if p.N != 0 {
		o.int("n", int64(p.N))
	}
	o.rules(nil, p.Tries, 0, "", p.TTL, 0, 0)
	return o.end()
}

// AppendRequeued writes the answer to a requeue.
func AppendRequeued(dst []byte, results []duly.RequeueResult) []byte {
	o := begin(dst)
	list(&o, "results", results, func(dst []byte, q *duly.RequeueResult) []byte {
		o := begin(dst)
		o.string("id", q.ID)
		if q.State != duly.StateNone {
			o.string("state", q.State.String())
		}
		o.text("merged", q.Merged)
		if q.Err != nil {
			o.error(q.Err)
		}
		return o.end()
	})
	return o.end()
}

// ReadRequeued reads the answer to a requeue.
func ReadRequeued(text string) (results []duly.RequeueResult, err error) {
	err = readResults(text, func(r *reader) {
		var q duly.RequeueResult
		for key := range r.object {
			switch key {
			case "id":
				q.ID = r.string(key)
			case "state":
				unmarshal(r, key, &q.State)
			case "merged":
				q.Merged = r.string(key)
			case "error":
				q.Err = r.errorValue()
			default:
				r.unknown(key)
			}
		}
		results = append(results, q)
	})

	return results, err
}

// Purge is the request of a purge: up to N jobs of one state, all of them for
// 0.
type Purge struct {
	State duly.State
	N     int
}

// ReadPurge reads the request of a purge.
func ReadPurge(text string, mode Mode) (p Purge, err error) {
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "state":
				unmarshal(r, key, &p.State)
			case "n":
				p.N = r.count(key, false)
			default:
				r.unknown(key)
			}
		}
	})
	return p, err
}

// AppendPurge writes the request of a purge.
func AppendPurge(dst []byte, p Purge) []byte {
	o := begin(dst)
	o.string("state", p.State.String())
	if p.N != 0 {
		o.int("n", int64(p.N))
	}
	return o.end()
}

// AppendPurged writes the answer to a purge: how many jobs have gone.
func AppendPurged(dst []byte, n int) []byte {
	o := begin(dst)
	o.int("purged", int64(n))
	return o.end()
}

// ReadPurged reads the answer to a purge.
func ReadPurged(text string) (n int, err error) {
	err = parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			if key == "purged" {
				n = int(r.int(key))
			} else {
				r.unknown(key)
			}
		}
	})
	return n, err
}

// ReadEmpty reads the request of an operation without parameters: nothing, or
// an empty object.
func ReadEmpty(text string, mode Mode) error {
	if text == "" {
		return nil
	}
	return parse(text, mode, func(r *reader) {
		for key := range r.object {
			r.unknown(key)
		}
	})
}

// rate writes deliveries per second, or "none".
func (o *object) rate(name string, perSecond float64) {
	if perSecond == duly.None {
		o.string(name, "none")
		return
	}
	o.key(name)
	o.dst = strconv.AppendFloat(o.dst, perSecond, 'g', -1, 64)
}

func (r *reader) rate(field string) float64 {
	if r.null() {
		return 0
	}
	if r.isNone() {
		return duly.None
	}
	text := r.number(field)
	if r.err != nil {
		return 0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f <= 0 {
		r.bad(field, "must be above 0, or none")
		return 0
	}
	return f
}

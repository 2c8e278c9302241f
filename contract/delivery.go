package contract

import (
	"strings"

	"github.com/dulymq/duly/internal/hook"

	"github.com/dulymq/duly"
)

// TargetPrefix begins a destination that names a registered target.
const TargetPrefix = "target:"

// ParseDestination splits a destination: it returns the name of a registered target,
// or the URL. Both are empty for [duly.NoDestination] and for no destination.
func ParseDestination(text string) (target, url string) {
	if name, ok := strings.CutPrefix(text, TargetPrefix); ok {
		return name, ""
	}
	if text == duly.NoDestination {
		return "", ""
	}
	return "", text
}

// checkDestination checks the form of a destination. The server checks whether it may
// be called.
func checkDestination(f *BadFields, field, text string) {
	if name, ok := strings.CutPrefix(text, TargetPrefix); ok {
		checkTargetName(f, field, name)
		return
	}
	if _, reason := hook.ParseURL(text); reason != "" {
		f.Add(field, "%s", reason)
	}
}

// checkTargetName checks the name of a target.
func checkTargetName(f *BadFields, field, name string) { checkName(f, field, name, "-_") }

// checkDestinations checks the destinations of a job or a queue; "" is absent.
func checkDestinations(f *BadFields, onDone, onDead string) {
	for _, d := range []struct{ field, text string }{{"on_done", onDone}, {"on_dead", onDead}} {
		if d.text != "" && d.text != duly.NoDestination {
			checkDestination(f, d.field, d.text)
		}
	}
}

// defaultsOf returns the job defaults of a queue with that mode.
func defaultsOf(mode duly.DeliveryMode) duly.Defaults {
	if mode != duly.DeliverPush {
		return FillDefaults(duly.Defaults{})
	}
	return FillDefaults(duly.Defaults{Tries: 10, MaxStalls: 1000, Backoff: "15s,3m,10m,30m,30m,1h,2h,6h,15h", Lease: 15e9})
}

// deliveredBy returns the configuration of an empty queue after a change of its mode.
// A field that has the old mode's default gets the default of the new mode.
func deliveredBy(c duly.QueueConfig, mode duly.DeliveryMode) duly.QueueConfig {
	if mode == "" || mode == c.Delivery {
		return c
	}

	was, is := defaultsOf(c.Delivery), defaultsOf(mode)
	change(&c.Defaults.Tries, was.Tries, is.Tries)
	change(&c.Defaults.MaxStalls, was.MaxStalls, is.MaxStalls)
	change(&c.Defaults.Backoff, was.Backoff, is.Backoff)
	change(&c.Defaults.Lease, was.Lease, is.Lease)

	c.Delivery, c.Push = mode, duly.PushConfig{}
	if mode == duly.DeliverPush {
		c.Push = duly.PushConfig{URL: duly.NoDestination, OnDone: duly.NoDestination, OnDead: duly.NoDestination}
	}
	return c
}

// change sets a field that has the value was to is.
func change[T comparable](field *T, was, is T) {
	if *field == was {
		*field = is
	}
}

func patchPush(p duly.PushConfig, patch duly.PushConfig) duly.PushConfig {
	set(&p.URL, patch.URL)
	set(&p.OnDone, patch.OnDone)
	set(&p.OnDead, patch.OnDead)
	return p
}

// ConfigForNew returns the configuration of a queue that the push of a job makes. A job with
// a callback makes a push queue.
func ConfigForNew(c duly.QueueConfig, j *duly.Job) duly.QueueConfig {
	if j.Callback == "" {
		return c
	}
	return deliveredBy(c, duly.DeliverPush)
}

func checkDeliveryConfig(c duly.QueueConfig, f *BadFields) {
	switch c.Delivery {
	case "", duly.DeliverPull, duly.DeliverPush:
	default:
		f.Add("delivery", "is %s, must be pull or push", Quoted(string(c.Delivery)))
	}
	if u := c.Push.URL; u != "" && u != duly.NoDestination {
		checkDestination(f, "push_url", u)
	}
	checkDestinations(f, c.Push.OnDone, c.Push.OnDead)
}

// CheckConfig returns [duly.ErrInvalid] for fields of a whole configuration that contradict
// each other: a limit below the number of shards, and a setting of push queues in
// another queue.
func CheckConfig(c duly.QueueConfig) error {
	var f BadFields
	checkParts(c, &f)
	if c.Delivery != duly.DeliverPush {
		for _, x := range []struct{ field, text string }{{"push_url", c.Push.URL}, {"on_done", c.Push.OnDone}, {"on_dead", c.Push.OnDead}} {
			if x.text != "" {
				f.Add(x.field, "is for push queues only; set delivery to push, or leave it out")
			}
		}
	}
	return f.Err()
}

// DeliveryInUse is the error of a Configure that changes the delivery of a queue which
// holds jobs.
func DeliveryInUse(q duly.QueueRef, is duly.DeliveryMode) error {
	return Errorf(duly.CodeConflict, "queue %s is a %s queue and holds jobs; its delivery changes only while it is empty, without dead and done jobs: purge it first, or use another queue", q, is)
}

// CheckDelivery returns the error of a push of this job into a queue of that
// configuration, because of how the queue delivers: [duly.ErrConflict] for a destination in
// a pull queue; [duly.ErrInvalid] for no destination at all, and for headers that a request
// can't take from a job.
func CheckDelivery(j *duly.Job, c *duly.QueueConfig) error {
	if c.Delivery != duly.DeliverPush {
		if j.Callback == "" && j.OnDone == "" && j.OnDead == "" {
			return nil
		}
		return Errorf(duly.CodeConflict, "queue %s is a pull queue, so no server calls a URL for its jobs; leave out callback, on_done and on_dead, or use a push queue", duly.QueueRef{Namespace: j.Namespace, Name: j.Queue})
	}

	var f BadFields
	if j.Callback == "" && c.Push.URL == duly.NoDestination {
		f.Add("callback", "is missing; give a URL or target:NAME, or set push_url of queue %s", duly.QueueRef{Namespace: j.Namespace, Name: j.Queue})
	}
	for name := range j.Headers {
		lower := strings.ToLower(name)
		if reason := hook.KindOf(lower).Reason(); reason != "" {
			f.Add("headers", "have %s, %s", lower, reason)
		}
	}
	return f.Err()
}

package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

func jobTests() []test {
	return []test{
		{"DefaultsMatchTheContract", []string{"C2.5", "C2.14", "C2.15", "C2.17", "C2.22", "C2.26"}, Options{}, jobDefaults},
		{"AbsentFieldsTakeTheQueuesDefaultsAtPush", []string{"C2.32", "C10.4"}, Options{}, jobQueueDefaults},
		{"NoneOverridesTheDefault", []string{"C2.33", "C2.19"}, Options{}, jobNone},
		{"OwnFieldsOverrideTheDefaults", []string{"C2.32", "C10.4"}, Options{}, jobGiven},
		{"BackoffTextIsStored", []string{"C2.34", "C8.2"}, Options{}, jobBackoffText},
		{"DeliveryHasAllFields", []string{"C4.27", "C4.28"}, Options{}, jobDelivery},
		{"DeliveryCountsFailuresAndStallsSeparately", []string{"C4.27", "C2.18"}, Options{}, jobAttempts},
		{"DeliveryOfAJobWithoutStallLimitCountsBoth", []string{"C4.27", "C2.19"}, Options{}, jobAttemptsWithoutStalls},
		{"DelayUsesTheEnginesClock", []string{"C2.10", "C5.1", "C5.2"}, Options{}, jobDelay},
		{"DueInThePastIsNow", []string{"C2.12"}, Options{OneShard: true}, jobPastDue},
		{"DueAndExpiryEndWithTheYear9999", []string{"C2.13"}, Options{}, jobLastMoment},
	}
}

func jobDefaults(s *scene) {
	j := s.get(s.push(duly.Job{}))
	same(s, "tries", j.Tries, 16)
	same(s, "max stalls", j.MaxStalls, 8)
	same(s, "backoff", j.Backoff, "exp:1s:1h")
	same(s, "lease", j.Lease, 30*time.Second)
	same(s, "ttl", j.TTL, duly.None)
	same(s, "retain", j.Retain, duly.None)
	same(s, "priority", j.Priority, 0)
	same(s, "merge", j.Merge, duly.Merge{})
	same(s, "namespace", j.Namespace, "default")
	sameTime(s, "due", j.Due, s.now())
	same(s, "delay", j.Delay, 0)
	sameTime(s, "expiry", j.ExpiresAt, time.Time{})
	sameTime(s, "the lease of a job that waits", j.LeaseEnd, time.Time{})
	m := s.get(s.push(duly.Job{Merge: duly.Merge{Key: "k"}})).Merge
	same(s, "merge", m, duly.Merge{Key: "k", Mode: duly.MergeKeep, Until: duly.UntilLeased})
}

func jobQueueDefaults(s *scene) {
	first := s.push(duly.Job{})
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{
		Tries: 3, MaxStalls: 2, Backoff: "fixed:7s", Lease: time.Minute, TTL: time.Hour, Retain: 2 * time.Hour,
	}})
	second := s.push(duly.Job{})
	// Later defaults do not change a job that was pushed before.
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 4, MaxStalls: duly.None, TTL: duly.None,
		Retain: duly.None}})

	j := s.get(second)
	same(s, "tries", j.Tries, 3)
	same(s, "max stalls", j.MaxStalls, 2)
	same(s, "backoff", j.Backoff, "fixed:7s")
	same(s, "lease", j.Lease, time.Minute)
	same(s, "ttl", j.TTL, time.Hour)
	same(s, "retain", j.Retain, 2*time.Hour)
	sameTime(s, "expiry", j.ExpiresAt, s.now().Add(time.Hour))

	same(s, "the first job's tries", s.get(first).Tries, 16)
	third := s.get(s.push(duly.Job{}))
	same(s, "the third job's tries", third.Tries, 4)
	same(s, "the third job's stalls", third.MaxStalls, duly.None)
	same(s, "the third job's ttl", third.TTL, duly.None)
	same(s, "the third job's retain", third.Retain, duly.None)
}

func jobNone(s *scene) {
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{MaxStalls: 5, TTL: time.Hour, Retain: time.Hour}})
	j := s.get(s.push(duly.Job{MaxStalls: duly.None, TTL: duly.None, Retain: duly.None}))
	same(s, "max stalls", j.MaxStalls, duly.None)
	same(s, "ttl", j.TTL, duly.None)
	same(s, "retain", j.Retain, duly.None)
	sameTime(s, "expiry", j.ExpiresAt, time.Time{})
}

func jobGiven(s *scene) {
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{
		Tries: 3, MaxStalls: 2, Backoff: "fixed:7s", Lease: time.Minute, TTL: time.Hour, Retain: time.Minute,
	}})
	j := s.get(s.push(duly.Job{Tries: 5, MaxStalls: 6, Backoff: "1s,2s", Lease: time.Second, TTL: time.Minute,
		Retain: time.Hour}))
	same(s, "tries", j.Tries, 5)
	same(s, "max stalls", j.MaxStalls, 6)
	same(s, "backoff", j.Backoff, "1s,2s")
	same(s, "lease", j.Lease, time.Second)
	same(s, "ttl", j.TTL, time.Minute)
	same(s, "retain", j.Retain, time.Hour)

	// The error says whether the bound is the queue's default or the job's own.
	const byDefault, own = "1h by the queue's default", "2h and ends before"
	s.namesBound("a delay beyond the queue's ttl", s.try(duly.Job{Delay: 2 * time.Hour}).Err, "ttl", byDefault)
	s.namesBound("a due beyond the queue's ttl", s.try(duly.Job{Due: s.now().Add(2 * time.Hour)}).Err, "ttl", byDefault)
	s.namesBound("a delay beyond the job's ttl", s.try(duly.Job{TTL: 2 * time.Hour, Delay: 3 * time.Hour}).Err, "ttl", own)
	s.namesBound("a due beyond the job's ttl", s.try(duly.Job{TTL: 2 * time.Hour, Due: s.now().Add(3 * time.Hour)}).Err,
		"ttl", own)
}

func jobBackoffText(s *scene) {
	for _, text := range []duly.Backoff{"fixed:5s", "exp:1s:1h", "15s,3m,10m,30m,30m,1h,2h,6h,15h", "exp:250ms:90d",
		"fixed:0s"} {
		same(s, "the backoff", s.get(s.push(duly.Job{Backoff: text})).Backoff, text)
	}
}

func jobDelivery(s *scene) {
	start := s.now()
	j := duly.Job{
		ID: "x", Body: []byte("b"), Headers: map[string]string{"h": "v"}, Delay: time.Minute, Priority: 4, Tries: 5,
		MaxStalls: 6,
		Backoff:   "fixed:1s", TTL: time.Hour, Lease: 10 * time.Second, OrderKey: "o", Merge: duly.Merge{Key: "m"},
		Retain: time.Minute,
	}
	s.push(j)

	s.Advance(90 * time.Second)
	d := s.take()
	s.sameContent("the delivery", d.Job, j)
	sameTime(s, "now", d.Now, s.now())
	sameTime(s, "pushed at", d.PushedAt, start)
	sameTime(s, "due", d.Due, start.Add(time.Minute))
	sameTime(s, "expiry", d.ExpiresAt, start.Add(time.Hour))
	sameTime(s, "lease end", d.LeaseEnd, s.now().Add(10*time.Second))
	same(s, "delay", d.Delay, 0)
	// The fields that are compared above, or that sameDelivery does not compare.
	d.Body, d.Headers, d.Due = nil, nil, time.Time{}
	want := duly.Delivery{
		Job: duly.Job{
			ID: "x", Namespace: "default", Queue: s.queue, Priority: 4, Tries: 5, MaxStalls: 6, Backoff: "fixed:1s",
			TTL: time.Hour, Lease: 10 * time.Second, OrderKey: "o", Retain: time.Minute,
			Merge: duly.Merge{Key: "m", Mode: duly.MergeKeep, Until: duly.UntilLeased},
		},
		Attempt: 1, Receipt: d.Receipt, LeaseEnd: d.LeaseEnd, Now: d.Now, PushedAt: d.PushedAt, ExpiresAt: d.ExpiresAt,
	}
	sameDelivery(s, d, want)
	if d.Receipt == "" {
		s.Error("the delivery has no receipt, want one")
	}
}

// sameDelivery compares two deliveries except for bodies, headers and times.
func sameDelivery(s *scene, got, want duly.Delivery) {
	s.Helper()
	got.Made, want.Made = false, false // Made describes the push and not the job, so it is not compared
	type rest struct {
		id, namespace, queue       string
		priority, tries, maxStalls int
		backoff                    duly.Backoff
		ttl, lease, retain         time.Duration
		orderKey                   string
		merge                      duly.Merge
		attempt, failures, stalls  int
	}
	of := func(d duly.Delivery) rest {
		return rest{d.ID, d.Namespace, d.Queue, d.Priority, d.Tries, d.MaxStalls, d.Backoff, d.TTL, d.Lease, d.Retain,
			d.OrderKey, d.Merge,
			d.Attempt, d.Failures, d.Stalls}
	}
	same(s, "the delivery", of(got), of(want))
}

func (s *scene) counts(d duly.Delivery, attempt, failures, stalls int) {
	s.Helper()
	if d.Attempt != attempt || d.Failures != failures || d.Stalls != stalls {
		s.Errorf("the delivery has attempt %d, failures %d, stalls %d; want %d, %d, %d",
			d.Attempt, d.Failures, d.Stalls, attempt, failures, stalls)
	}
}

func jobAttempts(s *scene) {
	id := s.push(duly.Job{Backoff: "fixed:0s"})
	d := s.take()
	s.counts(d, 1, 0, 0)
	s.nack(d, "no")
	d = s.take()
	s.counts(d, 2, 1, 0)
	s.stall(d)
	d = s.take()
	s.counts(d, 2, 1, 1)
	// A release counts neither as a failure nor as a stall.
	s.release(d)
	d = s.take()
	s.counts(d, 2, 1, 1)

	info := s.get(id)
	if info.Attempt != 2 || info.Failures != 1 || info.Stalls != 1 {
		s.Errorf("Get returns attempt %d, failures %d, stalls %d; want 2, 1, 1", info.Attempt, info.Failures, info.Stalls)
	}
	s.counted(duly.Counters{Pushed: 1, Delivered: 4, Failed: 1, Stalled: 1, Released: 1})
}

func jobAttemptsWithoutStalls(s *scene) {
	s.push(duly.Job{Backoff: "fixed:0s", MaxStalls: duly.None})
	d := s.take()
	// Without a limit on stalls, a stall counts as a try.
	s.stall(d)
	d = s.take()
	s.counts(d, 2, 0, 1)
	s.nack(d, "no")
	s.counts(s.take(), 3, 1, 1)
}

func jobDelay(s *scene) {
	s.push(duly.Job{Delay: 1500 * time.Millisecond})
	s.Advance(1499 * time.Millisecond)
	s.nothing("it is due in a millisecond")
	s.Advance(time.Millisecond)
	sameTime(s, "now", s.take().Now, s.now())
}

func jobPastDue(s *scene) {
	first := s.push(duly.Job{})
	second := s.push(duly.Job{Due: s.now().Add(-time.Hour)})
	sameTime(s, "the due of a job of an hour ago", s.get(second).Due, s.now())
	third := s.push(duly.Job{Due: time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)})
	sameTime(s, "the due of a job of 1960", s.get(third).Due, s.now())
	// A due time in the past does not move the job ahead of jobs that are ready.
	s.takes(first, second, third)
}

func jobLastMoment(s *scene) {
	id := s.push(duly.Job{Due: duly.MaxTime})
	sameTime(s, "the last due", s.get(id).Due, duly.MaxTime)
	// A Duration holds at most 292 years.
	rest := duly.MaxTime.Sub(s.now()).Truncate(time.Millisecond)
	id = s.push(duly.Job{TTL: rest, Due: s.now().Add(rest)})
	sameTime(s, "the expiry", s.get(id).ExpiresAt, s.now().Add(rest))

	far := s.in("far")
	far.Clock.Step(duly.MaxTime.Add(-time.Hour).Sub(s.now()))
	// A Duration is too short for a step of 8000 years, so the clock moves in several.
	for range 40 {
		if left := duly.MaxTime.Sub(s.now()); left > 2*time.Hour {
			far.Clock.Step(min(left-time.Hour, 200*365*24*time.Hour))
		}
	}
	s.names("a delay beyond the year 9999", far.try(duly.Job{Delay: 2 * time.Hour}).Err, duly.CodeInvalid, "delay")
	s.names("a ttl beyond the year 9999", far.try(duly.Job{TTL: 2 * time.Hour}).Err, duly.CodeInvalid, "ttl")
	far.push(duly.Job{Delay: 30 * time.Minute, TTL: 50 * time.Minute})
}

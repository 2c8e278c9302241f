package enginetest

import (
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func deliveryTests() []test {
	return []test{
		{"CallbackCreatesAPushQueue", []string{"C2.28", "C16.1", "C16.2", "C16.7"}, Options{}, deliveryByCallback},
		{"ConfigureCreatesAPushQueue", []string{"C16.1", "C16.2", "C16.7"}, Options{}, deliveryByConfigure},
		{"PushQueueHasItsOwnDefaults", []string{"C16.8", "C16.9", "C16.10", "C16.11", "C16.12"}, Options{}, deliveryDefaults},
		{"ChangesOnlyWhileTheQueueIsEmpty", []string{"C16.3"}, Options{}, deliveryChanges},
		{"ChangeOfModeAppliesItsDefaults", []string{"C16.3", "C16.8", "C16.11"}, Options{}, deliveryChangesDefaults},
		{"DestinationInAPullQueueIsAConflict", []string{"C16.4"}, Options{}, deliveryConflict},
		{"JobWithoutADestinationIsInvalid", []string{"C16.5"}, Options{}, deliveryNowhere},
		{"PushQueueIsEmptyForPullers", []string{"C16.6"}, Options{}, deliveryPullers},
		{"PullQueueIsEmptyForDispatchers", []string{"C16.6"}, Options{}, deliveryDispatchers},
		{"PullersWaitIgnoresAPushQueue", []string{"C16.6"}, Options{}, deliveryWaits},
		{"WaitFollowsAChangeOfMode", []string{"C16.3", "C16.6"}, Options{}, deliveryWaitChanges},
		{"JobKeepsItsDestinations", []string{"C2.28", "C16.19", "C16.20", "C16.111"}, Options{}, deliveryKeeps},
		{"BadDestinationsAreNamed", []string{"C16.19", "C16.26", "C16.27", "C16.30", "C16.111"}, Options{}, deliveryBad},
		{"SettingsOfAPullQueueAreRefused", []string{"C16.1", "C16.111"}, Options{}, deliverySettings},
		{"HeadersThatTheDispatcherSetsAreRefused", []string{"C16.35", "C16.36"}, Options{}, deliveryHeaders},
	}
}

const (
	hookURL    = "https://example.com/hook?a=b"
	hookTarget = "target:crm"
)

// dispatched reserves up to n jobs as a dispatcher does. The default queue is the scene's queue.
func (s *scene) dispatched(n int, queues ...string) []duly.Delivery {
	s.Helper()
	if len(queues) == 0 {
		queues = []string{s.queue}
	}
	ds, err := s.dispatcher().Reserve(s.ctx, duly.ReserveParams{Namespace: s.namespace, Queues: queues, Max: n,
		Dispatcher: true})
	s.must("reserve", err)
	return ds
}

// dispatcher returns the engine that a dispatcher reserves from.
func (s *scene) dispatcher() duly.Engine {
	if s.Dispatcher != nil {
		return s.Dispatcher
	}
	return s.Engine
}

// pushQueue turns the scene's queue into a push queue.
func (s *scene) pushQueue() {
	s.Helper()
	s.configure(duly.QueueConfig{Delivery: duly.DeliverPush, Push: duly.PushConfig{URL: hookURL}})
}

func deliveryByCallback(s *scene) {
	s.push(duly.Job{ID: "x", Callback: hookURL})
	c := s.config()
	same(s, "delivery", c.Delivery, duly.DeliverPush)
	same(s, "the destinations", c.Push, duly.PushConfig{URL: duly.NoDestination, OnDone: duly.NoDestination,
		OnDead: duly.NoDestination})
	same(s, "delivery in Stats", s.stats().Delivery, duly.DeliverPush)

	other := s.on("other")
	same(s, "delivery of an unknown queue", other.config().Delivery, duly.DeliverPull)

	// The first job creates a pull queue, so the second job is refused.
	results, err := other.pushed(duly.Job{ID: "a"}, duly.Job{ID: "b", Callback: hookURL}, duly.Job{ID: "c"})
	s.must("push", err)
	s.must("push of a", results[0].Err)
	s.refused("a callback behind a job without one", results[1].Err, duly.CodeConflict)
	s.must("push of c", results[2].Err)
	same(s, "delivery", other.config().Delivery, duly.DeliverPull)
	same(s, "delivery in Stats", other.stats().Delivery, duly.DeliverPull)

	third := s.on("third")
	// The invalid first job creates no queue. The second job creates a push queue, in which the
	// third job needs a destination.
	results, err = third.pushed(duly.Job{ID: "a", Callback: "bad"}, duly.Job{ID: "b", Callback: hookTarget},
		duly.Job{ID: "c"})
	s.must("push", err)
	s.names("a bad callback", results[0].Err, duly.CodeInvalid, "callback")
	s.must("push of b", results[1].Err)
	s.names("no destination", results[2].Err, duly.CodeInvalid, "callback")

	// A job that is invalid for a new queue stays invalid, even if a later job of the batch turns
	// that queue into a push queue.
	soon := duly.Job{ID: "a", Delay: time.Hour, TTL: time.Minute}
	results, err = s.on("fourth").pushed(soon, duly.Job{ID: "b", Callback: hookURL})
	s.must("push", err)
	s.names("a TTL that ends too soon", results[0].Err, duly.CodeInvalid, "ttl")
	s.must("push of b", results[1].Err)

	soon.Queue = "sixth"
	results, err = s.on("fifth").pushed(soon, duly.Job{ID: "b"}, duly.Job{Queue: "sixth", ID: "c", Callback: hookURL})
	s.must("push to two queues", err)
	s.names("a TTL that ends too soon, in a batch of two queues", results[0].Err, duly.CodeInvalid, "ttl")
	s.must("push of b", results[1].Err)
	s.must("push of c", results[2].Err)
}

func deliveryByConfigure(s *scene) {
	s.configure(duly.QueueConfig{Delivery: duly.DeliverPush, Push: duly.PushConfig{OnDead: hookTarget}, MaxJobs: 5})
	want := contract.PatchConfig(s.usual(), duly.QueueConfig{Delivery: duly.DeliverPush,
		Push: duly.PushConfig{OnDead: hookTarget}, MaxJobs: 5})
	same(s, "configuration", s.config(), want)

	s.configure(duly.QueueConfig{Push: duly.PushConfig{URL: hookTarget, OnDone: hookURL, OnDead: duly.NoDestination}})
	want.Push = duly.PushConfig{URL: hookTarget, OnDone: hookURL, OnDead: duly.NoDestination}
	same(s, "configuration after a change", s.config(), want)

	// A pause must not reset the destinations.
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	same(s, "configuration after a pause", s.config(), want)
}

func deliveryDefaults(s *scene) {
	s.push(duly.Job{ID: "x", Callback: hookURL})
	same(s, "the defaults", s.config().Defaults, duly.Defaults{
		Tries: 10, MaxStalls: 1000, Backoff: "15s,3m,10m,30m,30m,1h,2h,6h,15h", Lease: 15 * time.Second, TTL: duly.None,
		Retain: duly.None,
	})
	j := s.get("x")
	same(s, "tries", j.Tries, 10)
	same(s, "backoff", j.Backoff, "15s,3m,10m,30m,30m,1h,2h,6h,15h")
	same(s, "lease", j.Lease, 15*time.Second)
	same(s, "max stalls", j.MaxStalls, 1000)
	same(s, "retain", j.Retain, duly.None)

	d := s.dispatched(1)[0]
	same(s, "the end of the lease", d.LeaseEnd, s.now().Add(15*time.Second))
	s.nack(d, "500")
	same(s, "the next try", s.get("x").Due, s.now().Add(15*time.Second))
}

func deliveryChanges(s *scene) {
	change := func(mode duly.DeliveryMode) error {
		return s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{Delivery: mode, MaxJobs: 7})
	}
	// The retained job stays after its ack, so the queue is not empty.
	s.push(duly.Job{ID: "x", Retain: time.Hour})
	s.unchanged("a ready job", func() { s.refused("to push", change(duly.DeliverPush), duly.CodeConflict) })
	s.must("the same mode", s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{Delivery: duly.DeliverPull}))

	d := s.take()
	s.unchanged("a leased job", func() { s.refused("to push", change(duly.DeliverPush), duly.CodeConflict) })
	s.ack(d)
	s.unchanged("a done job", func() { s.refused("to push", change(duly.DeliverPush), duly.CodeConflict) })

	// Only an empty queue can change its mode.
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "x"))
	s.must("to push", change(duly.DeliverPush))
	same(s, "delivery", s.config().Delivery, duly.DeliverPush)

	s.push(duly.Job{ID: "y", Callback: hookURL})
	s.bury(s.dispatched(1)[0], "gone")
	s.unchanged("a dead job", func() { s.refused("to pull", change(duly.DeliverPull), duly.CodeConflict) })
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "y"))
	s.must("to pull", change(duly.DeliverPull))
	s.push(duly.Job{ID: "z"})
	s.takes("z")
}

func deliveryChangesDefaults(s *scene) {
	s.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 3, Retain: time.Hour}})
	want := contract.PatchConfig(s.usual(), duly.QueueConfig{Defaults: duly.Defaults{Tries: 3, Retain: time.Hour}})

	s.configure(duly.QueueConfig{Delivery: duly.DeliverPush, Defaults: duly.Defaults{Lease: time.Minute}})
	// Fields that were set are kept. The other fields get the defaults of a push queue.
	push := want
	push.Delivery, push.Push = duly.DeliverPush, duly.PushConfig{URL: duly.NoDestination, OnDone: duly.NoDestination,
		OnDead: duly.NoDestination}
	push.Defaults = duly.Defaults{
		Tries: 3, MaxStalls: 1000, Backoff: "15s,3m,10m,30m,30m,1h,2h,6h,15h", Lease: time.Minute, TTL: duly.None,
		Retain: time.Hour,
	}
	same(s, "the push queue", s.config(), push)

	s.configure(duly.QueueConfig{Delivery: duly.DeliverPull})
	want.Defaults.Lease = time.Minute
	same(s, "the pull queue again", s.config(), want)
}

func deliveryConflict(s *scene) {
	s.push(duly.Job{ID: "x"})
	for field, j := range map[string]duly.Job{
		"a callback": {Callback: hookURL}, "on_done": {OnDone: hookTarget}, "on_dead": {OnDead: duly.NoDestination},
		"the callback of a job that exists": {ID: "x", Callback: hookTarget},
	} {
		s.unchanged(field, func() { s.refused(field, s.try(j).Err, duly.CodeConflict) })
	}
	s.refused("on_done in an unknown queue", s.on("other").try(duly.Job{OnDone: hookURL}).Err, duly.CodeConflict)
	same(s, "the number of queues", len(s.queues()), 1)
}

func deliveryNowhere(s *scene) {
	s.configure(duly.QueueConfig{Delivery: duly.DeliverPush})
	s.unchanged("a job without a destination", func() {
		s.names("the push", s.try(duly.Job{}).Err, duly.CodeInvalid, "callback")
	})
	s.push(duly.Job{Callback: hookURL})

	// The queue's own destination makes the job's optional.
	s.configure(duly.QueueConfig{Push: duly.PushConfig{URL: hookTarget}})
	s.push(duly.Job{})
	s.configure(duly.QueueConfig{Push: duly.PushConfig{URL: duly.NoDestination}})
	s.names("the push", s.try(duly.Job{}).Err, duly.CodeInvalid, "callback")
}

func deliveryPullers(s *scene) {
	s.pushQueue()
	s.push(duly.Job{ID: "x"})
	s.nothing("a puller gets a job of a push queue")

	// A reserve over both queues returns only the job of the pull queue.
	s.on("pull").push(duly.Job{ID: "y"})
	same(s, "the jobs of both queues", len(s.reserve(5, s.queue, "pull")), 1)
	ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Namespace: s.namespace, Queues: []string{s.queue}})
	s.must("wait", err)
	same(s, "a puller's Wait", ready, false)

	ready, err = s.dispatcher().Wait(s.ctx, duly.WaitParams{Namespace: s.namespace, Queues: []string{s.queue},
		Dispatcher: true})
	s.must("wait", err)
	same(s, "a dispatcher's Wait", ready, true)
	ds := s.dispatched(5)
	same(s, "the jobs that a dispatcher gets", len(ds), 1)
	s.ack(ds[0])
}

func deliveryDispatchers(s *scene) {
	s.push(duly.Job{ID: "x"})
	same(s, "the jobs that a dispatcher gets of a pull queue", len(s.dispatched(5)), 0)
	ready, err := s.dispatcher().Wait(s.ctx, duly.WaitParams{Namespace: s.namespace, Queues: []string{s.queue},
		Dispatcher: true})
	s.must("wait", err)
	same(s, "a dispatcher's Wait", ready, false)
	s.takes("x")
}

// dispatcherWaits starts a Wait as a dispatcher does.
func (s *scene) dispatcherWaits() *waiter {
	w := s.beginOn(s.dispatcher(), duly.WaitParams{Namespace: s.namespace, Queues: []string{s.queue},
		Timeout: duly.MaxWait, Dispatcher: true})
	s.Quiet()
	return w
}

func deliveryWaits(s *scene) {
	s.pushQueue()
	puller := s.wait()
	dispatcher := s.dispatcherWaits()
	// The delayed job wakes no waiter before its time. The ready job wakes the dispatcher.
	s.push(duly.Job{ID: "x", Delay: time.Minute})
	s.push(duly.Job{ID: "y"})
	puller.sleeps("the job belongs to a receiver")
	dispatcher.woke("a job was pushed")
	same(s, "the jobs that the dispatcher gets", len(s.dispatched(5)), 1)

	dispatcher = s.dispatcherWaits()
	s.Advance(10 * time.Second)
	dispatcher.sleeps("the next job is due in a minute")
	s.Advance(50 * time.Second)
	dispatcher.woke("the job is due")
	puller.sleeps("the job belongs to a receiver")
	puller.end()
	same(s, "the jobs that the dispatcher gets", len(s.dispatched(5)) > 0, true)
}

func deliveryWaitChanges(s *scene) {

	puller := s.wait()
	dispatcher := s.dispatcherWaits()
	// The Waits began before the queue had a mode of delivery, so they must follow the mode.
	s.pushQueue()
	s.push(duly.Job{ID: "x"})
	dispatcher.woke("a job was pushed into the push queue")
	s.ack(s.dispatched(1)[0])
	puller.sleeps("it is a push queue")

	dispatcher = s.dispatcherWaits()
	s.configure(duly.QueueConfig{Delivery: duly.DeliverPull})
	s.push(duly.Job{ID: "y"})
	puller.woke("a job was pushed into the pull queue")
	dispatcher.sleeps("it is a pull queue")
	s.takes("y")
}

func deliveryKeeps(s *scene) {
	s.pushQueue()
	s.push(duly.Job{ID: "own", Callback: hookTarget, OnDone: hookURL, OnDead: duly.NoDestination, Tries: 1})
	s.push(duly.Job{ID: "queue"})
	check := func(when string, j duly.Job) {
		s.Helper()
		same(s, "the callback "+when, j.Callback, hookTarget)
		same(s, "on_done "+when, j.OnDone, hookURL)
		same(s, "on_dead "+when, j.OnDead, duly.NoDestination)
	}
	check("in Get", s.get("own").Job)
	same(s, "the callback of the other job", s.get("queue").Callback, "")
	// The job with its own destinations fails its only try, so that it is dead.
	for _, d := range s.dispatched(2) {
		if d.ID == "own" {
			check("in a delivery", d.Job)
			s.nack(d, "500")
		}
	}

	check("in a list", s.list(duly.StateDead)[0].Job)
	s.requeue("own")
	check("after a requeue", s.get("own").Job)

	merge := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	// A replaced job gets all destinations of the new push, even the empty ones.
	s.push(duly.Job{ID: "merges", Callback: hookTarget, OnDone: hookTarget, Merge: merge, Delay: time.Hour})
	same(s, "the outcome", s.try(duly.Job{Callback: hookURL, OnDead: hookTarget, Merge: merge, Delay: time.Hour}).Status,
		duly.Merged)

	j := s.get("merges")
	same(s, "the callback after a replace", j.Callback, hookURL)
	same(s, "on_done after a replace", j.OnDone, "")
	same(s, "on_dead after a replace", j.OnDead, hookTarget)
}

// badDestinations returns destinations that no job or queue can have.
func badDestinations() []string {
	return []string{
		"ftp://example.com/", "example.com/hook", "/hook", "https:///hook", "https://user@example.com/",
		"https://example.com/#a", "https://[fe80::1%25eth0]/",
		"https://example.com/" + strings.Repeat("x", duly.MaxURL), "https://exämple.com/", "target:", "target:a/b",
		"target:" + strings.Repeat("t", duly.MaxName+1),
		"https://example.com:0/", "https://example.com:99999/", " https://example.com/",
	}
}

func deliveryBad(s *scene) {
	s.pushQueue()
	for _, bad := range badDestinations() {
		s.names("callback "+bad, s.try(duly.Job{Callback: bad}).Err, duly.CodeInvalid, "callback")
		s.names("on_done "+bad, s.try(duly.Job{OnDone: bad}).Err, duly.CodeInvalid, "on_done")
		s.names("on_dead "+bad, s.try(duly.Job{OnDead: bad}).Err, duly.CodeInvalid, "on_dead")
		for field, p := range map[string]duly.PushConfig{"push_url": {URL: bad}, "on_done": {OnDone: bad},
			"on_dead": {OnDead: bad}} {
			s.names(field+" "+bad, s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{Push: p}), duly.CodeInvalid, field)
		}
	}

	s.names("no callback", s.try(duly.Job{Callback: duly.NoDestination}).Err, duly.CodeInvalid, "callback")
	for _, good := range []string{
		"https://example.com", "http://192.0.2.1:8080/a?b=c", "https://[2001:db8::1]/", "target:a", "target:A.b_c-1",
		"target:" + strings.Repeat("t", duly.MaxName),
		"https://example.com/" + strings.Repeat("x", duly.MaxURL-len("https://example.com/")),
	} {
		s.push(duly.Job{Callback: good, OnDone: good, OnDead: good})
	}
}

func deliverySettings(s *scene) {
	s.names("an unknown mode", s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{Delivery: "fax"}), duly.CodeInvalid,
		"delivery")
	s.names("push_url alone", s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{Push: duly.PushConfig{URL: hookURL}}),
		duly.CodeInvalid, "push_url")
	same(s, "the number of queues", len(s.queues()), 0)

	s.configure(duly.QueueConfig{})
	s.names("on_dead alone", s.Engine.Configure(s.ctx, s.ref(),
		duly.QueueConfig{Push: duly.PushConfig{OnDead: hookURL}}), duly.CodeInvalid, "on_dead")
	s.names("on_done of a pull queue", s.Engine.Configure(s.ctx, s.ref(), duly.QueueConfig{
		Delivery: duly.DeliverPull, Push: duly.PushConfig{OnDone: duly.NoDestination},
	}), duly.CodeInvalid, "on_done")
	same(s, "configuration", s.config(), s.usual())
}

func deliveryHeaders(s *scene) {
	s.pushQueue()
	for _, name := range []string{
		"webhook-id", "Webhook-Timestamp", "webhook-signature", "duly-namespace", "duly-queue", "Duly-ID", "duly-attempt",
		"duly-tries", "duly-due", "user-agent",
		"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "Transfer-Encoding",
		"upgrade",
		"host", "content-length", "expect", "authorization", "Cookie",
	} {
		s.names(name, s.try(duly.Job{Headers: map[string]string{name: "x"}}).Err, duly.CodeInvalid, "headers")
	}
	s.push(duly.Job{Headers: map[string]string{"content-type": "text/plain", "traceparent": "x", "tracestate": "y",
		"x-own": "z"}})
	// A pull queue sends no request, so these headers are allowed.
	s.on("pull").push(duly.Job{Headers: map[string]string{"authorization": "x", "user-agent": "y"}})
}

package enginetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/dulymq/duly"
)

// The scripts use few queues, IDs and keys, so that operations often affect the same jobs.
const (
	scriptMaxBody   = 8
	scriptMaxQueues = 2 // the scripts use three queues of the default namespace, so one of them is refused
	scriptOwnIDs    = 3
	scriptIDs       = 6 // number of own and client-made IDs
	scriptBack      = 9 // the oldest receipt that is used, counted back from the last one
)

// The durations that the scripts use. Equal and nearly equal durations cause collisions. Fractions
// of a millisecond reveal wrong rounding.
var (
	someDelays = []time.Duration{0, 0, 0, time.Millisecond, time.Second, time.Second, 2 * time.Second,
		1500 * time.Microsecond, 5 * time.Second}
	someLeases = []time.Duration{0, 0, 100 * time.Millisecond, time.Second, time.Second, 2 * time.Second,
		3 * time.Second}
	someTTLs = []time.Duration{0, 0, 0, duly.None, time.Second, 2 * time.Second, 5 * time.Second,
		1500 * time.Microsecond}
	someRetains  = []time.Duration{0, 0, duly.None, time.Second, 5 * time.Second}
	someBackoffs = []duly.Backoff{"fixed:0s", "fixed:1s", "1s,2s", "fixed:1ms"}
	someAdvances = []time.Duration{
		time.Millisecond, time.Second, time.Second, 2 * time.Second, 999 * time.Millisecond, 1001 * time.Millisecond,
		500 * time.Microsecond, 5 * time.Second, 30 * time.Second,
	}
	someSteps = []time.Duration{time.Second, -time.Second, 5 * time.Second, -5 * time.Second, -time.Millisecond,
		-time.Hour, 500 * time.Microsecond}
)

// scripts generates scripts. A script has an opening, followed by the given number of random
// operations. One script in ten pushes only plain jobs.
func scripts(steps int) *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) script {
		opening := of(t, openings)
		operations := rapid.SliceOfN(rapid.Custom(drawOperation), steps, steps).Draw(t, "operations")
		if rarely(t, 10) {
			return plain(operations)
		}
		return append(slices.Clone(opening), operations...)
	})
}

// plain changes the jobs of a script to jobs without options, not even an own ID, also by the
// configuration of a queue or by an update. Engines have shorter paths for shards where no job has
// had an option.
func plain(sc script) script {
	for i, o := range sc {
		switch o := o.(type) {
		case pushOp:
			jobs := slices.Clone(o.Jobs)
			for k, spec := range jobs {
				jobs[k] = jobSpec{At: spec.At, ID: scriptOwnIDs + spec.ID%(scriptIDs-scriptOwnIDs), Fresh: true,
					Job: duly.Job{Body: spec.Body, Delay: spec.Delay}}
			}
			sc[i] = pushOp{jobs}
		case configureOp:
			sc[i] = configureOp{At: o.At, Patch: duly.QueueConfig{MaxLeased: o.Patch.MaxLeased, Rate: o.Patch.Rate}}
		case updateOp:
			sc[i] = lookOp{}
		case settleOp:
			outcomes := slices.Clone(o.Outcomes)
			for k := range outcomes {
				// The default backoff has a jitter, which depends on the ID.
				if o := &outcomes[k]; o.As == duly.Nack && o.Delay < 0 {
					o.Delay = time.Second
				}
			}
			sc[i] = settleOp{outcomes}
		}
	}
	return sc
}

// openings create situations that random operations seldom reach.
var openings = []script{
	{}, {}, {},
	// A done job whose receipt is known.
	{
		pushOp{[]jobSpec{{Job: duly.Job{Retain: time.Minute, Backoff: "fixed:0s"}}}},
		reserveOp{Queues: []queueSpec{0}, Max: 1},
		settleOp{[]outcomeSpec{{As: duly.Ack, Delay: -1, Result: 1}}},
	},
	// A delivered job that is blocked: it was dead, and another job took its order key.
	{
		pushOp{[]jobSpec{{Job: duly.Job{OrderKey: "k", Backoff: "fixed:0s"}}, {ID: 1, Job: duly.Job{OrderKey: "k"}}}},
		reserveOp{Queues: []queueSpec{0}, Max: 1}, settleOp{[]outcomeSpec{{As: duly.Bury, Delay: -1}}},
		requeueOp{IDs: []idSpec{0}},
	},
	// A dead job, whose merge key a newer job holds.
	{
		pushOp{[]jobSpec{{Job: duly.Job{Merge: duly.Merge{Key: "m"}}}}}, reserveOp{Queues: []queueSpec{0}, Max: 1},
		settleOp{[]outcomeSpec{{As: duly.Bury, Delay: -1}}},
		pushOp{[]jobSpec{{ID: 1, Job: duly.Job{Merge: duly.Merge{Key: "m"}, Delay: time.Second}}}},
	},
	// A push queue with a job that failed once.
	{
		pushOp{[]jobSpec{{At: 2, Job: duly.Job{Callback: "target:t", Backoff: "fixed:0s"}}}},
		reserveOp{Queues: []queueSpec{2}, Max: 1, Dispatcher: true}, settleOp{[]outcomeSpec{{As: duly.Nack, Delay: -1}}},
	},
	// An empty push queue.
	{configureOp{At: 2, Patch: duly.QueueConfig{Delivery: duly.DeliverPush, Push: duly.PushConfig{URL: "target:t"}}}},
	// A queue that was closed and reopened.
	{
		pushOp{[]jobSpec{{Job: duly.Job{Backoff: "fixed:0s"}}}}, reserveOp{Queues: []queueSpec{0}, Max: 1},
		settleOp{[]outcomeSpec{{As: duly.Release, Delay: -1, Slow: true, For: 5 * time.Second}}},
		configureOp{Patch: duly.QueueConfig{Reopen: true}},
	},
	// A queue with a lowered factor. Most of its jobs are leased.
	{
		configureOp{Patch: duly.QueueConfig{MaxLeased: 4, Adapt: duly.Adapt{Floor: 0.1}}}, pushed(4),
		reserveOp{Queues: []queueSpec{0}, Max: 4},
		settleOp{[]outcomeSpec{{As: duly.Release, Delay: -1, Slow: true}}}, advanceOp{time.Second},
	},
	// A queue whose next delivery is a probe.
	probing(advanceOp{time.Second}),
	// A queue whose probe is leased.
	probing(advanceOp{time.Second}, reserveOp{Queues: []queueSpec{0}, Max: 1}),
	// A dead job that became too old.
	{
		configureOp{Patch: duly.QueueConfig{DeadAge: time.Second}}, pushOp{[]jobSpec{{}}},
		reserveOp{Queues: []queueSpec{0}, Max: 1}, settleOp{[]outcomeSpec{{As: duly.Bury, Delay: -1}}},
		advanceOp{2 * time.Second}, stepOp{0},
	},
	// Two dead jobs: one failed, one was buried.
	{
		pushOp{[]jobSpec{{Job: duly.Job{Tries: 1}}, {ID: 1, Job: duly.Job{Tries: 1}}}},
		reserveOp{Queues: []queueSpec{0}, Max: 2},
		settleOp{[]outcomeSpec{{As: duly.Nack, Delay: -1, Error: "boom"}, {Which: 1, As: duly.Bury, Delay: -1}}},
	},
}

// pushed pushes the first n IDs of the script, as jobs that survive any number of failures.
func pushed(n int) pushOp {
	jobs := make([]jobSpec, n)
	for i := range jobs {
		jobs[i] = jobSpec{ID: idSpec(i), Job: duly.Job{Tries: duly.MaxTries, Backoff: "fixed:0s"}}
	}
	return pushOp{jobs}
}

// probing returns a script that opens a queue in probing and then runs some operations.
func probing(then ...operation) script {
	sc := script{configureOp{Patch: duly.QueueConfig{MaxLeased: 5, Adapt: duly.Adapt{Floor: 0.1}}}, pushed(5)}
	failures := make([]outcomeSpec, 5)
	for i := range failures {
		failures[i] = outcomeSpec{Which: i, As: duly.Nack, Delay: -1}
	}
	for range 4 { // 20 failures in a row
		sc = append(sc, reserveOp{Queues: []queueSpec{0}, Max: 5}, settleOp{failures})
	}
	return append(sc, then...)
}

// drawn lists each operation as often as its weight.
var drawn = func() (all []func(t *rapid.T) operation) {
	add := func(weight int, draw func(t *rapid.T) operation) {
		for range weight {
			all = append(all, draw)
		}
	}
	add(11, drawPush)
	add(8, drawReserve)
	add(7, drawSettle)
	add(5, func(t *rapid.T) operation { return advanceOp{of(t, someAdvances)} })
	add(3, func(*rapid.T) operation { return lookOp{} })
	add(3, drawUpdate)
	add(2, drawRequeue)
	add(2, drawConfigure)
	add(2, func(t *rapid.T) operation { return waitOp{drawReserve(t).(reserveOp)} })
	add(2, func(t *rapid.T) operation { return deleteOp{drawQueue(t), drawID(t)} })
	add(2, drawDeleteJobs)
	add(1, func(t *rapid.T) operation { return getJobsOp{drawQueue(t), drawIDs(t), rapid.Bool().Draw(t, "bodies")} })
	add(1, func(t *rapid.T) operation { return keysOp{drawQueue(t), of(t, []string{"", "k", "l", "kk", "\n"})} })
	add(2, func(t *rapid.T) operation { return promoteJobsOp{drawQueue(t), drawIDs(t)} })
	add(2, func(t *rapid.T) operation { return promoteOp{drawQueue(t), drawID(t)} })
	add(2, drawExtend)
	add(1, func(t *rapid.T) operation { return setClockOp{of(t, someSteps)} })
	add(1, func(t *rapid.T) operation { return stepOp{drawQueue(t)} })
	add(1, func(t *rapid.T) operation {
		return purgeOp{drawQueue(t), of(t, duly.States[:]), rapid.IntRange(0, 2).Draw(t, "n")}
	})
	add(1, func(t *rapid.T) operation { return pauseOp{drawQueue(t), rapid.Bool().Draw(t, "resume")} })
	add(1, func(t *rapid.T) operation { return destroyOp{drawQueue(t)} })
	return all
}()

func drawOperation(t *rapid.T) operation { return of(t, drawn)(t) }

// of draws one of the values.
func of[T any](t *rapid.T, values []T) T { return rapid.SampledFrom(values).Draw(t, "value") }

// rarely returns true in one of n draws.
func rarely(t *rapid.T, n int) bool { return rapid.IntRange(0, n-1).Draw(t, "rarely") == n-1 }

// drawQueue draws a queue, mostly the first one.
func drawQueue(t *rapid.T) queueSpec { return of(t, []queueSpec{0, 0, 0, 0, 0, 0, 1, 2, 3}) }

// drawID draws an ID, mostly the first one.
func drawID(t *rapid.T) idSpec { return of(t, []idSpec{0, 0, 0, 1, 2, 3, 4, 5}) }

func drawReserve(t *rapid.T) operation {
	o := reserveOp{Queues: []queueSpec{drawQueue(t)}, Max: rapid.IntRange(1, 3).Draw(t, "max"), Lease: of(t, someLeases)}
	// Queues of another namespace can't be reserved in the same call.
	if o.Queues[0] != 1 && rarely(t, 4) {
		o.Queues = append(o.Queues, of(t, []queueSpec{0, 2, 3}))
	}
	// Only the last two queues may be push queues, so a dispatcher elsewhere is an unusual case.
	o.Dispatcher = o.Queues[0] > 1 && rarely(t, 2) || rarely(t, 16)
	return o
}

func drawSettle(t *rapid.T) operation {
	return settleOp{rapid.SliceOfN(rapid.Custom(drawOutcome), 1, 3).Draw(t, "outcomes")}
}

func drawOutcome(t *rapid.T) outcomeSpec {
	o := outcomeSpec{
		Which: drawBack(t), Forge: drawForgery(t), Delay: -1,
		As: of(t, []duly.Settlement{duly.Ack, duly.Ack, duly.Nack, duly.Nack, duly.Nack, duly.Release, duly.Release,
			duly.Bury}),
	}
	// A delay is invalid for other settlements, which is tested rarely.
	if o.As == duly.Nack || o.As == duly.Release || rarely(t, 12) {
		o.Delay = of(t, []time.Duration{-1, 0, time.Second, 1500 * time.Microsecond})
	}
	if o.As == duly.Release && rarely(t, 4) || rarely(t, 40) {
		o.Slow, o.For = true, of(t, []time.Duration{0, time.Second, time.Second, 1500 * time.Microsecond, 5 * time.Second, -1,
			duly.MaxSlow + 1})
	}
	if o.As != duly.Ack {
		o.Error = of(t, []string{"", "boom"})
	} else if rarely(t, 3) {
		o.Result = of(t, []int{1, 2, duly.MaxResult + 1})
	}
	return o
}

func drawBack(t *rapid.T) int {
	// Draws mostly one of the last two deliveries, because older ones are often settled already.
	if rarely(t, 3) {
		return rapid.IntRange(0, scriptBack).Draw(t, "back")
	}
	return rapid.IntRange(0, 1).Draw(t, "back")
}

func drawForgery(t *rapid.T) forgery {
	if !rarely(t, 10) {
		return forgeNone
	}
	return forgery(rapid.IntRange(1, int(forgeryKinds)-1).Draw(t, "forgery"))
}

func drawExtend(t *rapid.T) operation {
	o := extendOp{Forge: drawForgery(t), Lease: of(t, someLeases)}
	for range rapid.IntRange(1, 2).Draw(t, "receipts") {
		o.Which = append(o.Which, drawBack(t))
	}
	return o
}

func drawRequeue(t *rapid.T) operation {
	o := requeueOp{At: drawQueue(t), Tries: of(t, []int{0, 0, 1}), TTL: of(t, someTTLs)}
	// A requeue takes a number or a list of IDs, not both.
	if rarely(t, 2) {
		o.N = rapid.IntRange(1, 3).Draw(t, "n")
		return o
	}
	for range rapid.IntRange(1, 3).Draw(t, "ids") {
		o.IDs = append(o.IDs, drawID(t))
	}
	return o
}

func drawDeleteJobs(t *rapid.T) operation {
	o := deleteJobsOp{At: drawQueue(t), State: of(t, append([]duly.State{duly.StateNone}, duly.States[:]...))}
	o.IDs = drawIDs(t)
	return o
}

func drawIDs(t *rapid.T) (ids []idSpec) {
	for range rapid.IntRange(1, 3).Draw(t, "ids") {
		ids = append(ids, drawID(t))
	}
	return ids
}

func drawConfigure(t *rapid.T) operation {
	o := configureOp{At: drawQueue(t)}

	c := &o.Patch
	// Some values exceed the limits, so both sides must refuse them.
	switch rapid.IntRange(0, 11).Draw(t, "setting") {
	case 0:
		c.Defaults.Tries = of(t, []int{1, 2, duly.MaxTries + 1})
	case 1:
		c.Defaults.MaxStalls = of(t, []int{1, duly.None})
		c.Defaults.Lease = of(t, someLeases)
	case 2:
		c.Defaults.TTL = of(t, someTTLs)
		c.Defaults.Retain = of(t, someRetains)
		c.Defaults.Backoff = of(t, someBackoffs)
	case 3:
		c.DeadAge = of(t, []time.Duration{duly.None, time.Second, 5 * time.Second})
	case 4:
		c.DeadCount = of(t, []int{duly.None, 1, 2})
	case 5:
		c.MaxJobs = of(t, []int{duly.None, 2, 3})
	case 6:
		c.MaxLeased = of(t, []int{duly.None, 1, 2})
	case 7:
		c.Rate.PerSecond = of(t, []float64{duly.None, 1, 0.5, -2})
		c.Rate.Burst = rapid.IntRange(0, 2).Draw(t, "burst")
	case 8:
		c.Shards = of(t, []int{1, 2, 3})
	case 9:
		if o.At > 1 || rarely(t, 4) {
			c.Delivery = of(t, []duly.DeliveryMode{"", duly.DeliverPull, duly.DeliverPush, duly.DeliverPush})
		}
		c.Push.URL = of(t, []string{"", duly.NoDestination, "https://example.com/", "target:t"})
		c.Push.OnDead = of(t, []string{"", "", "target:t", "ftp://example.com"})
	case 10:
		c.Reopen = true
	case 11:
		c.Adapt.Floor = of(t, []float64{duly.None, 0.1, 0.5, 1, 1.5})
		c.MaxLeased = of(t, []int{0, 1, 4})
		c.Rate.PerSecond = of(t, []float64{0, 0, 2, 20})
	}

	return o
}

func drawUpdate(t *rapid.T) operation {
	o := updateOp{At: drawQueue(t), ID: drawID(t), Delay: -1}
	for range rapid.IntRange(1, 2).Draw(t, "fields") {
		switch rapid.IntRange(0, 8).Draw(t, "field") {
		case 0, 1:
			o.Delay = of(t, someDelays)
		case 2:
			o.Due = of(t, []time.Duration{-time.Second, time.Second, 2500 * time.Microsecond})
		case 3:
			o.Priority = of(t, []int{1, -1, duly.MaxPriority + 1})
		case 4:
			o.Body, o.Header = of(t, []string{"", "-", "y", "far too long"}), of(t, []string{"", "-", "v"})
		case 5:
			o.Tries, o.MaxStalls = of(t, []int{0, 1, 3}), of(t, []int{0, 1, duly.None})
		case 6:
			o.TTL = of(t, someTTLs)
		case 7:
			o.Lease, o.Retain = of(t, someLeases), of(t, someRetains)
		case 8:
			o.Backoff = of(t, someBackoffs)
		}
	}
	return o
}

func drawPush(t *rapid.T) operation {
	return pushOp{rapid.SliceOfN(rapid.Custom(drawJob), 1, 3).Draw(t, "jobs")}
}

package enginetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/dulymq/duly"
)

// The world of the scripts is small, so that its things meet often.
const (
	scriptMaxBody   = 8
	scriptMaxQueues = 2 // of the three that the default namespace is asked for
	scriptOwnIDs    = 3
	scriptIDs       = 6 // the rest of them are made
	scriptBack      = 9 // how many deliveries back a receipt is taken from
)

// The moments that the scripts play with. Equal and neighbouring ones collide;
// parts of milliseconds show who rounds to the wrong side.
var (
	someDelays   = []time.Duration{0, 0, 0, time.Millisecond, time.Second, time.Second, 2 * time.Second, 1500 * time.Microsecond, 5 * time.Second}
	someLeases   = []time.Duration{0, 0, 100 * time.Millisecond, time.Second, time.Second, 2 * time.Second, 3 * time.Second}
	someTTLs     = []time.Duration{0, 0, 0, duly.None, time.Second, 2 * time.Second, 5 * time.Second, 1500 * time.Microsecond}
	someRetains  = []time.Duration{0, 0, duly.None, time.Second, 5 * time.Second}
	someBackoffs = []duly.Backoff{"fixed:0s", "fixed:1s", "1s,2s", "fixed:1ms"}
	someAdvances = []time.Duration{
		time.Millisecond, time.Second, time.Second, 2 * time.Second, 999 * time.Millisecond, 1001 * time.Millisecond,
		500 * time.Microsecond, 5 * time.Second, 30 * time.Second,
	}
	someSteps = []time.Duration{time.Second, -time.Second, 5 * time.Second, -5 * time.Second, -time.Millisecond, -time.Hour, 500 * time.Microsecond}
)

// scripts makes scripts of that many operations after an opening.
func scripts(steps int) *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) script {
		opening := of(t, openings)
		return append(slices.Clone(opening), rapid.SliceOfN(rapid.Custom(drawOperation), steps, steps).Draw(t, "operations")...)
	})
}

// openings lead to where random operations seldom come.
var openings = []script{
	{}, {}, {},
	// A done job and its receipt.
	{
		pushOp{[]jobSpec{{Job: duly.Job{Retain: time.Minute, Backoff: "fixed:0s"}}}}, reserveOp{Places: []place{0}, Max: 1},
		settleOp{[]outcomeSpec{{As: duly.Ack, Delay: -1, Result: 1}}},
	},
	// A blocked job that was delivered: it was dead, and its key went to another.
	{
		pushOp{[]jobSpec{{Job: duly.Job{OrderKey: "k", Backoff: "fixed:0s"}}, {ID: 1, Job: duly.Job{OrderKey: "k"}}}},
		reserveOp{Places: []place{0}, Max: 1}, settleOp{[]outcomeSpec{{As: duly.Bury, Delay: -1}}}, requeueOp{IDs: []idSpec{0}},
	},
	// A dead job whose merge key is held by a newer one.
	{
		pushOp{[]jobSpec{{Job: duly.Job{Merge: duly.Merge{Key: "m"}}}}}, reserveOp{Places: []place{0}, Max: 1},
		settleOp{[]outcomeSpec{{As: duly.Bury, Delay: -1}}},
		pushOp{[]jobSpec{{ID: 1, Job: duly.Job{Merge: duly.Merge{Key: "m"}, Delay: time.Second}}}},
	},
	// A push queue with a job that was delivered.
	{
		pushOp{[]jobSpec{{Place: 2, Job: duly.Job{Callback: "target:t", Backoff: "fixed:0s"}}}},
		reserveOp{Places: []place{2}, Max: 1, Dispatcher: true}, settleOp{[]outcomeSpec{{As: duly.Nack, Delay: -1}}},
	},
	// An empty push queue.
	{configureOp{Place: 2, Patch: duly.QueueConfig{Delivery: duly.DeliverPush, Push: duly.PushConfig{URL: "target:t"}}}},
	// Two dead jobs.
	{
		pushOp{[]jobSpec{{Job: duly.Job{Tries: 1}}, {ID: 1, Job: duly.Job{Tries: 1}}}}, reserveOp{Places: []place{0}, Max: 2},
		settleOp{[]outcomeSpec{{As: duly.Nack, Delay: -1, Error: "boom"}, {Which: 1, As: duly.Bury, Delay: -1}}},
	},
}

// drawn are the operations by weight: each stands as often as it is wanted.
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
	add(2, func(t *rapid.T) operation { return deleteOp{drawPlace(t), drawID(t)} })
	add(2, func(t *rapid.T) operation { return promoteOp{drawPlace(t), drawID(t)} })
	add(2, drawExtend)
	add(1, func(t *rapid.T) operation { return setClockOp{of(t, someSteps)} })
	add(1, func(t *rapid.T) operation { return stepOp{drawPlace(t)} })
	add(1, func(t *rapid.T) operation {
		return purgeOp{drawPlace(t), of(t, duly.States[:]), rapid.IntRange(0, 2).Draw(t, "n")}
	})
	add(1, func(t *rapid.T) operation { return pauseOp{drawPlace(t), rapid.Bool().Draw(t, "resume")} })
	add(1, func(t *rapid.T) operation { return destroyOp{drawPlace(t)} })
	return all
}()

func drawOperation(t *rapid.T) operation { return of(t, drawn)(t) }

// of draws one of the values.
func of[T any](t *rapid.T, values []T) T { return rapid.SampledFrom(values).Draw(t, "value") }

// rarely is true once in n.
func rarely(t *rapid.T, n int) bool { return rapid.IntRange(0, n-1).Draw(t, "rarely") == n-1 }

// drawPlace prefers the first place.
func drawPlace(t *rapid.T) place { return of(t, []place{0, 0, 0, 0, 0, 0, 1, 2, 3}) }

// drawID prefers the first ID.
func drawID(t *rapid.T) idSpec { return of(t, []idSpec{0, 0, 0, 1, 2, 3, 4, 5}) }

func drawReserve(t *rapid.T) operation {
	o := reserveOp{Places: []place{drawPlace(t)}, Max: rapid.IntRange(1, 3).Draw(t, "max"), Lease: of(t, someLeases)}
	if o.Places[0] != 1 && rarely(t, 4) {
		o.Places = append(o.Places, of(t, []place{0, 2, 3}))
	}
	o.Dispatcher = o.Places[0] > 1 && rarely(t, 2) || rarely(t, 16)
	return o
}

func drawSettle(t *rapid.T) operation {
	return settleOp{rapid.SliceOfN(rapid.Custom(drawOutcome), 1, 3).Draw(t, "outcomes")}
}

func drawOutcome(t *rapid.T) outcomeSpec {
	o := outcomeSpec{
		Which: drawBack(t), Forge: drawForgery(t), Delay: -1,
		As: of(t, []duly.Settlement{duly.Ack, duly.Ack, duly.Nack, duly.Nack, duly.Nack, duly.Release, duly.Release, duly.Bury}),
	}
	if o.As == duly.Nack || o.As == duly.Release || rarely(t, 12) {
		o.Delay = of(t, []time.Duration{-1, 0, time.Second, 1500 * time.Microsecond})
	}
	if o.As != duly.Ack {
		o.Error = of(t, []string{"", "boom"})
	} else if rarely(t, 3) {
		o.Result = of(t, []int{1, 2, duly.MaxResult + 1})
	}
	return o
}

func drawBack(t *rapid.T) int {
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
	o := requeueOp{Place: drawPlace(t), Tries: of(t, []int{0, 0, 1}), TTL: of(t, someTTLs)}
	if rarely(t, 2) {
		o.N = rapid.IntRange(1, 3).Draw(t, "n")
		return o
	}
	for range rapid.IntRange(1, 3).Draw(t, "ids") {
		o.IDs = append(o.IDs, drawID(t))
	}
	return o
}

func drawConfigure(t *rapid.T) operation {
	o := configureOp{Place: drawPlace(t)}
	c := &o.Patch
	switch rapid.IntRange(0, 9).Draw(t, "setting") {
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
		if o.Place > 1 || rarely(t, 4) {
			c.Delivery = of(t, []duly.DeliveryMode{"", duly.DeliverPull, duly.DeliverPush, duly.DeliverPush})
		}
		c.Push.URL = of(t, []string{"", duly.NoDestination, "https://example.com/", "target:t"})
		c.Push.OnDead = of(t, []string{"", "", "target:t", "ftp://example.com"})
	}
	return o
}

func drawUpdate(t *rapid.T) operation {
	o := updateOp{Place: drawPlace(t), ID: drawID(t), Delay: -1}
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

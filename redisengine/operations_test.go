package redisengine_test

import (
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// operation is an operation on a queue with jobs of every kind. It calls scripts.
type operation struct {
	name  string
	setup func(r *damageRig) // prepares the store before the operation
	do    func(r *damageRig)
	// ends are the kinds of jobs that may be missing after the operation; "" means all kinds.
	ends []string
}

var operations = []operation{
	{"PushPlain", nil, func(r *damageRig) {
		r.try(duly.Job{Body: []byte("new-0")}, duly.Job{Body: []byte("new-1"), Delay: time.Second})
	}, nil},
	{"PushPlainAlone", onlyPlain, func(r *damageRig) { r.try(duly.Job{Body: []byte("new-0")}) }, nil},
	{"PushSimple", nil, func(r *damageRig) {
		r.try(duly.Job{Body: []byte("new-0"), Priority: 5}, duly.Job{Body: []byte("new-1"), ID: "new-1", TTL: time.Hour},
			duly.Job{Body: []byte("new-2"), Tries: 3, Delay: time.Second})
	}, nil},
	{"PushSimpleAlone", onlyPlain, func(r *damageRig) {
		r.try(duly.Job{Body: []byte("new-0"), Tries: 3, TTL: time.Hour},
			duly.Job{Body: []byte("new-1"), Tries: 3, TTL: time.Hour})
	}, nil},
	{"Push", nil, func(r *damageRig) {
		r.try(duly.Job{Body: []byte("new-0"), ID: "new-0", Priority: 5},
			duly.Job{Body: []byte("new-1"), OrderKey: "k0", TTL: time.Hour},
			duly.Job{Body: []byte("new-2"), OrderKey: "fresh"}, duly.Job{Body: []byte("new-3"),
				Merge: duly.Merge{Key: "fresh"}, Delay: time.Second},
			duly.Job{Body: []byte("large-1" + strings.Repeat(".", 9<<10))})
	}, nil},
	{"PushMerged", nil, func(r *damageRig) {
		r.try(duly.Job{Body: []byte("merged-1"), Merge: duly.Merge{Key: "m0", Mode: duly.MergeReplace}, Delay: time.Second,
			TTL: time.Hour},
			duly.Job{Body: []byte("until-1"), Merge: duly.Merge{Key: "u0", Until: duly.UntilDone}})
	}, []string{"merged"}},
	{"Reserve", nil, func(r *damageRig) { r.tryReserve(5) }, nil},
	{"ReservePlain", onlyPlain, func(r *damageRig) { r.tryReserve(5) }, nil},
	{"ReserveLater", later, func(r *damageRig) { r.tryReserve(1000) }, []string{"brief", "done"}},
	{"ReserveDue", due, func(r *damageRig) { r.tryReserve(5) }, nil},
	{"Settle", nil, func(r *damageRig) {
		delay := time.Second
		r.trySettle(duly.SettleRequest{Receipt: r.held["taken"], As: duly.Ack},
			duly.SettleRequest{Receipt: r.held["head"], As: duly.Ack},
			duly.SettleRequest{Receipt: r.held["until"], As: duly.Nack, Delay: &delay, Error: "no"},
			duly.SettleRequest{Receipt: r.held["merging"], As: duly.Bury, Error: "never"})
	}, []string{"taken", "head"}},
	{"SettleHead", nil, func(r *damageRig) {
		r.trySettle(duly.SettleRequest{Receipt: r.held["head"],
			As: duly.Release})
	}, nil},
	{"SettleDone", nil, func(r *damageRig) {
		r.trySettle(duly.SettleRequest{Receipt: r.held["kept"], As: duly.Ack, Result: []byte("yes")})
	}, []string{"kept"}},
	{"SettlePlain", onlyPlain, func(r *damageRig) {
		r.trySettle(duly.SettleRequest{Receipt: r.held["taken"],
			As: duly.Ack})
	}, []string{"taken"}},
	{"SettlePlainStale", onlyPlain, func(r *damageRig) {
		parts, _ := contract.ParseReceipt(r.held["taken"])
		parts.Number[len(parts.Number)-1]++
		r.trySettle(duly.SettleRequest{Receipt: r.held["taken"], As: duly.Ack},
			duly.SettleRequest{Receipt: parts.Receipt(), As: duly.Ack})
	}, []string{"taken"}},
	{"Extend", nil, func(r *damageRig) {
		_, _ = r.e.Extend(r.Context(), "", []duly.Receipt{r.held["taken"], r.held["head"]}, time.Second)
	}, nil},
	{"Step", later, func(r *damageRig) { _, _ = r.e.Step(r.Context(), damageQueue) }, []string{"brief", "done"}},
	{"Delete", nil, func(r *damageRig) { _ = r.e.Delete(r.Context(), damageQueue, r.id("head")) }, []string{"head"}},
	{"DeleteLarge", nil, func(r *damageRig) { _ = r.e.Delete(r.Context(), damageQueue, r.id("large")) },
		[]string{"large"}},
	{"Promote", nil, func(r *damageRig) { _ = r.e.Promote(r.Context(), damageQueue, r.id("later")) }, nil},
	{"Update", nil, func(r *damageRig) {
		priority, delay := 3, time.Second
		r.bodies["brief-1"+strings.Repeat(".", 9<<10)] = true
		u := duly.Update{Priority: &priority, Delay: &delay, TTL: 2 * time.Hour,
			Body: []byte("brief-1" + strings.Repeat(".", 9<<10))}
		_ = r.e.Update(r.Context(), damageQueue, r.id("brief"), u)
	}, []string{"brief"}},
	{"UpdateSmaller", nil, func(r *damageRig) {
		r.bodies["large-1"] = true
		_ = r.e.Update(r.Context(), damageQueue, r.id("large"), duly.Update{Body: []byte("large-1")})
	}, []string{"large"}},
	{"Requeue", nil, func(r *damageRig) {
		_, _ = r.e.Requeue(r.Context(), damageQueue, duly.RequeueParams{N: 10, Tries: 3, TTL: time.Hour})
	}, nil},
	{"Purge", nil, func(r *damageRig) { _, _ = r.e.Purge(r.Context(), damageQueue, duly.StateReady, 3) },
		[]string{"plain", "own", "headed", "merged", "brief", "large"}},
	{"Configure", nil, func(r *damageRig) {
		_ = r.e.Configure(r.Context(), damageQueue,
			duly.QueueConfig{MaxJobs: 1000, Reopen: true})
	}, nil},
	{"Destroy", nil, func(r *damageRig) { _ = r.e.Destroy(r.Context(), damageQueue) }, []string{""}},
	{"Check", damaged, func(r *damageRig) { r.check(true) }, []string{"own", "headed", "large"}},
	{"CheckList", func(r *damageRig) { r.do("ZREM", r.prefix+":{default}:queues", damageQueue.Name) },
		func(r *damageRig) { r.check(true) }, nil},
	{"Mark", nil, func(r *damageRig) { r.e.GiveMarkerBack(damageQueue) }, nil},
	{"Look", withOthers, func(r *damageRig) {
		_, _ = r.e.Wait(r.Context(), duly.WaitParams{Queues: []string{damageQueue.Name}})
		_ = r.e.Sweep(r.Context())
		_, _ = r.e.Get(r.Context(), damageQueue, r.id("large"))
		_, _ = r.e.Peek(r.Context(), damageQueue)
		_, _ = r.e.Stats(r.Context(), damageQueue)
		_, _ = r.e.Explain(r.Context(), damageQueue, r.id("headed"))
		_, _ = r.e.Survey(r.Context(), "", duly.PageParams{})
		_, _ = r.e.List(r.Context(), damageQueue, duly.ListParams{State: duly.StateReady})
		_, _ = r.e.Keys(r.Context(), damageQueue, contract.KeysParams{})
		_, _ = r.e.Holder(r.Context(), damageQueue, "key")
	}, nil},
}

// onlyPlain recreates the queue with only plain jobs.
func onlyPlain(r *damageRig) {
	if err := r.e.Destroy(r.Context(), damageQueue); err != nil {
		r.Fatal(err)
	}
	r.jobs = map[string]place{}
	r.push(duly.Job{Body: []byte("taken-0")})
	r.hold(r.reserve())
	r.push(duly.Job{Body: []byte("plain-0")}, duly.Job{Body: []byte("plain-1")},
		duly.Job{Body: []byte("later-0"), Delay: time.Minute})
	r.locate()
}

// withOthers also creates other queues, for scripts that cover the shards of several queues.
func withOthers(r *damageRig) {
	for _, name := range []string{"withOthers", "idle"} {
		if err := r.e.Configure(r.Context(), duly.Q(name), duly.QueueConfig{}); err != nil {
			r.Fatal(err)
		}
	}
}

// due recreates the queue with only a plain job whose delay has passed.
func due(r *damageRig) {
	onlyPlain(r)
	if _, err := r.e.Purge(r.Context(), damageQueue, duly.StateReady, 0); err != nil {
		r.Fatal(err)
	}
	r.gone["plain-0"], r.gone["plain-1"] = true, true
	errs, err := r.e.Settle(r.Context(), "", []duly.SettleRequest{{Receipt: r.held["taken"], As: duly.Ack}})
	if err != nil || errs[0] != nil {
		r.Fatal(errs, err)
	}
	r.gone["taken-0"] = true
	r.clock.Advance(2 * time.Minute)
}

// later advances the clock, so that leases end, jobs become due and jobs expire.
func later(r *damageRig) { r.clock.Advance(2 * time.Hour) }

// damaged makes the faults that need the longest repair.
func damaged(r *damageRig) {
	for _, d := range damages {
		if slices.Contains([]string{"1 DoneRecordInNoSet", "5 DeadWithoutRecord", "9 ReadyAndLeased",
			"12 BusyKeyWithoutJob", "13 BlockedByNobody", "14 AliasOfAnother",
			"16 ExpiryLost", "17 RunUnreadable", "17 BodyCut", "17 HeadersCut", "17 PolicyOfAnotherShape",
			"17 PolicyLeadsElsewhere", "17 PolicyWithoutName"}, d.name) {
			d.harm(r)
		}
	}
}

func (r *damageRig) try(jobs ...duly.Job) {
	for i := range jobs {
		jobs[i].Queue = damageQueue.Name
		r.bodies[string(jobs[i].Body)] = true
	}
	_, _ = r.e.Push(r.Context(), jobs)
}

func (r *damageRig) tryReserve(n int) {
	_, _ = r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{damageQueue.Name}, Max: n})
}

func (r *damageRig) trySettle(outcomes ...duly.SettleRequest) {
	_, _ = r.e.Settle(r.Context(), "", outcomes)
}

// id returns the ID of the first job of a kind.
func (r *damageRig) id(kind string) string {
	p := r.jobs[kind+"-0"]
	var n duly.Number
	copy(n[:], p.number)
	return n.String()
}

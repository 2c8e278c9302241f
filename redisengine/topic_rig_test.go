package redisengine_test

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// topicRig is a topic with two groups that hold messages of every kind. The group any takes all
// messages, and the group keyed orders them by key. The body of a message is its name.
type topicRig struct {
	*testing.T
	clock *clock.Fake
	e     *redisengine.Engine
	// held has receipts of leased messages, by group and name. ended has the messages that need
	// not be delivered any more.
	held  map[string]duly.Receipt
	ended map[string]bool
	names []string // messages that each group must deliver or have as dead letters
}

var rigTopic = duly.Q("t")

var rigGroups = []string{"t@any", "t@keyed"}

func openTopicRig(t *testing.T, server *redistest.Server, prefix string, options ...string) *topicRig {
	r := &topicRig{T: t, clock: clock.NewFake(), held: map[string]duly.Receipt{}, ended: map[string]bool{}}
	var err error
	r.e, err = redisengine.Open(t.Context(), redisengine.Config{
		URL: server.URL() + "?" + strings.Join(append(options, "prefix="+prefix), "&"), Manual: true, Clock: r.clock,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.e.Close() })
	r.fill()
	return r
}

// fill puts messages of every kind into each group.
func (r *topicRig) fill() {
	r.Helper()
	must(r, r.e.ConfigureTopic(r.Context(), rigTopic, duly.TopicConfig{Dedupe: time.Hour}))
	for _, name := range rigGroups {
		_, err := r.e.CreateGroup(r.Context(), duly.Q(name), duly.FromStart)
		must(r, err)
		must(r, r.e.Configure(r.Context(), duly.Q(name), duly.QueueConfig{Defaults: duly.Defaults{Tries: 3,
			Backoff: "fixed:2m"}}))
	}
	must(r, r.e.Configure(r.Context(), duly.Q("t@keyed"),
		duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys}}))

	for _, name := range []string{"acked", "failed", "buried", "again", "ready", "leased", "other"} {
		r.publish(duly.Message{Body: []byte(name)})
	}
	for _, name := range []string{"first", "second", "third"} {
		r.publish(duly.Message{Body: []byte(name), Key: "k", ID: name})
	}
	r.publish(duly.Message{Body: []byte("later"), ID: "later", Delay: time.Minute},
		duly.Message{Body: []byte("latest"), Key: "k", Delay: time.Hour})
	for _, group := range rigGroups {
		r.reserve(group, 1000)
		r.settle(group, "acked", duly.Ack)
		r.settle(group, "failed", duly.Nack)
		r.settle(group, "buried", duly.Bury)
		r.settle(group, "again", duly.Bury)
		r.settle(group, "ready", duly.Release)
		for _, j := range r.list(group, duly.StateDead) {
			if string(j.Body) == "again" {
				_, err := r.e.Requeue(r.Context(), duly.Q(group), duly.RequeueParams{IDs: []string{j.ID}})
				must(r, err)
			}
		}
	}
	r.publish(duly.Message{Body: []byte("beyond")}, duly.Message{Body: []byte("behind"), Key: "k"})
}

func (r *topicRig) publish(messages ...duly.Message) {
	r.Helper()
	for i := range messages {
		messages[i].Topic = rigTopic.Name
		r.names = append(r.names, string(messages[i].Body))
	}
	results, err := r.e.Publish(r.Context(), messages)
	must(r, err)
	for _, result := range results {
		must(r, result.Err)
	}
}

func (r *topicRig) reserve(group string, most int) []duly.Delivery {
	r.Helper()
	ds, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{group}, Max: most, Consumer: "c"})
	must(r, err)
	for _, d := range ds {
		r.held[group+" "+string(d.Body)] = d.Receipt
	}
	return ds
}

func (r *topicRig) settle(group, name string, as duly.Settlement) {
	r.Helper()
	errs, err := r.e.Settle(r.Context(), "", []duly.SettleRequest{{Receipt: r.held[group+" "+name], As: as, Error: "no"}})
	must(r, err)
	must(r, errs[0])
	if as == duly.Ack {
		r.ended[group+" "+name] = true
	}
}

func (r *topicRig) list(group string, state duly.State) []duly.JobInfo {
	r.Helper()
	page, err := r.e.List(r.Context(), duly.Q(group), duly.ListParams{State: state, Bodies: true,
		PageParams: duly.PageParams{Limit: 1000}})
	must(r, err)
	return page.Jobs
}

// id returns the ID of a message in a group.
func (r *topicRig) id(group, name string) string {
	r.Helper()
	for _, state := range duly.States {
		for _, j := range r.list(group, state) {
			if string(j.Body) == name {
				return j.ID
			}
		}
	}
	r.Fatalf("group %s has no message %s", group, name)
	return ""
}

// mended repairs the store after an interrupted script. Each group must then deliver every message
// that has not ended, or have it as a dead letter.
func (r *topicRig) mended(t *testing.T) {
	left := *r
	left.T, left.held = t, maps.Clone(r.held)
	mend(t, r.clock, &left)
}

func (r *topicRig) check(repair bool) contract.CheckReport {
	r.Helper()
	report, err := r.e.Check(r.Context(), contract.CheckParams{Repair: repair})
	must(r, err)
	return report
}

func (r *topicRig) sound() {
	r.Helper()
	for _, f := range r.check(false).Faults {
		r.Errorf("after the repair Check found %s in %s: %q, %s", f.Kind, f.Queue, f.ID, f.Detail)
	}
}

// drain works until no message is left.
func (r *topicRig) drain() {
	r.Helper()
	if _, err := r.e.Topic(r.Context(), rigTopic); errors.Is(err, duly.ErrNotFound) {
		// The topic was destroyed.
		return
	}
	delivered := map[string]bool{}
	for range 6 {
		// The advance ends every lease and delay.
		r.clock.Advance(30 * time.Minute)
		_, err := r.e.Step(r.Context(), rigTopic)
		must(r, err)
		for _, group := range rigGroups {
			for ds := r.reserve(group, 1000); len(ds) > 0; ds = r.reserve(group, 1000) {
				for _, d := range ds {
					delivered[group+" "+string(d.Body)] = true
					errs, err := r.e.Settle(r.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
					must(r, err)
					must(r, errs[0])
				}
			}
		}
	}
	for _, group := range rigGroups {
		st, err := r.e.Stats(r.Context(), duly.Q(group))
		must(r, err)
		if z := st.Sizes; z.Delayed+z.Ready+z.Blocked+z.Leased > 0 || st.Group.Lag > 0 {
			r.Errorf("messages are stuck in %s: %+v, lag %d", group, z, st.Group.Lag)
		}
		for _, j := range r.list(group, duly.StateDead) {
			delivered[group+" "+string(j.Body)] = true
		}
		for _, name := range r.names {
			if key := group + " " + name; !delivered[key] && !r.ended[key] {
				r.Errorf("group %s has lost the message %s", group, name)
			}
		}
	}
}

// topicOperation is an operation on a topic that calls scripts.
type topicOperation struct {
	name string
	do   func(r *topicRig)
	ends []string // names of messages that the operation may end, so no group has to deliver them
}

// onBoth applies an operation to each group.
func onBoth(f func(r *topicRig, group string)) func(r *topicRig) {
	return func(r *topicRig) {
		for _, group := range rigGroups {
			f(r, group)
		}
	}
}

var topicOperations = []topicOperation{
	{"Publish", func(r *topicRig) {
		r.try(duly.Message{Body: []byte("new")}, duly.Message{Body: []byte("newer"), Key: "k", ID: "newer"},
			duly.Message{Body: []byte("in a minute"), ID: "m", Delay: time.Minute},
			duly.Message{Body: []byte("first"), Key: "k", ID: "first"})
	}, nil},
	{"PublishPlain", func(r *topicRig) { r.try(duly.Message{Body: []byte("new")}, duly.Message{Body: []byte("newer")}) },
		nil},
	{"PublishLater", func(r *topicRig) {
		r.clock.Advance(2 * time.Minute)
		r.try(duly.Message{Body: []byte("new")})
		r.clock.Step(-2 * time.Minute)
	}, nil},
	{"PublishBeyondABound", func(r *topicRig) {
		must(r, r.e.ConfigureTopic(r.Context(), rigTopic, duly.TopicConfig{MaxCount: 5, Overflow: duly.OverflowDrop}))
		r.try(duly.Message{Body: []byte("new")})
	}, []string{""}},
	{"Step", func(r *topicRig) {
		r.clock.Advance(2 * time.Hour)
		_, err := r.e.Step(r.Context(), rigTopic)
		must(r, err)
		r.clock.Step(-2 * time.Hour)
	}, nil},
	{"Cancel", func(r *topicRig) { must(r, r.e.CancelDelayed(r.Context(), rigTopic, "", "later")) }, []string{"later"}},
	{"Read", func(r *topicRig) {
		_, err := r.e.Read(r.Context(), rigTopic, contract.ReadParams{Limit: 10})
		must(r, err)
		_, err = r.e.Topic(r.Context(), rigTopic)
		must(r, err)
		_, err = r.e.Delayed(r.Context(), rigTopic, contract.DelayedParams{})
		must(r, err)
		_, err = r.e.DelayedMessage(r.Context(), rigTopic, "", "later")
		must(r, err)
	}, nil},
	{"Reserve", onBoth(func(r *topicRig, group string) { r.reserve(group, 5) }), nil},
	{"ReserveLater", func(r *topicRig) {
		r.clock.Advance(2 * time.Hour)
		onBoth(func(r *topicRig, group string) { r.reserve(group, 5) })(r)
		r.clock.Step(-2 * time.Hour)
	}, nil},
	{"Ack", onBoth(func(r *topicRig, group string) {
		r.settle(group, "leased", duly.Ack)
		r.settle(group, "first", duly.Ack)
	}), []string{"leased", "first"}},
	{"AckCopy", onBoth(func(r *topicRig, group string) {
		r.reserve(group, 1000)
		r.settle(group, "again", duly.Ack)
	}), []string{"again"}},
	{"Nack", onBoth(func(r *topicRig, group string) {
		r.settle(group, "leased", duly.Nack)
		r.settle(group, "first", duly.Nack)
	}), nil},
	{"Bury", onBoth(func(r *topicRig, group string) {
		r.settle(group, "leased", duly.Bury)
		r.settle(group, "first", duly.Bury)
	}), nil},
	{"Release", onBoth(func(r *topicRig, group string) {
		r.settle(group, "leased", duly.Release)
		r.settle(group, "first", duly.Release)
	}), nil},
	{"Extend", onBoth(func(r *topicRig, group string) {
		errs, err := r.e.Extend(r.Context(), "", []duly.Receipt{r.held[group+" leased"], r.held[group+" first"]}, time.Minute)
		must(r, err)
		must(r, errs[0])
		must(r, errs[1])
	}), nil},
	{"Seek", onBoth(func(r *topicRig, group string) {
		for _, to := range []duly.From{duly.FromStart, duly.FromEnd} {
			_, err := r.e.Seek(r.Context(), duly.Q(group), to)
			must(r, err)
		}
	}), []string{""}},
	{"SeekBack", onBoth(func(r *topicRig, group string) {
		_, err := r.e.Seek(r.Context(), duly.Q(group), duly.FromStart)
		must(r, err)
	}), []string{"again"}}, // the group drops the requeued copy, which is named again
	{"Requeue", onBoth(func(r *topicRig, group string) {
		_, err := r.e.Requeue(r.Context(), duly.Q(group), duly.RequeueParams{N: 5})
		must(r, err)
	}), nil},
	{"Delete", onBoth(func(r *topicRig, group string) {
		for _, name := range []string{"leased", "first", "ready", "buried"} {
			must(r, r.e.Delete(r.Context(), duly.Q(group), r.id(group, name)))
		}
	}), []string{"leased", "first", "ready", "buried"}},
	{"Purge", onBoth(func(r *topicRig, group string) {
		for _, state := range duly.States {
			_, err := r.e.Purge(r.Context(), duly.Q(group), state, 0)
			must(r, err)
		}
	}), []string{""}},
	{"Inspect", onBoth(func(r *topicRig, group string) {
		_, err := r.e.Stats(r.Context(), duly.Q(group))
		must(r, err)
		_, err = r.e.Get(r.Context(), duly.Q(group), r.id(group, "leased"))
		must(r, err)
		_, err = r.e.Wait(r.Context(), duly.WaitParams{Queues: []string{group}})
		must(r, err)
	}), nil},
	{"Configure", func(r *topicRig) {
		must(r, r.e.Configure(r.Context(), duly.Q("t@keyed"),
			duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderNone}, Reopen: true}))
		r.reserve("t@keyed", 5)
	}, nil},
	{"DestroyGroup", func(r *topicRig) {
		_, err := r.e.CreateGroup(r.Context(), duly.Q("t@other"), duly.FromStart)
		must(r, err)
		r.reserve("t@other", 5)
		must(r, r.e.Destroy(r.Context(), duly.Q("t@other")))
	}, nil},
	{"Check", func(r *topicRig) { r.check(true) }, nil},
	{"Sweep", func(r *topicRig) { must(r, r.e.Sweep(r.Context())) }, nil},
	{"Destroy", func(r *topicRig) { must(r, r.e.DestroyTopic(r.Context(), rigTopic)) }, []string{""}},
}

// try publishes messages that need not be delivered, because the call may be interrupted.
func (r *topicRig) try(messages ...duly.Message) {
	r.Helper()
	names := slices.Clone(r.names)
	r.publish(messages...)
	r.names = names
}

// begin prepares the operation.
func (o topicOperation) begin(t *testing.T, x *interrupter) trial {
	r := openTopicRig(t, x.server, "s3", "scripts="+x.form)
	for _, group := range rigGroups {
		for _, name := range o.ends {
			r.ended[group+" "+name] = true
		}
		if slices.Contains(o.ends, "") {
			for _, name := range r.names {
				r.ended[group+" "+name] = true
			}
		}
	}
	return trial{t: t, do: func() { o.do(r) }, mended: r.mended, every: 20}
}

package sqliteengine

import (
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// topicFailpoints returns the operations on topics and groups. The topic of a queue of
// the tour has its name and "-t".
func topicFailpoints() []failpointOp {
	return []failpointOp{
		{"publish", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.dedupe(q)
			return f.publish(q, duly.Message{Key: "k", Headers: map[string]string{"a": "b"}}, duly.Message{ID: "own"},
				duly.Message{ID: "late", Delay: time.Minute})
		}},
		{"publish over a bound", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.publish(q, make([]duly.Message, 3)...)())
			f.takeMessages(q, 2)
			f.must(f.e.ConfigureTopic(f.Context(), topicOfTour(q),
				duly.TopicConfig{MaxCount: 3, Overflow: duly.OverflowDrop}))
			return f.publish(q, make([]duly.Message, 2)...)
		}},
		{"enter delayed messages", time.Hour, func(f *failpoints, q duly.QueueRef) func() error {
			f.dedupe(q)
			f.must(f.publish(q, duly.Message{ID: "late", Delay: time.Minute})())
			return func() error { _, err := f.e.Step(f.Context(), topicOfTour(q)); return err }
		}},
		{"cancel a delayed message", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.publish(q, duly.Message{ID: "late", Delay: time.Minute})())
			return func() error { return f.e.CancelDelayed(f.Context(), topicOfTour(q), "", "late") }
		}},
		{"configure a topic", 0, func(f *failpoints, q duly.QueueRef) func() error {
			return func() error {
				return f.e.ConfigureTopic(f.Context(), topicOfTour(q), duly.TopicConfig{Keep: time.Hour})
			}
		}},
		{"create a group", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.must(f.publish(q, duly.Message{})())
			return func() error { _, err := f.e.CreateGroup(f.Context(), groupOfTour(q), ""); return err }
		}},
		{"reserve messages", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.publish(q, duly.Message{Key: "k"}, duly.Message{Key: "k"}, duly.Message{})())
			return func() error { f.takeMessages(q, 3); return f.err }
		}},
		{"reserve messages that wait again", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.publish(q, duly.Message{Key: "k"})())
			f.must(f.settle(f.takeMessages(q, 1), duly.Release)())
			return func() error { f.takeMessages(q, 1); return f.err }
		}},
		{"step messages", 2 * time.Hour, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.e.Configure(f.Context(), groupOfTour(q),
				duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderNone}}))
			f.must(f.publish(q, duly.Message{})())
			f.must(f.settle(f.takeMessages(q, 1), duly.Nack)())
			return func() error { _, err := f.e.Step(f.Context(), groupOfTour(q)); return err }
		}},
		{"ack messages", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.publish(q, duly.Message{}, duly.Message{})())
			return f.settle(f.takeMessages(q, 1), duly.Ack)
		}},
		{"bury messages", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.publish(q, duly.Message{Key: "k", Body: make([]byte, 5000)})())
			return f.settle(f.takeMessages(q, 1), duly.Bury)
		}},
		{"requeue messages", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.publish(q, duly.Message{Key: "k", Body: make([]byte, 5000)})())
			f.must(f.settle(f.takeMessages(q, 1), duly.Bury)())
			return func() error {
				_, err := f.e.Requeue(f.Context(), groupOfTour(q), duly.RequeueParams{N: 1})
				return err
			}
		}},
		{"seek", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.publish(q, duly.Message{Key: "k"}, duly.Message{Key: "k"})())
			f.takeMessages(q, 2)
			return func() error { _, err := f.e.Seek(f.Context(), groupOfTour(q), duly.FromEnd); return err }
		}},
		{"give an order up", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			f.must(f.publish(q, duly.Message{Key: "k"}, duly.Message{Key: "k"})())
			f.takeMessages(q, 2)
			return func() error {
				return f.e.Configure(f.Context(), groupOfTour(q),
					duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderNone}})
			}
		}},
		{"destroy a topic", 0, func(f *failpoints, q duly.QueueRef) func() error {
			f.group(q)
			return func() error { return f.e.DestroyTopic(f.Context(), topicOfTour(q)) }
		}},
	}
}

func topicOfTour(q duly.QueueRef) duly.QueueRef {
	return duly.QueueRef{Namespace: q.Namespace, Name: q.Name + "-t"}
}

func groupOfTour(q duly.QueueRef) duly.QueueRef {
	return duly.QueueRef{Namespace: q.Namespace, Name: duly.GroupName(q.Name+"-t", "g")}
}

// group makes the group of a queue of the tour. It keeps an order.
func (f *failpoints) group(q duly.QueueRef) {
	f.Helper()
	_, err := f.e.CreateGroup(f.Context(), groupOfTour(q), "")
	f.must(err)
	f.must(f.e.Configure(f.Context(), groupOfTour(q), duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys}}))
}

func (f *failpoints) dedupe(q duly.QueueRef) {
	f.Helper()
	f.must(f.e.ConfigureTopic(f.Context(), topicOfTour(q), duly.TopicConfig{Dedupe: time.Hour}))
}

// publish returns a call that publishes messages to the topic of a queue of the tour.
func (f *failpoints) publish(q duly.QueueRef, messages ...duly.Message) func() error {
	for i := range messages {
		messages[i].Namespace, messages[i].Topic = q.Namespace, topicOfTour(q).Name
	}
	return func() error {
		results, err := f.e.Publish(f.Context(), messages)
		for _, r := range results {
			if err == nil {
				err = r.Err
			}
		}
		return err
	}
}

// takeMessages reserves from the group of a queue of the tour. The error is f.err.
func (f *failpoints) takeMessages(q duly.QueueRef, n int) (ds []duly.Delivery) {
	ds, f.err = f.e.Reserve(f.Context(), duly.ReserveParams{Namespace: q.Namespace,
		Queues: []string{groupOfTour(q).Name}, Max: n})
	return ds
}

// topicSnapshot returns the topic of a queue of the tour, with its group, as a read sees them.
func (f *failpoints) topicSnapshot(q duly.QueueRef) string {
	var text strings.Builder
	info, err := f.e.Topic(f.Context(), topicOfTour(q))
	fmt.Fprintf(&text, "%+v %v\n", info, err)
	if err != nil {
		return text.String()
	}
	page, err := f.e.Read(f.Context(), topicOfTour(q), contract.ReadParams{})
	fmt.Fprintf(&text, "%+v %v\n", page, err)
	delayed, err := f.e.Delayed(f.Context(), topicOfTour(q), contract.DelayedParams{Bodies: true})
	fmt.Fprintf(&text, "%+v %v\n", delayed, err)
	if _, err := f.e.Config(f.Context(), groupOfTour(q)); err == nil {
		text.WriteString(f.snapshot(groupOfTour(q)))
	}
	return text.String()
}

package enginetest

import (
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicInputTests() []test {
	return []test{
		{"BadInputIsRefusedWithoutEffect", []string{"C12.76", "C12.78", "C12.103", "C12.144", "C12.149", "C12.178",
			"C12.115", "C12.21"}, Options{}, inputTable},
		{"ReceiptOfAnotherGroupIsNotFound", []string{"C12.34", "C12.79"}, Options{}, inputReceipts},
		{"MessageHasNoJobFields", []string{"C12.17"}, Options{}, inputFields},
	}
}

// inputReceipts calls GetByReceipt with receipts that no group of the topic has issued.
func inputReceipts(s *scene) {
	g, other := s.group("g"), s.in("a").group("g")
	s.send("a")
	other.send("b")
	parts, _ := contract.ParseReceipt(g.take().Receipt)
	shard, number := parts, parts
	shard.Shard++
	number.Number = duly.NewNumber()
	for what, r := range map[string]duly.Receipt{
		"another namespace": other.take().Receipt, "another shard": shard.Receipt(), "another number": number.Receipt(),
	} {
		_, err := s.Engine.GetByReceipt(s.ctx, s.namespace, r)
		s.refused("a receipt of "+what, err, duly.CodeNotFound)
	}

	// The unchanged receipt finds its message.
	_, err := s.Engine.GetByReceipt(s.ctx, s.namespace, parts.Receipt())
	s.must("get by receipt", err)
}

// badInput is a call with bad input and the code that it must return.
type badInput struct {
	input string
	call  func() error
	code  duly.Code
}

// inputTable calls operations with bad input on a topic in use. Each must be refused and change
// nothing.
func inputTable(s *scene) {
	ordered, plain := s.ordered("ordered"), s.group("plain")
	s.publish(keyed("k", "a"), keyed("k", "b"))
	ordered.take()
	plain.take()
	s.publish(duly.Message{ID: "delayed", Delay: time.Hour})
	s.must("cancel", s.log().CancelDelayed(s.ctx, s.topic(), "", "delayed"))

	// The full topic is in another namespace, because a dump of all its groups is long.
	full := s.in("crowded")
	for range duly.MaxGroups {
		full.group("g" + strings.ToLower(duly.NewNumber().String()))
	}

	inputs := append(badNamesAndPositions(s, plain), badTopicCalls(s, plain, full)...)
	for _, c := range inputs {
		before := len(full.groups())
		s.topicUnchanged(c.input, func() { s.refused(c.input, c.call(), c.code) })
		same(s, "the groups of the full topic", len(full.groups()), before)
	}
}

// badNamesAndPositions returns calls with a name or a position that the topic does not have.
func badNamesAndPositions(s, plain *scene) []badInput {
	foreign := duly.From(s.onTopic("other").send("x")[0])
	future := mustPosition(s, s.send("c")[0])
	future.Ordinal++
	ahead := duly.FromPosition(future.Position())

	reserve := func(name string) func() error {
		return func() error {
			return errOf(s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{name}, Max: 1}))
		}
	}
	read := func(from duly.From) func() error {
		return func() error { return errOf(s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: from})) }
	}
	seek := func(to duly.From) func() error {
		return func() error { return errOf(s.log().Seek(s.ctx, plain.ref(), to)) }
	}

	return []badInput{
		{"an unknown topic", reserve("nothing@g"), duly.CodeNotFound},
		{"an unknown group", reserve("events@g"), duly.CodeNotFound},
		{"the name a@b@c", reserve("a@b@c"), duly.CodeInvalid},
		{"the name @g", reserve("@g"), duly.CodeInvalid},
		{"read from a position of another topic", read(foreign), duly.CodeInvalid},
		{"seek to a position of another topic", seek(foreign), duly.CodeInvalid},
		{"read from a future position", read(ahead), duly.CodeConflict},
		{"seek to a future position", seek(ahead), duly.CodeInvalid},
		{"seek to a future time", seek(duly.FromTime(s.now().Add(time.Hour))), duly.CodeInvalid},
	}
}

// badTopicCalls returns calls that the topic, its groups or a full topic refuse.
func badTopicCalls(s, plain, full *scene) []badInput {
	configure := func(c duly.GroupConfig) func() error {
		return func() error {
			return s.Engine.Configure(s.ctx, plain.ref(), duly.QueueConfig{MaxLeased: 5, Group: c})
		}
	}
	more := duly.QueueRef{Namespace: full.namespace, Name: theTopic + "@more"}
	nine := duly.Filter(strings.Repeat("a=b&", duly.MaxConditions) + "a=b")
	large := duly.Message{Body: make([]byte, 1<<20+1)}

	return []badInput{
		{"push to a group", func() error { return plain.try(duly.Job{}).Err }, duly.CodeInvalid},
		{"order key while messages are held", configure(duly.GroupConfig{Order: duly.OrderKeys, MaxHeld: 7}),
			duly.CodeConflict},
		{"the 101st group", func() error { return errOf(full.log().CreateGroup(s.ctx, more, "")) }, duly.CodeFull},
		{"a filter of nine conditions", configure(duly.GroupConfig{Filter: nine}), duly.CodeInvalid},
		{"a body of 1 MiB and 1 byte", func() error { return s.tryPublish(large).Err }, duly.CodeTooLarge},
		{"a second delete of a delayed message",
			func() error { return s.log().CancelDelayed(s.ctx, s.topic(), "", "delayed") }, duly.CodeNotFound},
	}
}

// inputFields checks that a message delivered by a group has the zero values of the fields that
// only jobs have.
func inputFields(s *scene) {
	g := s.group("g")
	s.publish(duly.Message{ID: "own", Key: "k", Body: []byte("b"),
		Headers: map[string]string{"priority": "9", "ttl": "1s"}})
	d := g.take()
	same(s, "the priority", d.Priority, 0)
	same(s, "the ttl", d.TTL, duly.None)
	same(s, "the expiry", d.ExpiresAt.IsZero(), true)
	same(s, "the retain", d.Retain, duly.None)
	same(s, "the merge", d.Merge, duly.Merge{})
	same(s, "the callback", d.Callback, "")
	same(s, "the header named priority", d.Headers["priority"], "9")
}

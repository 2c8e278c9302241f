package enginetest

import (
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicInputTests() []test {
	return []test{
		{"EachBadInputHasItsCodeAndNoEffect", []string{"C12.76", "C12.78", "C12.103", "C12.144", "C12.149", "C12.178",
			"C12.115", "C12.21"}, Options{}, inputTable},
		{"ReceiptOfAnotherGroupIsNotFound", []string{"C12.34", "C12.79"}, Options{}, inputReceipts},
		{"MessageHasNoOtherFieldOfAJob", []string{"C12.17"}, Options{}, inputFields},
	}
}

// inputReceipts looks for messages by receipts that no group of the topic has made.
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
	_, err := s.Engine.GetByReceipt(s.ctx, s.namespace, parts.Receipt())
	s.must("get by receipt", err)
}

// inputTable sends one of each bad input to a topic at work.
func inputTable(s *scene) {
	g := s.ordered("ordered")
	plain := s.group("plain")
	s.publish(keyed("k", "a"), keyed("k", "b"))
	g.take()
	plain.take()
	foreign := s.onTopic("other").send("x")[0]
	future := mustPosition(s, s.send("c")[0])
	future.Ordinal++
	s.publish(duly.Message{ID: "delayed", Delay: time.Hour})
	s.must("cancel", s.log().CancelDelayed(s.ctx, s.topic(), "", "delayed"))
	full := s.in("crowded") // apart: the dump of all groups is long
	for range duly.MaxGroups {
		full.group("g" + strings.ToLower(duly.NewNumber().String()))
	}

	ahead := duly.FromPosition(future.Position())
	reserve := func(name string) error {
		return errOf(s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{name}, Max: 1}))
	}
	read := func(from duly.From) error {
		return errOf(s.log().Read(s.ctx, s.topic(), contract.ReadParams{From: from}))
	}
	seek := func(to duly.From) error { return errOf(s.log().Seek(s.ctx, plain.ref(), to)) }
	configure := func(c duly.GroupConfig) error {
		return s.Engine.Configure(s.ctx, plain.ref(), duly.QueueConfig{MaxLeased: 5, Group: c})
	}
	for _, c := range []struct {
		input string
		call  func() error
		code  duly.Code
	}{
		{"an unknown topic", func() error { return reserve("nothing@g") }, duly.CodeNotFound},
		{"an unknown group", func() error { return reserve("events@g") }, duly.CodeNotFound},
		{"the name a@b@c", func() error { return reserve("a@b@c") }, duly.CodeInvalid},
		{"the name @g", func() error { return reserve("@g") }, duly.CodeInvalid},
		{"push to a group", func() error { return plain.try(duly.Job{}).Err }, duly.CodeInvalid},
		{"read from a position of another topic", func() error { return read(duly.From(foreign)) }, duly.CodeInvalid},
		{"seek to a position of another topic", func() error { return seek(duly.From(foreign)) }, duly.CodeInvalid},
		{"read from a position of the future", func() error { return read(ahead) }, duly.CodeConflict},
		{"seek to a position of the future", func() error { return seek(ahead) }, duly.CodeInvalid},
		{"seek to a time ahead of the clock", func() error { return seek(duly.FromTime(s.now().Add(time.Hour))) },
			duly.CodeInvalid},
		{"order key while messages are held",
			func() error { return configure(duly.GroupConfig{Order: duly.OrderKeys, MaxHeld: 7}) }, duly.CodeConflict},
		{"the 101st group", func() error {
			return errOf(full.log().CreateGroup(s.ctx,
				duly.QueueRef{Namespace: full.namespace, Name: theTopic + "@more"}, ""))
		}, duly.CodeFull},
		{"a filter of nine conditions", func() error {
			return configure(duly.GroupConfig{Filter: duly.Filter(strings.Repeat("a=b&", 8) + "a=b")})
		}, duly.CodeInvalid},
		{"a body of 1 MiB and 1 byte", func() error { return s.tryPublish(duly.Message{Body: make([]byte, 1<<20+1)}).Err }, duly.CodeTooLarge},
		{"a second delete of a delayed message",
			func() error { return s.log().CancelDelayed(s.ctx, s.topic(), "", "delayed") }, duly.CodeNotFound},
	} {
		before := len(full.groups())
		s.topicUnchanged(c.input, func() { s.refused(c.input, c.call(), c.code) })
		same(s, "the groups of the full topic", len(full.groups()), before)
	}
}

// inputFields checks that a message in a group has no values of the fields that only a
// pushed job has.
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

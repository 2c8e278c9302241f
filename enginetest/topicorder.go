package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

func topicOrderTests() []test {
	return []test{
		{"OneMessagePerKeyIsInFlight", []string{"C12.99", "C12.100", "C12.101", "C12.102"}, Options{},
			orderOneAtATime},
		{"NacksSnoozesAndStallsKeepTheKey", []string{"C12.99", "C12.100"}, Options{}, orderKept},
		{"AckBuryDeleteAndDropFreeTheKey", []string{"C12.100", "C12.101"}, Options{}, orderFreed},
		{"RequeuedMessageWaitsForItsKey", []string{"C12.101", "C12.114"}, Options{}, orderRequeued},
		{"ChangesToKeyOnlyIfNothingIsHeld", []string{"C12.103"}, Options{}, orderChanged},
		{"ChangeToNoneUnblocksMessages", []string{"C12.103"}, Options{}, orderToNone},
		{"NoneIgnoresKeys", []string{"C12.98"}, Options{}, orderNone},
		{"LookAheadSkipsABusyKey", []string{"C12.101", "C12.105"}, Options{}, orderLookAhead},
		{"KeysKeepTheirOrderWithManyConsumers", []string{"C12.99"}, Options{}, orderCrowd},
	}
}

// ordered creates a group that keeps the order of each key.
func (s *scene) ordered(name string) *scene {
	s.Helper()
	g := s.group(name)
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys},
		Defaults: duly.Defaults{Backoff: "fixed:1m"}})
	return g
}

func orderOneAtATime(s *scene) {
	g := s.ordered("g")
	s.publish(keyed("x", "x1"), keyed("x", "x2"), keyed("y", "y1"), keyed("", "a"), keyed("", "b"), keyed("x", "x3"))
	// Messages without a key are independent of each other.
	ds := g.delivers("x1", "y1", "a", "b")
	g.sizes(duly.Sizes{Leased: 4, Blocked: 2})
	s.sameIDs("the blocked", listedBodies(g.listWithBodies(duly.StateBlocked)), []string{"x2", "x3"})

	g.ack(ds[0])
	x2 := g.delivers("x2")[0]
	g.delivers()

	s.publish(keyed("x", "x4"), keyed("y", "y2"))
	g.delivers()
	g.ack(ds[1])
	g.ack(x2)
	g.delivers("x3", "y2")
	s.sameIDs("the blocked", listedBodies(g.listWithBodies(duly.StateBlocked)), []string{"x4"})
}

func orderKept(s *scene) {
	g := s.ordered("g")
	s.publish(keyed("x", "x1"), keyed("x", "x2"))
	d := g.delivers("x1")[0]
	// None of these calls ends the message, so its key stays busy.
	g.nack(d, "no")
	g.delivers()
	s.Advance(time.Minute)
	d = g.delivers("x1")[0]
	g.snooze(d, time.Minute)
	g.delivers()
	s.Advance(time.Minute)
	d = g.delivers("x1")[0]
	g.stall(d)
	d = g.delivers("x1")[0]
	g.release(d)
	d = g.delivers("x1")[0]

	g.ack(d)
	g.delivers("x2")
}

func orderFreed(s *scene) {
	for i, end := range []func(g *scene, d duly.Delivery){
		func(g *scene, d duly.Delivery) { g.ack(d) },
		func(g *scene, d duly.Delivery) { g.bury(d, "no") },
		func(g *scene, d duly.Delivery) { g.must("delete", g.Engine.Delete(g.ctx, g.ref(), d.ID)) },
		func(g *scene, d duly.Delivery) { g.purge(duly.StateLeased) },
		func(g *scene, d duly.Delivery) {
			g.nack(d, "no")
			g.must("delete", g.Engine.Delete(g.ctx, g.ref(), d.ID))
		},
		func(g *scene, d duly.Delivery) { // the limit drops the message
			g.configureTopic(duly.TopicConfig{MaxCount: 1, Overflow: duly.OverflowDrop})
			g.stepTopic()
		},
	} {
		t := s.onTopic(fmt.Sprint("topic-", i))
		g := t.ordered("g")
		t.publish(keyed("x", "x1"))
		d := g.delivers("x1")[0]
		// The second message is published later, so that it is blocked when the first ends.
		t.publish(keyed("x", "x2"))
		g.delivers()
		end(g, d)
		g.delivers("x2")
	}
}

func orderRequeued(s *scene) {
	g := s.ordered("g")
	s.publish(keyed("x", "x1"), keyed("x", "x2"), keyed("x", "x3"))
	x1 := g.delivers("x1")[0]
	g.bury(x1, "no")
	x2 := g.delivers("x2")[0]
	// The key is busy with the second message, so the requeued first one is blocked.
	same(s, "the state of a requeued message whose key is busy", g.requeue(x1.ID).State, duly.StateBlocked)
	g.delivers()
	g.ack(x2)
	g.ack(g.delivers("x1")[0]) // its position is before that of x3
	g.ack(g.delivers("x3")[0])
	// A message without a key needs no key to be requeued.
	g.bury(takeSent(g, "plain"), "no")
}

func orderChanged(s *scene) {
	g := s.group("g")
	s.publish(keyed("x", "x1"), keyed("x", "x2"), keyed("x", "x3"))
	toKey := duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys}}
	d := g.take()
	// The message is leased, then delayed, then ready. The group holds it in each case.
	for _, hold := range []func(){
		func() {}, func() { g.snooze(d, time.Hour) }, func() { s.Advance(time.Hour); d = g.take(); g.release(d) },
	} {
		hold()
		s.topicUnchanged("a change of the order", func() {
			s.refused("a change of the order while a message is held", g.Engine.Configure(g.ctx, g.ref(), toKey),
				duly.CodeConflict)
		})
	}
	g.bury(g.take(), "no") // a dead message is not held
	g.configure(toKey)
	same(s, "the order", g.config().Group.Order, duly.OrderKeys)
	g.delivers("x2")
	g.configure(toKey) // this changes nothing
}

func orderToNone(s *scene) {
	g := s.ordered("g")
	s.publish(keyed("x", "x1"), keyed("x", "x2"), keyed("y", "y1"), keyed("y", "y2"))
	g.delivers("x1", "y1")
	g.sizes(duly.Sizes{Leased: 2, Blocked: 2})
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderNone}})
	g.sizes(duly.Sizes{Leased: 2, Ready: 2})
	// The blocked messages have become ready.
	g.delivers("x2", "y2")
	s.publish(keyed("x", "x3"))
	g.delivers("x3")
}

func orderNone(s *scene) {
	g := s.group("g")
	s.publish(keyed("x", "x1"), keyed("x", "x2"), keyed("x", "x3"))
	ds := g.delivers("x1", "x2", "x3")
	// The messages of one key may end in any order.
	g.ack(ds[2])
	g.nack(ds[0], "no")
	s.publish(keyed("x", "x4"))
	g.delivers("x4")
}

// orderLookAhead publishes more messages of one busy key than one step skips, and then a message of
// another key.
func orderLookAhead(s *scene) {
	g := s.ordered("g")
	busy := make([]duly.Message, duly.MaxBatch)
	for i := range busy {
		busy[i] = keyed("busy", "b")
	}
	s.publish(busy...)
	s.publish(busy...)
	s.publish(keyed("free", "f"))
	s.sameIDs("the first call", bodiesOf(g.reserve(1)), []string{"b"})
	s.sameIDs("the second call", bodiesOf(g.reserve(1)), []string{"f"})
	same(s, "the blocked", g.stats().Sizes.Blocked, 2*duly.MaxBatch-1)
}

// orderCrowd runs consumers that handle messages of a few keys concurrently. Some messages fail
// once.
func orderCrowd(s *scene) {
	const keys, each, consumers = 7, 20, 6
	g := s.ordered("g")
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{Backoff: "fixed:0s"}})
	for i := range each {
		messages := make([]duly.Message, keys)
		for k := range messages {
			messages[k] = keyed(fmt.Sprint("k", k), fmt.Sprint(i))
		}
		s.publish(messages...)
	}

	var seen keyOrder
	done := make(chan error, consumers)
	for c := range consumers {
		go func() { done <- s.consume(g, c, &seen) }()
	}
	for range consumers {
		s.must("consume", <-done)
	}

	same(s, "the messages acked", g.stats().Counters.Acked, keys*each)
	for _, fault := range seen.faults {
		s.Errorf("%s", fault)
	}
}

// consume handles messages until the group holds none. Every seventh first delivery fails.
func (s *scene) consume(g *scene, consumer int, seen *keyOrder) error {
	for n := consumer; ; n++ {
		ds, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 3,
			Consumer: fmt.Sprint("c", consumer)})
		if err != nil {
			return err
		}

		if len(ds) == 0 {
			st, err := s.Engine.Stats(s.ctx, g.ref())
			// Continue until no message is left in any state.
			if z := st.Sizes; err != nil || z.Ready+z.Blocked+z.Leased+z.Delayed+st.Group.Lag == 0 {
				return err
			}
			continue
		}

		for _, d := range ds {
			seen.begin(d)
			o := duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
			if n%7 == 0 && d.Failures == 0 {
				o.As = duly.Nack
			}
			// Record the end before the settle, because the key's next message may be delivered
			// right after it.
			seen.end(d, o.As)
			errs, err := s.Engine.Settle(s.ctx, "", []duly.SettleRequest{o})
			if err == nil {
				err = errs[0]
			}
			if err != nil {
				return err
			}
		}
	}
}

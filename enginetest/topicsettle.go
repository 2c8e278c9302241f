package enginetest

import (
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicSettleTests() []test {
	return []test{
		{"AckRemovesTheMessageFromOneGroupOnly", []string{"C12.94"}, Options{}, topicAck},
		{"NackReleaseAndStallReturnTheMessage", []string{"C12.95"}, Options{}, topicWaits},
		{"ReleaseAfterAStepBackIsReadyAtOnce", []string{"C12.95", "C12.42", "C12.44"}, Options{},
			topicReleasedBack},
		{"BuryAndExhaustedTriesOrStallsMakeItDead", []string{"C12.6", "C12.96"}, Options{}, topicDies},
		{"SecondSettleIsRefused", []string{"C12.97", "C12.81"}, Options{}, topicSettledTwice},
		{"EveryDeliveryHasANewToken", []string{"C12.80", "C12.81", "C12.41"}, Options{}, topicTokens},
		{"DeadMessageIsACopy", []string{"C12.111", "C12.113"}, Options{}, topicDeadCopy},
		{"DeadMessagesAreBounded", []string{"C12.112", "C8.13"}, Options{}, topicDeadBounds},
		{"RequeueDeliversTheCopyToOneGroupOnly", []string{"C12.114", "C12.6"}, Options{}, topicRequeued},
		{"RequeuedCopyNeedsNoMessageOfTheLog", []string{"C12.113", "C12.114"}, Options{}, topicRequeuedCopy},
		{"PurgeDeletesLeasedMessagesInLogOrder", []string{"C12.77", "C12.159"}, Options{}, topicPurged},
		{"ResultOfAnAckIsDropped", []string{"C12.94"}, Options{}, topicResult},
		{"SlowReleaseClosesTheGroup", []string{"C18.1", "C18.3", "C18.8", "C18.12"}, Options{OneShard: true}, topicSlow},
	}
}

func topicSlow(s *scene) {
	g, h := s.group("g"), s.group("h")
	s.send("a", "b")
	start := s.now()
	g.slow(g.take(), 10*time.Second, "HTTP 429")
	g.closedUntil("it is closed", start.Add(10*time.Second), "HTTP 429")
	g.nothing("the group is closed")

	// Neither another group of the topic nor a new message is affected.
	h.delivers("a", "b")
	w := g.wait()
	s.send("c")
	g.nothing("a new message opens nothing")
	s.Advance(10*time.Second - time.Millisecond)
	g.nothing("the group is closed for 1 ms more")
	s.Advance(time.Millisecond)
	w.woke("the group is open")
	g.delivers("a", "b", "c")
	same(s, "slowed", g.stats().Counters.Slowed, 1)
	same(s, "released", g.stats().Counters.Released, 1)
	g.closedUntil("it is open", time.Time{}, "")

	s.send("d")
	g.slow(g.take(), time.Hour, "")
	g.configure(duly.QueueConfig{Reopen: true})
	g.delivers("d")
}

func topicAck(s *scene) {
	g, h := s.group("g"), s.group("h")
	s.send("a", "b")
	ds := g.delivers("a", "b")
	g.ack(ds[0])
	g.gone(ds[0].ID)
	g.is(ds[1].ID, duly.StateLeased)
	// The other group still receives both messages.
	h.delivers("a", "b")
	g.sizes(duly.Sizes{Leased: 1})
	same(s, "acked", g.stats().Counters.Acked, 1)
}

// topicPurged purges messages of several Reserves whose leases end at the same time.
func topicPurged(s *scene) {
	g := s.group("g")
	want := s.send("a", "b", "c", "d", "e", "f", "g", "h")
	for range want {
		g.take()
	}
	for len(want) > 0 {
		n, err := g.Engine.Purge(g.ctx, g.ref(), duly.StateLeased, 2)
		s.must("purge", err)
		same(s, "the messages purged", n, 2)
		want = want[2:]
		var left []string
		for _, j := range g.list(duly.StateLeased) {
			left = append(left, j.ID)
		}
		if !slices.Equal(left, want) {
			s.Errorf("%v are left, want %v", left, want)
		}
	}
}

func topicWaits(s *scene) {
	g := s.group("g")
	s.send("nacked", "released", "snoozed", "stalled")
	ds := g.delivers("nacked", "released", "snoozed", "stalled")
	// One message per way to return it.
	g.nackFor(ds[0], time.Minute)
	g.is(ds[0].ID, duly.StateDelayed)
	g.release(ds[1])
	g.is(ds[1].ID, duly.StateReady)
	g.snooze(ds[2], 2*time.Minute)
	g.is(ds[2].ID, duly.StateDelayed)
	g.stall(ds[3])
	g.is(ds[3].ID, duly.StateReady)
	g.delivers("released", "stalled")

	s.Advance(time.Minute)
	g.step()
	g.delivers("nacked", "released", "stalled") // the leases of the last two messages have ended again

	// All leases end.
	s.Advance(time.Hour)
	g.step()
	c := g.stats().Counters
	same(s, "failed", c.Failed, 1)
	same(s, "released", c.Released, 2)
	same(s, "stalled", c.Stalled, 6)
	g.sizes(duly.Sizes{Ready: 4})
}

// topicReleasedBack releases a message whose entry time is ahead of the clock.
func topicReleasedBack(s *scene) {
	g := s.group("g")
	entered := s.now()
	s.send("a")
	s.Clock.Step(-time.Hour)
	d := g.take()
	// The delivery's Now is the entry time, which is later than the clock. So the message's age is
	// not negative.
	sameTime(s, "now of the delivery", d.Now, entered)
	sameTime(s, "the lease end", d.LeaseEnd, s.now().Add(duly.DefaultLease))

	g.release(d)
	g.is(d.ID, duly.StateReady)
	d = g.take()
	g.nackFor(d, 0)
	g.is(d.ID, duly.StateReady)
	g.stall(g.take())
	g.is(d.ID, duly.StateReady)
	same(s, "the age of a ready message", g.stats().OldestReady, 0)
	g.delivers("a")
}

func topicDies(s *scene) {
	g := s.group("g")
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 2, MaxStalls: 1, Backoff: "fixed:0s"}})
	s.send("buried", "nacked", "stalled")

	ds := g.delivers("buried", "nacked", "stalled")
	g.bury(ds[0], "no use")
	g.nack(ds[1], "first")
	g.stall(ds[2])
	// The second failure and the second stall exceed the bounds.
	again := g.delivers("nacked", "stalled")
	g.nack(again[0], "second")
	g.stall(again[1])
	g.delivers()

	for i, want := range []string{"no use", "second", contract.StallReason(2)} {
		info := g.get(ds[i].ID)
		same(s, "the state", info.State, duly.StateDead)
		same(s, "the error", info.LastError, want)
	}

	same(s, "dead", g.stats().Counters.Dead, 3)
	s.must("delete", g.Engine.Delete(g.ctx, g.ref(), ds[0].ID))
	g.gone(ds[0].ID)
	same(s, "purged", g.purge(duly.StateDead), 2)
	g.sizes(duly.Sizes{})
}

func topicSettledTwice(s *scene) {
	g := s.group("g")
	d := takeSent(g, "a")
	g.ack(d)
	s.topicUnchanged("a second settle", func() { g.refusesReceipt(d.Receipt) })
}

// refusesReceipt checks that every operation with a receipt returns lease_lost.
func (s *scene) refusesReceipt(r duly.Receipt) {
	s.Helper()
	zero := time.Duration(0)
	for _, o := range []duly.SettleRequest{
		{As: duly.Ack}, {As: duly.Nack, Error: "late"}, {As: duly.Nack, Delay: &zero}, {As: duly.Release},
		{As: duly.Bury, Error: "late"},
	} {
		o.Receipt = r
		s.lost("a late "+o.As.String(), s.settle(o))
	}
	s.lost("a late extend", s.extend(r, time.Hour))
}

func topicTokens(s *scene) {
	g := s.group("g")
	d := takeSent(g, "a")
	seen := map[uint64]bool{}
	for range 10 {
		p := g.parts(d)
		if seen[p.Delivery] {
			s.Errorf("two deliveries have the token %d, want different tokens", p.Delivery)
		}

		seen[p.Delivery] = true
		// Receipts with one part changed.
		for _, forged := range []contract.ReceiptParts{
			{Queue: p.Queue, Shard: p.Shard, Number: p.Number, Delivery: p.Delivery ^ 1},
			{Queue: p.Queue, Shard: p.Shard, Number: p.Number, Delivery: 1},
			{Queue: p.Queue, Shard: p.Shard + 1, Number: p.Number, Delivery: p.Delivery},
			{Queue: "events@h", Shard: p.Shard, Number: p.Number, Delivery: p.Delivery},
			{Queue: "other@g", Shard: p.Shard, Number: p.Number, Delivery: p.Delivery},
		} {
			if forged.Delivery > 0 {
				g.lost("an ack by a forged receipt", g.settle(duly.SettleRequest{Receipt: forged.Receipt(), As: duly.Ack}))
			}
		}

		g.is(d.ID, duly.StateLeased)
		g.release(d)
		d = g.take()
	}
}

func topicDeadCopy(s *scene) {
	g := s.group("g")
	r := s.publish(duly.Message{Key: "k", Body: []byte("body"), Headers: map[string]string{"h": "v"}})[0]
	entered := s.now()
	s.Advance(time.Second)
	g.bury(g.take(), "broken")
	s.stepTopic()
	s.logged() // no group needs the message in the log any more
	s.Advance(time.Hour)

	info := g.get(r.Position.String())
	same(s, "the state", info.State, duly.StateDead)
	same(s, "the body", string(info.Body), "body")
	same(s, "the header", info.Headers["h"], "v")
	same(s, "the key", info.OrderKey, "k")
	same(s, "the error", info.LastError, "broken")
	sameTime(s, "the entry time", info.PushedAt, entered)
	sameTime(s, "the time of death", info.FinishedAt, entered.Add(time.Second))
	same(s, "the number of dead messages", len(g.list(duly.StateDead)), 1)
}

func topicDeadBounds(s *scene) {
	g := s.group("g")
	g.configure(duly.QueueConfig{DeadCount: 2, DeadAge: time.Hour})
	s.send("a", "b", "c")
	for _, d := range g.delivers("a", "b", "c") {
		g.bury(d, "no")
		// Each message dies at a time of its own.
		s.Advance(time.Second)
	}
	s.sameIDs("the dead", listedBodies(g.listWithBodies(duly.StateDead)), []string{"b", "c"})
	same(s, "dropped", g.stats().Counters.Dropped, 1)

	// The first of the two remaining messages exceeds the age.
	s.Advance(time.Hour - 2*time.Second + time.Millisecond)
	g.step()
	s.sameIDs("the dead", listedBodies(g.listWithBodies(duly.StateDead)), []string{"c"})
	same(s, "dropped", g.stats().Counters.Dropped, 2)
}

func topicRequeued(s *scene) {
	g, h := s.group("g"), s.group("h")
	g.configure(duly.QueueConfig{Defaults: duly.Defaults{Tries: 2, Backoff: "fixed:0s"}})
	s.send("a", "b")
	for _, d := range g.delivers("a", "b") {
		g.nack(d, "no")
	}
	for _, d := range g.delivers("a", "b") {
		g.nack(d, "no")
	}

	h.ackAll(h.delivers("a", "b"))
	// The messages were trimmed from the log, so only the group's copies are left.
	s.stepTopic()
	dead := idsOf(g.list(duly.StateDead))
	r := g.requeue(dead[0])
	s.must("requeue", r.Err)
	same(s, "the state", r.State, duly.StateReady)
	d := g.delivers("a")[0]
	same(s, "the failures", d.Failures, 0)
	same(s, "the stalls", d.Stalls, 0)

	g.conflicts("a second requeue", g.requeue(dead[0]).Err, duly.StateLeased)
	// The other group does not see the requeued message.
	h.delivers()
	g.ack(d)
	s.refused("requeue of a message that is gone", g.requeue(dead[0]).Err, duly.CodeNotFound)

	results, err := g.Engine.Requeue(g.ctx, g.ref(), duly.RequeueParams{N: 5})
	s.must("requeue by count", err)
	same(s, "the messages requeued by count", len(results), 1)
	g.delivers("b")
	same(s, "requeued", g.stats().Counters.Requeued, 2)
}

// topicRequeuedCopy requeues a message that is still in the log.
func topicRequeuedCopy(s *scene) {
	s.configureTopic(duly.TopicConfig{Keep: time.Hour})
	g := s.group("g")
	s.send("a", "b")
	a := g.take()
	g.bury(a, "no")
	s.must("requeue", g.requeue(a.ID).Err)
	s.stepTopic()
	s.logged("a", "b")

	// The log drops the message. The requeued copy stays deliverable.
	s.Advance(time.Hour + time.Millisecond)
	s.stepTopic()
	s.logged("b")
	s.configureTopic(duly.TopicConfig{MaxAge: time.Minute})
	s.stepTopic()
	s.logged()
	same(s, "missed", g.groupStats().Missed, 1)
	g.delivers("a")
}

func topicResult(s *scene) {
	g := s.group("g")
	d := takeSent(g, "a")
	s.must("ack with a result", g.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack, Result: []byte("r")}))
	g.gone(d.ID)
	g.sizes(duly.Sizes{})
}

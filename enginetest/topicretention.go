package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicRetentionTests() []test {
	return []test{
		{"MessageIsDeletedOnceNoGroupNeedsIt", []string{"C12.9", "C12.119", "C12.136", "C12.158"}, Options{}, retainNeeded},
		{"TopicWithoutGroupsKeepsEverything", []string{"C12.120"}, Options{}, retainWithoutGroups},
		{"KeepRetainsMessagesThatNoGroupNeeds", []string{"C12.119", "C12.121", "C12.122"}, Options{}, retainKeep},
		{"ClockStepDoesNotShortenKeep", []string{"C12.45"}, Options{}, retainKeepClock},
		{"SettleAndPublishTrim", []string{"C12.138"}, Options{}, retainTrims},
		{"StepDeletesAtMost10000", []string{"C12.138"}, Options{}, retainSteps},
		{"MaxAgeDropsNeededMessagesToo", []string{"C12.123", "C12.124", "C12.126", "C12.129", "C12.153"}, Options{},
			retainMaxAge},
		{"MaxCountRefusesNewMessages", []string{"C12.127", "C12.21", "C12.24"}, Options{}, retainRefuse},
		{"MaxCountDropsTheOldestMessages", []string{"C12.128", "C12.124", "C12.126"}, Options{}, retainDrop},
		{"StepTrimsFinishedMessagesAfterADrop", []string{"C12.119", "C12.128", "C12.138"}, Options{}, retainUncovered},
		{"DropFreesASlotInALimitedGroup", []string{"C12.124", "C12.126", "C10.11"}, Options{}, retainRoom},
		{"FirstMessageIsExactAfterManyDrops", []string{"C12.128", "C12.136", "C12.156"}, Options{}, retainDropMany},
		{"MaxCountDropsUnneededMessagesFirst", []string{"C12.127", "C12.128", "C12.158"}, Options{}, retainUnneeded},
		{"MaxBytesBoundsTheEstimate", []string{"C12.127", "C12.128", "C12.130"}, Options{}, retainBytes},
		{"DelayedMessagesCountAndAreNotDropped", []string{"C12.53", "C12.54"}, Options{}, retainDelayed},
		{"LoweredBoundIsAppliedByStep", []string{"C12.123", "C12.127", "C12.128"}, Options{}, retainLowered},
		{"DroppedHeldMessageCountsAsMissed", []string{"C12.124", "C12.126", "C12.81"}, Options{}, retainHeld},
		{"LookAtAGroupLosesNoCount", []string{"C12.124", "C12.126"}, Options{}, retainLooks},
		{"SettleTrimsAfterAnotherCallEndsTheNeed", []string{"C12.119", "C12.138"}, Options{}, retainUntilSettle},
		{"IdleGroupIsParkedAndResumes", []string{"C12.131", "C12.132", "C12.133"}, Options{}, retainIdle},
		{"ReservePreventsParking", []string{"C12.132"}, Options{}, retainBusy},
		{"StatsReportTheGroupAtTheFloor", []string{"C12.134", "C12.135"}, Options{}, retainFloor},
		{"DestroyedGroupRetainsNoMessages", []string{"C12.119", "C12.134"}, Options{}, retainDestroyed},
	}
}

func retainNeeded(s *scene) {
	g, h := s.group("g"), s.group("h")
	s.send("a", "b", "c")
	gs := g.delivers("a", "b", "c")
	g.ackAll(gs[:2])
	s.stepTopic()
	s.logged("a", "b", "c") // all messages are beyond the cursor of h
	hs := h.delivers("a", "b", "c")
	s.stepTopic()
	s.logged("a", "b", "c") // h holds all messages
	h.ack(hs[1])
	s.stepTopic()
	s.logged("a", "b", "c") // messages are deleted from the front only
	h.ack(hs[0])
	s.stepTopic()
	s.logged("c")

	// A dead message is a copy, so h needs no message of the log. g still holds the snoozed
	// message.
	h.bury(hs[2], "no")
	g.snooze(gs[2], time.Hour)
	s.stepTopic()
	s.logged("c")
	s.Advance(time.Hour)
	g.ackAll(g.delivers("c"))
	s.stepTopic()
	s.logged()

	st := s.info().Stats
	same(s, "trimmed", st.Trimmed, 3)
	same(s, "dropped", st.Dropped, 0)
	same(s, "missed", g.groupStats().Missed+h.groupStats().Missed, 0)
}

func retainWithoutGroups(s *scene) {
	s.send("a", "b")
	// A later group can read the messages, however old they are.
	s.Advance(1000 * time.Hour)
	s.stepTopic()
	s.logged("a", "b")
	g := s.group("g")
	g.delivers("a", "b")
	s.must("destroy", s.Engine.Destroy(s.ctx, g.ref()))
	s.stepTopic()
	s.logged("a", "b")
}

func retainKeep(s *scene) {
	s.configureTopic(duly.TopicConfig{Keep: time.Hour})
	g := s.group("g")
	s.send("a")
	s.Advance(30 * time.Minute)
	s.send("b")
	g.ackAll(g.delivers("a", "b"))
	s.stepTopic()
	s.logged("a", "b")

	// A later group can read messages that are kept. The group does not extend the time for which
	// they are kept.
	s.group("late").ackAll(s.on("events@late").delivers("a", "b"))
	s.Advance(30 * time.Minute)
	s.stepTopic()
	s.logged("a", "b")
	s.Advance(time.Millisecond)
	s.stepTopic()
	s.logged("b")

	s.configureTopic(duly.TopicConfig{Keep: duly.None})
	s.stepTopic()
	s.logged()
}

func retainKeepClock(s *scene) {
	s.configureTopic(duly.TopicConfig{Keep: time.Hour})
	g := s.group("g")
	s.Clock.Step(time.Hour)
	s.send("a")
	s.Clock.Step(-time.Hour)
	// The entry time of the message is ahead of the clock now.
	g.ackAll(g.delivers("a"))
	s.Advance(90 * time.Minute)
	s.stepTopic()
	s.logged("a") // 30 minutes old by its entry time
	s.Advance(31 * time.Minute)
	s.stepTopic()
	s.logged()
}

func retainTrims(s *scene) {
	g := s.group("g")
	s.send("a", "b")
	g.ackAll(g.delivers("a", "b"))
	// The next publish deletes what the acks have freed.
	s.send("c")
	s.logged("c")
}

// retainSteps has more messages to delete than one step deletes.
func retainSteps(s *scene) {
	const calls = duly.MaxTrimmed/duly.MaxBatch + 2
	for range calls {
		s.publish(make([]duly.Message, duly.MaxBatch)...)
	}
	// The group starts at the end, so it needs no message.
	g := s.groupFrom("g", duly.FromEnd)
	for range 100 {
		before := s.info().Stats.Trimmed
		more, err := s.Maintainer.Step(s.ctx, s.topic())
		s.must("step", err)
		if n := s.info().Stats.Trimmed - before; n > duly.MaxTrimmed {
			s.Errorf("one step deleted %d messages, want at most %d", n, duly.MaxTrimmed)
		}
		if !more {
			break
		}
	}
	same(s, "trimmed", s.info().Stats.Trimmed, calls*duly.MaxBatch)
	same(s, "missed", g.groupStats().Missed, 0)
}

func retainMaxAge(s *scene) {
	s.configureTopic(duly.TopicConfig{MaxAge: time.Hour})
	g, h := s.group("g"), s.group("h")
	s.send("a", "b")
	s.Advance(time.Minute)
	s.send("c")
	gs := g.reserve(1)
	h.ackAll(h.delivers("a", "b", "c"))

	s.Advance(time.Hour - time.Minute)
	s.stepTopic()
	s.logged("a", "b", "c")
	// One millisecond later the two messages are dropped, although one is in flight.
	s.Advance(time.Millisecond)
	s.stepTopic()
	s.logged("c")
	g.refusesReceipt(gs[0].Receipt)
	g.delivers("c")
	same(s, "missed by g", g.groupStats().Missed, 2)
	same(s, "missed by h", h.groupStats().Missed, 0)
	g.balanced()
	st := s.info().Stats
	same(s, "dropped", st.Dropped, 2)
	same(s, "trimmed", st.Trimmed, 0)
}

func retainRefuse(s *scene) {
	s.configureTopic(duly.TopicConfig{MaxCount: 3})
	g := s.group("g")
	results, err := s.published(messagesOf("a", "b", "c", "d", "e")...)
	s.must("publish", err)

	for i, r := range results {
		if i < 3 {
			s.must("publish", r.Err)
			continue
		}
		s.refused("a message beyond the bound", r.Err, duly.CodeFull)
	}

	s.topicUnchanged("a message beyond the bound", func() {
		s.refused("a message beyond the bound", s.tryPublish(duly.Message{}).Err, duly.CodeFull)
		s.refused("a delayed message beyond the bound", s.tryPublish(duly.Message{Delay: time.Hour}).Err, duly.CodeFull)
	})

	ds := g.delivers("a", "b", "c")
	// The log deletes from its front only, so the second ack makes no room.
	g.ack(ds[1])
	s.refused("a message while the oldest is held", s.tryPublish(duly.Message{}).Err, duly.CodeFull)
	g.ack(ds[0])
	s.send("f", "g")
	s.refused("one more", s.tryPublish(duly.Message{}).Err, duly.CodeFull)
	s.logged("c", "f", "g")
	same(s, "missed", g.groupStats().Missed, 0)
}

func retainDrop(s *scene) {
	s.configureTopic(duly.TopicConfig{MaxCount: 3, Overflow: duly.OverflowDrop})
	g := s.group("g")
	s.send("a", "b")
	ds := g.delivers("a", "b")
	s.send("c", "d", "e", "f", "g")
	// The drop removes messages in flight and messages beyond the cursor.
	s.logged("e", "f", "g")
	g.refusesReceipt(ds[0].Receipt)
	same(s, "missed", g.groupStats().Missed, 4)
	g.sizes(duly.Sizes{})
	g.delivers("e", "f", "g")
	same(s, "dropped", s.info().Stats.Dropped, 4)
	g.balanced()
}

// retainUncovered drops a needed message. The group has acknowledged the message after it.
func retainUncovered(s *scene) {
	s.configureTopic(duly.TopicConfig{MaxCount: 4, Overflow: duly.OverflowDrop})
	g := s.group("g")
	s.send("a", "b", "c", "d")
	ds := g.delivers("a", "b", "c", "d")
	g.ack(ds[1])
	s.send("e")
	s.stepTopic()
	s.logged("c", "d", "e")
	same(s, "dropped", s.info().Stats.Dropped, 1)
	same(s, "missed", g.groupStats().Missed, 1)
}

// retainRoom has a group at its limit. A publish drops the message that the group holds, so that
// the next one is deliverable and a waiting worker wakes up.
func retainRoom(s *scene) {
	for limit, c := range map[string]duly.QueueConfig{
		"max leased": {MaxLeased: 1},
		"max_held":   {Group: duly.GroupConfig{MaxHeld: 1}},
	} {
		s := s.onTopic(map[string]string{"max leased": "leased", "max_held": "held"}[limit])
		s.configureTopic(duly.TopicConfig{MaxCount: 2, Overflow: duly.OverflowDrop})
		g := s.group("g")
		g.configure(c)
		s.send("a", "b")
		g.delivers("a")
		same(s, limit+": a wait at the limit", g.ready(), false)

		woken := make(chan bool, 1)
		go func() {
			p := duly.WaitParams{Namespace: s.namespace, Queues: []string{g.queue}, Timeout: time.Second}
			ready, err := s.Engine.Wait(s.ctx, p)
			woken <- ready && err == nil
		}()
		s.Quiet()
		s.send("c")
		s.Quiet()
		// A waiter that was not woken would time out at this time.
		s.Advance(time.Second)
		same(s, limit+": a waiter after the drop", <-woken, true)
		g.delivers("b")
		same(s, limit+": missed", g.groupStats().Missed, 1)

		s.send("d")
		same(s, limit+": a wait after another drop", g.ready(), true)
		g.delivers("c")
	}
}

func retainDropMany(s *scene) {
	s.configureTopic(duly.TopicConfig{MaxCount: 10, Overflow: duly.OverflowDrop})
	positions := s.sendOver(6, duly.MaxBatch)
	// The last ten messages are left.
	first := positions[len(positions)-10]
	same(s, "the first position", s.info().Stats.First.String(), first)

	if page := s.readPage(contract.ReadParams{Limit: 1}); len(page.Entries) != 1 ||
		page.Entries[0].Position.String() != first {
		s.Errorf("the first page has %d messages, want the one at %s", len(page.Entries), first)
	}
}

func retainUnneeded(s *scene) {
	s.configureTopic(duly.TopicConfig{MaxCount: 2, Keep: time.Hour})
	s.send("a", "b", "c") // without a group, no message is needed
	s.logged("b", "c")

	g := s.group("g")
	s.refused("a message beyond the bound", s.tryPublish(duly.Message{}).Err, duly.CodeFull)
	g.ackAll(g.delivers("b", "c"))
	s.logged("b", "c") // no group needs these messages, but they are kept
	// The limit deletes a kept message before it refuses a new one.
	s.send("d")
	s.logged("c", "d")
	st := s.info().Stats
	same(s, "dropped", st.Dropped, 2)
	same(s, "trimmed", st.Trimmed, 0)
	same(s, "missed", g.groupStats().Missed, 0)
}

func retainBytes(s *scene) {
	m := duly.Message{Body: make([]byte, 1000)}
	s.publish(m)
	one := s.info().Stats.Bytes // the engine's estimate of one message
	if one < 1000 || one > 2000 {
		s.Errorf("a message of 1000 bytes counts as %d bytes, want 1000 to 2000", one)
	}
	g := s.group("g")

	// Room for three messages.
	s.configureTopic(duly.TopicConfig{MaxBytes: 3*one + one/2})
	s.publish(m, m)
	s.refused("a fourth message", s.tryPublish(m).Err, duly.CodeFull)
	s.configureTopic(duly.TopicConfig{Overflow: duly.OverflowDrop})
	s.publish(m)
	same(s, "the messages", s.info().Stats.Messages, 3)
	same(s, "missed", g.groupStats().Missed, 1)

	s.topicUnchanged("a message that is larger than the bound", func() {
		s.refused("a message that is larger than the bound",
			s.tryPublish(duly.Message{Body: make([]byte, 4*one)}).Err, duly.CodeFull)
	})
}

func retainDelayed(s *scene) {
	s.configureTopic(duly.TopicConfig{MaxCount: 2, MaxAge: time.Hour, Overflow: duly.OverflowDrop})
	s.publish(duly.Message{Body: []byte("x"), Delay: 10 * time.Hour})
	s.send("a", "b")
	s.logged("b")
	// Two delayed messages use the whole bound.
	s.publish(duly.Message{Body: []byte("y"), Delay: 10 * time.Hour})
	s.logged()
	s.topicUnchanged("a message while delayed ones fill the bound", func() {
		s.refused("a message while delayed ones fill the bound", s.tryPublish(duly.Message{}).Err, duly.CodeFull)
	})
	// Neither the age nor the count drops a delayed message.
	s.Advance(9 * time.Hour)
	s.stepTopic()
	same(s, "the delayed messages", s.info().Stats.Delayed, 2)
	s.Advance(time.Hour)
	s.stepTopic()
	s.logged("x", "y")
}

func retainLowered(s *scene) {
	g := s.group("g")
	s.send("a", "b", "c", "d")
	s.configureTopic(duly.TopicConfig{MaxCount: 2})
	s.stepTopic()
	// The messages are needed, and the topic refuses new ones instead of dropping these.
	s.logged("a", "b", "c", "d")

	s.configureTopic(duly.TopicConfig{Overflow: duly.OverflowDrop})
	s.stepTopic()
	s.logged("c", "d")
	same(s, "missed", g.groupStats().Missed, 2)
	g.delivers("c", "d")
}

// retainHeld checks that retention drops the messages that a group holds, except for dead ones.
func retainHeld(s *scene) {
	g := s.ordered("g")
	s.publish(keyed("k", "dead"), keyed("k", "leased"), keyed("k", "blocked"), keyed("", "delayed"),
		keyed("", "ready"), keyed("", "new"))
	ds := g.reserve(3)
	g.bury(ds[0], "no")
	g.nack(ds[1], "no")
	g.release(ds[2])
	leased := g.reserve(1)[0]
	// The step trims the dead message from the log.
	s.stepTopic()
	g.sizes(duly.Sizes{Dead: 1, Leased: 1, Blocked: 1, Delayed: 1, Ready: 1})

	s.configureTopic(duly.TopicConfig{MaxCount: 1, Overflow: duly.OverflowDrop})
	s.stepTopic()
	s.logged("new")
	g.sizes(duly.Sizes{Dead: 1})
	same(s, "missed", g.groupStats().Missed, 4)
	s.topicUnchanged("a receipt of a dropped message", func() { g.refusesReceipt(leased.Receipt) })
	s.must("requeue", g.requeue(ds[0].ID).Err)
	// The dead message is a copy that needs no message of the log.
	g.delivers("dead", "new")
	s.publish(keyed("", "newer"))
	same(s, "missed", g.groupStats().Missed, 5)
	g.is(ds[0].ID, duly.StateLeased)
}

func retainIdle(s *scene) {
	g, h := s.group("g"), s.group("h")
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{Idle: 2 * time.Hour}})
	s.send("a", "b", "c")
	held := g.reserve(1)
	h.ackAll(h.delivers("a", "b", "c"))

	// One minute before the group is idle for too long.
	s.Advance(2*time.Hour - time.Minute)
	same(s, "parked", g.groupStats().Parked, false)
	s.stepTopic()
	s.logged("a", "b", "c")

	s.Advance(2 * time.Minute)
	same(s, "parked", g.groupStats().Parked, true)
	same(s, "the oldest message that a parked group needs", g.groupStats().OldestNeeded, 0)
	s.stepTopic()
	s.logged()
	same(s, "dropped", s.info().Stats.Dropped, 0)
	same(s, "trimmed", s.info().Stats.Trimmed, 3)
	g.refusesReceipt(held[0].Receipt)

	// The next call ends the parking.
	s.send("d")
	g.delivers("d")
	st := g.groupStats()
	same(s, "parked", st.Parked, false)
	same(s, "missed", st.Missed, 3)
	g.balanced()
	h.ackAll(h.delivers("d"))
	s.stepTopic()
	s.logged("d") // now the group holds messages again
}

func retainBusy(s *scene) {
	g := s.groupFrom("g", duly.FromEnd)
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{Idle: time.Hour}})
	for range 5 {
		s.Advance(50 * time.Minute)
		g.delivers() // a call without a result also counts as a call
	}
	s.send("a")
	s.stepTopic()
	s.logged("a")
	same(s, "parked", g.groupStats().Parked, false)
}

func retainFloor(s *scene) {
	g, h := s.group("g"), s.group("h")
	same(s, "the floors of an empty log", len(s.info().Stats.Floors), 0)
	positions := s.send("a", "b", "c", "d", "e")
	h.ackAll(h.reserve(3))
	start := s.now()
	s.stepTopic()
	s.Advance(time.Minute)

	floors := s.info().Stats.Floors
	if len(floors) != 1 {
		s.Fatalf("the floors are %+v, want one", floors)
	}
	f := floors[0]
	same(s, "the shard", f.Shard, 0)
	same(s, "the group", f.Group, "g")
	same(s, "the position", f.Position.String(), positions[0])
	same(s, "the messages that only this group needs", f.Alone, 3)
	if f.Since.After(start) || f.Since.Before(start.Add(-time.Minute)) {
		s.Errorf("the group has been holding back retention since %s, want at most a minute before %s", f.Since, start)
	}

	// Now the other group needs the oldest message.
	g.ackAll(g.reserve(4))
	s.stepTopic()
	f = s.info().Stats.Floors[0]
	same(s, "the group", f.Group, "h")
	same(s, "the position", f.Position.String(), positions[3])
	same(s, "the messages that only this group needs", f.Alone, 1)

	h.ackAll(h.reserve(1))
	s.stepTopic()
	f = s.info().Stats.Floors[0]
	same(s, "the first of two groups by name", f.Group, "g")
	same(s, "the messages that only this group needs", f.Alone, 0)
}

func retainDestroyed(s *scene) {
	for i := range 3 {
		s.group(fmt.Sprint("g", i))
	}
	s.send("a", "b")
	for i := range 2 {
		s.on(fmt.Sprint("events@g", i)).ackAll(s.on(fmt.Sprint("events@g", i)).delivers("a", "b"))
	}
	s.stepTopic()
	s.logged("a", "b")
	// The third group is the only one that still needs the messages.
	s.must("destroy", s.Engine.Destroy(s.ctx, duly.Q("events@g2")))
	s.stepTopic()
	s.logged()
}

package enginetest

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicSeekTests() []test {
	return []test{
		{"ToTheStartReplaysTheLog", []string{"C12.8", "C12.145", "C12.154"}, Options{}, seekStart},
		{"ToTheEndSkipsTheRest", []string{"C12.145"}, Options{}, seekEnd},
		{"ByPositionAndTimeIsExact", []string{"C12.145", "C12.146", "C12.46"}, Options{}, seekExact},
		{"ReleasesHeldMessagesAndKeepsDeadOnes", []string{"C12.147", "C12.82"}, Options{}, seekGivesUp},
		{"BeforeTheOldestMessageIsClipped", []string{"C12.148"}, Options{}, seekClipped},
		{"AheadOfTheLogIsInvalid", []string{"C12.149"}, Options{}, seekAhead},
		{"RepeatedSeekChangesNothing", []string{"C12.150"}, Options{}, seekRepeated},
		{"ByTimeUsesEntryTimesAfterClockSteps", []string{"C12.46", "C12.43"}, Options{}, seekClockSteps},
		{"ReplaysADeadMessage", []string{"C12.147", "C12.111"}, Options{}, seekOverDead},
		{"WakesAWaiter", []string{"C12.91", "C12.145"}, Options{}, seekWakes},
		{"OfOneGroupDoesNotAffectOthers", []string{"C12.145"}, Options{}, seekAlone},
	}
}

// keepAll configures the topic to keep messages that no group needs.
func (s *scene) keepAll() { s.Helper(); s.configureTopic(duly.TopicConfig{Keep: 365 * 24 * time.Hour}) }

func (s *scene) seeks(to duly.From, want contract.SeekResult) {
	s.Helper()
	same(s, "the result of a seek to "+string(to), s.seek(to), want)
	s.balanced()
}

func seekStart(s *scene) {
	s.keepAll()
	g := s.group("g")
	s.send("a", "b", "c")
	g.ackAll(g.delivers("a", "b", "c"))
	// The kept messages are delivered again.
	g.seeks(duly.FromStart, contract.SeekResult{Replayed: 3})
	same(s, "the lag", g.groupStats().Lag, 3)
	g.ackAll(g.delivers("a", "b", "c"))
	st := g.stats()
	same(s, "replayed", st.Group.Replayed, 3)
	same(s, "entered", st.Group.Entered, 3)
	same(s, "acked", st.Counters.Acked, 6)
}

func seekEnd(s *scene) {
	s.keepAll()
	g := s.group("g")
	s.send("a", "b", "c", "d")
	g.ack(g.take())
	g.take() // this message is in flight during the Seek
	g.seeks(duly.FromEnd, contract.SeekResult{Skipped: 3})
	g.delivers()
	same(s, "skipped", g.groupStats().Skipped, 3)
	s.send("e")
	g.delivers("e")
}

func seekExact(s *scene) {
	s.keepAll()
	g := s.group("g")
	var positions []string
	var moments []time.Time
	bodies := numberedBodies("", 10)
	for _, body := range bodies {
		positions = append(positions, s.send(body)...)
		moments = append(moments, s.now())
		s.Advance(7 * time.Millisecond)
	}
	// A position, its time, and a time between it and the one before lead to the same message.
	for i := range bodies {
		for _, to := range []duly.From{duly.From(positions[i]), duly.FromTime(moments[i]),
			duly.FromTime(moments[i].Add(-6 * time.Millisecond))} {
			g.seek(to)
			g.balanced()
			g.delivers(bodies[i:]...)
		}
	}

	g.seek(duly.FromTime(moments[9].Add(time.Millisecond)))
	g.delivers()
}

func seekGivesUp(s *scene) {
	s.keepAll()
	g := s.ordered("g")
	s.publish(keyed("k", "dead"), keyed("k", "leased"), keyed("k", "blocked"), keyed("", "delayed"),
		keyed("", "ready"), keyed("", "new"))
	// Bring one message into each state.
	ds := g.reserve(3)
	g.bury(ds[0], "no")
	g.nack(ds[1], "no")
	g.release(ds[2])
	leased := g.reserve(1)[0]
	g.sizes(duly.Sizes{Dead: 1, Leased: 1, Blocked: 1, Delayed: 1, Ready: 1})
	// The dead message does not change. The other messages are delivered again, as if for the first
	// time.
	g.seeks(duly.From(leased.ID), contract.SeekResult{Skipped: 4, Replayed: 4})
	s.topicUnchanged("a receipt of before a seek", func() { g.refusesReceipt(leased.Receipt) })

	g.sizes(duly.Sizes{Dead: 1})
	again := g.delivers("leased", "delayed", "ready", "new")
	for _, d := range again {
		same(s, "the failures of "+string(d.Body), d.Failures, 0)
	}
	g.ack(again[0])
	g.delivers("blocked")
}

func seekClipped(s *scene) {
	g := s.group("g")
	first := s.send("a")[0]
	moment := s.now()
	// No message was deleted, so the position is not clipped.
	g.seeks(duly.FromTime(moment.Add(-time.Hour)), contract.SeekResult{})
	s.Advance(time.Second)
	s.send("b")
	g.ackAll(g.delivers("a", "b"))
	s.Advance(time.Second)
	s.stepTopic()
	// The log is empty now, so both positions are before its start.
	s.logged()
	g.seeks(duly.From(first), contract.SeekResult{Clipped: true})
	g.seeks(duly.FromTime(moment), contract.SeekResult{Clipped: true})

	s.send("c")
	for _, to := range []duly.From{duly.From(first), duly.FromTime(moment)} {
		g.seeks(to, contract.SeekResult{Clipped: true})
		g.seeks(duly.FromStart, contract.SeekResult{})
		g.seeks(duly.FromTime(s.now()), contract.SeekResult{})
	}
	g.delivers("c")
}

func seekAhead(s *scene) {
	g := s.group("g")
	parts := mustPosition(s, s.send("a")[0])
	g.take()
	parts.Ordinal++
	s.topicUnchanged("a seek to a position ahead of the log", func() {
		for _, to := range []duly.From{
			duly.FromPosition(parts.Position()), duly.FromTime(s.now().Add(time.Millisecond)), "next:1", "soon",
		} {
			_, err := s.log().Seek(s.ctx, g.ref(), to)
			s.names("a seek to "+string(to), err, duly.CodeInvalid, "from")
		}
	})
}

func seekRepeated(s *scene) {
	s.keepAll()
	g := s.group("g")
	position := s.send("a", "b", "c")[1]
	g.ackAll(g.delivers("a", "b", "c"))
	g.seeks(duly.From(position), contract.SeekResult{Replayed: 2})
	// The second seek finds the cursor at its position.
	g.seeks(duly.From(position), contract.SeekResult{})
	g.delivers("b", "c")
	// The delivered messages count as skipped, and then as replayed.
	g.seeks(duly.From(position), contract.SeekResult{Skipped: 2, Replayed: 2})
	g.delivers("b", "c")
}

func seekClockSteps(s *scene) {
	s.keepAll()
	g := s.group("g")
	s.send("a")
	s.Clock.Step(time.Hour)
	ahead := s.now()
	s.send("b")
	s.Clock.Step(-time.Hour)
	s.Advance(time.Minute)
	s.send("c") // the message enters at the time of b, because entry times never go back
	s.Clock.Step(time.Hour)
	s.send("d")

	g.delivers("a", "b", "c", "d")
	g.seek(duly.FromTime(ahead))
	g.delivers("b", "c", "d")
	g.seek(duly.FromTime(ahead.Add(time.Millisecond)))
	g.delivers("d")
}

// seekOverDead moves the cursor back before a message that the group has buried.
func seekOverDead(s *scene) {
	s.keepAll()
	g := s.group("g")
	id := s.send("a")[0]
	g.bury(g.take(), "first")
	g.seeks(duly.FromStart, contract.SeekResult{Replayed: 1})
	// The message is dead and also beyond the cursor. Requeuing it would deliver it twice.
	s.refused("requeue of the copy of a message beyond the cursor", g.requeue(id).Err, duly.CodeConflict)
	results, err := g.Engine.Requeue(g.ctx, g.ref(), duly.RequeueParams{N: 2})
	s.must("requeue the oldest", err)
	if len(results) != 1 || results[0].ID != id || duly.CodeOf(results[0].Err) != duly.CodeConflict {
		s.Errorf("requeue of the oldest returns %+v, want a conflict for %s", results, id)
	}

	d := g.delivers("a")[0]
	g.is(id, duly.StateLeased)
	g.conflicts("requeue of the copy of a message that is held", g.requeue(id).Err, duly.StateLeased)
	g.sizes(duly.Sizes{Leased: 1, Dead: 1})
	// The second death replaces the first copy.
	g.bury(d, "second")
	same(s, "the error", g.get(id).LastError, "second")
	g.sizes(duly.Sizes{Dead: 1})
	same(s, "dropped", g.stats().Counters.Dropped, 1)
	g.balanced()
	s.must("requeue", g.requeue(id).Err)
	g.ack(g.delivers("a")[0])
	g.balanced()
}

func seekWakes(s *scene) {
	s.keepAll()
	g := s.group("g")
	s.send("a")
	g.ackAll(g.delivers("a"))
	woken := make(chan bool, 1)
	go func() {
		ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{g.queue}, Timeout: time.Minute})
		woken <- ready && err == nil
	}()
	s.Quiet()
	g.seek(duly.FromStart)
	same(s, "a wait for replayed messages", <-woken, true)
	g.delivers("a")
}

func seekAlone(s *scene) {
	s.keepAll()
	g, h := s.group("g"), s.group("h")
	s.send("a", "b")
	g.delivers("a", "b")
	// The other group's delivery must stay valid.
	d := h.take()
	g.seek(duly.FromStart)
	h.ack(d)
	h.delivers("b")
	g.delivers("a", "b")
}

package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicDelayedTests() []test {
	return []test{
		{"MessageEntersTheLogWhenItIsDue", []string{"C12.10", "C12.19", "C12.47", "C12.48", "C12.55"}, Options{},
			delayedEnters},
		{"MessagesEnterInTheOrderOfTheirDueTimes", []string{"C12.49"}, Options{}, delayedOrder},
		{"GroupReceivesMessagesThatEnterAfterItsCreation", []string{"C12.50", "C12.68"}, Options{}, delayedSeenByGroups},
		{"MessagesWithDifferentKeysMayShareAnID", []string{"C12.51"}, Options{}, delayedKeys},
		{"MessageIsFoundByIDAndKey", []string{"C12.51"}, Options{}, delayedFound},
		{"ListIsSortedAndCounted", []string{"C12.52", "C12.156"}, Options{}, delayedListed},
		{"DueInThePastIsNow", []string{"C12.16"}, Options{}, delayedPastDue},
		{"ClockStepsMakeNoMessageEarly", []string{"C12.48", "C12.43"}, Options{}, delayedClockSteps},
		{"SecondDelayedMessageWithAnIDIsARepeat", []string{"C12.20"}, Options{}, delayedTwice},
		{"ReserveAddsDueMessagesToTheLog", []string{"C12.48", "C12.89"}, Options{}, delayedReserved},
		{"CanceledMessageNeverEnters", []string{"C12.51", "C12.158"}, Options{}, delayedCanceled},
	}
}

func delayedEnters(s *scene) {
	r := s.publish(duly.Message{Body: []byte("a"), Headers: map[string]string{"h": "v"}, Key: "k",
		Delay: 10 * time.Second})[0]
	if r.ID == "" || r.Position != (duly.Position{}) {
		s.Errorf("publish of a delayed message returns %+v, want an ID and no position", r)
	}

	s.logged()
	// One millisecond early the message is still delayed.
	s.Advance(10*time.Second - time.Millisecond)
	s.stepTopic()
	s.logged()
	same(s, "the delayed messages", s.info().Stats.Delayed, 1)

	s.Advance(time.Millisecond)
	s.stepTopic()
	s.logged("a")
	e := s.readAll(duly.FromStart)[0]
	sameTime(s, "the entry time", e.EnteredAt, s.now())
	same(s, "the header", e.Headers["h"], "v")
	same(s, "the key", e.Key, "k")
	same(s, "the ID", e.ID, r.ID)

	st := s.info().Stats
	same(s, "the delayed messages", st.Delayed, 0)
	same(s, "the messages", st.Messages, 1)
	_, err := s.log().DelayedMessage(s.ctx, s.topic(), "k", r.ID)
	s.refused("a message that has entered", err, duly.CodeNotFound)
}

func delayedOrder(s *scene) {
	for i, delay := range []time.Duration{3, 1, 2, 1, 3} {
		s.publish(duly.Message{Body: fmt.Appendf(nil, "%d-%d", delay, i), Delay: delay * time.Second})
	}

	// All messages are due. They enter in the order of their due times, and before the next
	// message.
	s.Advance(10 * time.Second)
	s.stepTopic()
	s.send("last")
	s.logged("1-1", "1-3", "2-2", "3-0", "3-4", "last")
}

func delayedSeenByGroups(s *scene) {
	s.publish(duly.Message{Body: []byte("a"), Delay: time.Minute})
	g := s.groupFrom("g", duly.FromEnd)
	s.Advance(time.Minute)
	s.stepTopic()
	// The second group is created after the message has entered.
	late := s.groupFrom("late", duly.FromEnd)
	g.delivers("a")
	late.delivers()
}

func delayedFound(s *scene) {
	own := s.publish(duly.Message{ID: "own", Body: []byte("a"), Delay: time.Hour})[0]
	same(s, "the ID", own.ID, "own")
	made := s.publish(duly.Message{Body: []byte("b"), Key: "k", Delay: time.Hour})[0]
	for _, m := range []struct{ key, id, body string }{{"", "own", "a"}, {"k", made.ID, "b"}} {
		got, err := s.log().DelayedMessage(s.ctx, s.topic(), m.key, m.id)
		s.must("get of a delayed message", err)
		same(s, "the ID", got.ID, m.id)
		same(s, "the key", got.Key, m.key)
		same(s, "the body", string(got.Body), m.body)
		sameTime(s, "the due time", got.Due, s.now().Add(time.Hour))
		s.must("cancel", s.log().CancelDelayed(s.ctx, s.topic(), m.key, m.id))
		s.topicUnchanged("a second cancel", func() {
			s.refused("a second cancel", s.log().CancelDelayed(s.ctx, s.topic(), m.key, m.id), duly.CodeNotFound)
		})
		_, err = s.log().DelayedMessage(s.ctx, s.topic(), m.key, m.id)
		s.refused("a canceled message", err, duly.CodeNotFound)
	}

	_, err := s.log().DelayedMessage(s.ctx, duly.Q("nothing"), "", "own")
	s.refused("a message of an unknown topic", err, duly.CodeNotFound)
	s.refused("cancel in an unknown topic", s.log().CancelDelayed(s.ctx, duly.Q("nothing"), "", "own"),
		duly.CodeNotFound)
	_, err = s.log().Delayed(s.ctx, duly.Q("nothing"), contract.DelayedParams{})
	s.refused("the list of an unknown topic", err, duly.CodeNotFound)
}

func delayedKeys(s *scene) {
	for _, key := range []string{"b", "", "a"} {
		s.publish(duly.Message{ID: "x", Key: key, Body: []byte("of " + key), Delay: time.Hour})
	}

	keys := []string{}
	for _, m := range s.delayed() {
		keys = append(keys, m.Key)
	}
	s.sameIDs("the keys of the delayed messages", keys, []string{"", "a", "b"})

	// A cancel concerns one key only.
	s.must("cancel", s.log().CancelDelayed(s.ctx, s.topic(), "a", "x"))
	s.refused("a second cancel", s.log().CancelDelayed(s.ctx, s.topic(), "a", "x"), duly.CodeNotFound)
	m, err := s.log().DelayedMessage(s.ctx, s.topic(), "b", "x")
	s.must("get of a delayed message", err)
	same(s, "the body", string(m.Body), "of b")
}

func delayedListed(s *scene) {
	for i, id := range []string{"e", "b", "d", "a", "c"} {
		s.publish(duly.Message{ID: id, Body: []byte(id), Delay: time.Duration(1+i%2) * time.Hour})
	}
	got, bodies := []string{}, 0
	for _, m := range s.delayed() {
		got = append(got, m.ID)
		bodies += len(m.Body)
		want := s.now().Add(time.Hour)
		// The second and fourth messages are due an hour later.
		if m.ID == "a" || m.ID == "b" {
			want = want.Add(time.Hour)
		}
		sameTime(s, "the due time of "+m.ID, m.Due, want)
	}
	s.sameIDs("the delayed messages", got, []string{"c", "d", "e", "a", "b"})
	same(s, "the bytes of the bodies", bodies, 5)

	page, err := s.log().Delayed(s.ctx, s.topic(), contract.DelayedParams{})
	s.must("list", err)
	same(s, "the bytes of a body that was not requested", len(page.Messages[0].Body), 0)
	_, err = s.log().Delayed(s.ctx, s.topic(), contract.DelayedParams{PageParams: duly.PageParams{Cursor: "x y"}})
	s.names("a bad cursor", err, duly.CodeInvalid, "cursor")
	_, err = s.log().Delayed(s.ctx, s.topic(),
		contract.DelayedParams{PageParams: duly.PageParams{Limit: duly.MaxBatch + 1}})
	s.names("a large page", err, duly.CodeInvalid, "limit")

	st := s.info().Stats
	same(s, "the delayed messages", st.Delayed, 5)
	sameTime(s, "the next due time", st.NextDue, s.now().Add(time.Hour))
	s.Advance(90 * time.Minute)
	s.stepTopic()
	st = s.info().Stats
	same(s, "the delayed messages", st.Delayed, 2)
	sameTime(s, "the next due time", st.NextDue, s.now().Add(30*time.Minute))
}

func delayedPastDue(s *scene) {
	r := s.publish(duly.Message{Body: []byte("a"), Due: s.now().Add(-time.Hour)},
		duly.Message{Body: []byte("b"), Due: s.now()})
	same(s, "messages with a position", r[0].Position != duly.Position{} && r[1].Position != duly.Position{}, true)
	s.logged("a", "b")
	sameTime(s, "the entry time", s.readAll("")[0].EnteredAt, s.now())
}

func delayedClockSteps(s *scene) {
	s.publish(duly.Message{Body: []byte("a"), Delay: 10 * time.Second})
	due := s.now().Add(10 * time.Second)

	// The clock is an hour behind, so 20 s later the message is still not due.
	s.Clock.Step(-time.Hour)
	s.Advance(20 * time.Second)
	s.stepTopic()
	s.logged()
	sameTime(s, "the due time", s.delayed()[0].Due, due)

	// Move to one millisecond before the due time.
	s.Clock.Step(time.Hour - 20*time.Second + 10*time.Second - time.Millisecond)
	s.stepTopic()
	s.logged()
	s.Advance(time.Millisecond)
	s.stepTopic()
	s.logged("a")
}

func delayedTwice(s *scene) {
	m := duly.Message{ID: "a", Body: []byte("1"), Delay: time.Hour}
	first := s.publish(m)[0]
	s.repeats(duly.Message{ID: "a", Body: []byte("2"), Delay: time.Minute}, first)
	same(s, "the delayed messages", s.info().Stats.Delayed, 1)
	sameTime(s, "the due time", s.delayed()[0].Due, s.now().Add(time.Hour))
	s.Advance(time.Hour)
	s.stepTopic()
	s.publish(m) // the ID is free, because the first message has entered
	s.logged("1")
}

func delayedReserved(s *scene) {
	g := s.group("g")
	s.publish(duly.Message{Body: []byte("a"), Delay: time.Second})
	// A Reserve before the due time delivers nothing.
	g.delivers()
	same(s, "a wait for a message that is not due", g.ready(), false)
	s.Advance(time.Second)
	same(s, "a wait for a message that is due", g.ready(), true)
	g.delivers("a")
}

// ready returns the result of a Wait without a timeout.
func (s *scene) ready() bool {
	s.Helper()
	ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Namespace: s.namespace, Queues: []string{s.queue}})
	s.must("wait", err)
	return ready
}

func delayedCanceled(s *scene) {
	s.publish(duly.Message{ID: "a", Body: []byte("a"), Delay: time.Second},
		duly.Message{ID: "b", Body: []byte("b"), Delay: time.Second})
	s.must("cancel", s.log().CancelDelayed(s.ctx, s.topic(), "", "a"))
	s.Advance(time.Second)
	s.stepTopic()
	s.logged("b")
	st := s.info().Stats
	same(s, "published", st.Published, 2)
	same(s, "canceled", st.Canceled, 1)
	same(s, "entered", st.Entered, 1)
}

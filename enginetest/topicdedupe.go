package enginetest

import (
	"strconv"
	"time"

	"github.com/dulymq/duly"
)

func topicDedupeTests() []test {
	return []test{
		{"RepeatReturnsTheFirstResult", []string{"C12.20", "C12.57", "C12.58"}, Options{}, dedupeRepeats},
		{"RepeatDoesNotDependOnTheFirstMessagesState", []string{"C12.57"}, Options{}, dedupeStates},
		{"DelayedMessageGetsItsPositionLater", []string{"C12.20", "C12.57"}, Options{}, dedupeDelayed},
		{"WithoutDedupeARepeatIsASecondMessage", []string{"C12.64", "C12.56"}, Options{}, dedupeOff},
		{"DestroyDeletesTheIDs", []string{"C12.61"}, Options{}, dedupeDestroyed},
		{"RepeatOfARefusedMessageIsNew", []string{"C12.21", "C12.57"}, Options{}, dedupeRefused},
		{"ClockStepBackKeepsTheID", []string{"C12.57"}, Options{}, dedupeClock},
		{"ForgetsTheOldestIDsBeyondItsBound", []string{"C12.59"}, Options{}, dedupeBound},
	}
}

func dedupeRepeats(s *scene) {
	s.configureTopic(duly.TopicConfig{Dedupe: time.Minute})
	a := duly.Message{ID: "a", Body: []byte("1")}
	results, err := s.published(a, a, duly.Message{ID: "b", Body: []byte("2")})
	s.must("publish", err)
	same(s, "the outcome of a repeat in one call", results[1].Status, duly.Exists)
	same(s, "the position of a repeat in one call", results[1].Position, results[0].Position)
	first := results[0]

	s.repeats(duly.Message{ID: "a", Body: []byte("another")}, first)
	s.Advance(time.Minute - time.Millisecond)
	s.repeats(a, first) // a repeat does not extend the window
	// The window of a minute is over now.
	s.Advance(2 * time.Millisecond)
	again := s.publish(a)[0]
	if again.Position == first.Position {
		s.Errorf("a message after the window has the position %s of the first one, want a new position", again.Position)
	}

	s.repeats(a, again)
	s.logged("1", "2", "1")
	st := s.info().Stats
	same(s, "published", st.Published, 3)
	same(s, "exists", st.Exists, 4)
	// Messages without an ID are never repeats.
	s.publish(duly.Message{}, duly.Message{})
}

func dedupeStates(s *scene) {
	s.configureTopic(duly.TopicConfig{Dedupe: time.Hour})
	g := s.group("g")
	first := s.publish(duly.Message{ID: "a"})[0]

	// The message is in flight, then acknowledged, then trimmed from the log.
	d := g.take()
	s.repeats(duly.Message{ID: "a"}, first)
	g.ack(d)
	s.repeats(duly.Message{ID: "a"}, first)
	s.stepTopic()
	s.logged() // the message was trimmed
	s.repeats(duly.Message{ID: "a"}, first)
	g.delivers()
}

func dedupeClock(s *scene) {
	s.configureTopic(duly.TopicConfig{Dedupe: time.Minute})
	m := duly.Message{ID: "a"}
	first := s.publish(m)[0]
	// This step runs an hour after the publish. After the clock goes back, the window is still open.
	s.Clock.Step(time.Hour)
	s.stepTopic()
	s.Clock.Step(-time.Hour)
	s.repeats(m, first)
}

func dedupeDelayed(s *scene) {
	s.configureTopic(duly.TopicConfig{Dedupe: time.Hour})
	m := duly.Message{ID: "a", Delay: time.Minute}
	first := s.publish(m, duly.Message{ID: "canceled", Delay: time.Minute})
	s.repeats(m, first[0])
	// The ID counts for delayed, entered and canceled messages alike.
	s.repeats(duly.Message{ID: "a"}, first[0])
	s.must("cancel", s.log().CancelDelayed(s.ctx, s.topic(), "", "canceled"))
	s.Advance(time.Minute)
	s.stepTopic()

	entries := s.readAll(duly.FromStart)
	same(s, "the messages", len(entries), 1)
	s.repeats(m, duly.PublishResult{ID: "a", Position: entries[0].Position})
	s.repeats(duly.Message{ID: "canceled"}, duly.PublishResult{ID: "canceled"})
}

func dedupeOff(s *scene) {
	m := duly.Message{ID: "a", Body: []byte("1")}
	s.publish(m)
	s.publish(m)
	s.logged("1", "1")

	s.configureTopic(duly.TopicConfig{Dedupe: time.Minute})
	first := s.publish(m)[0] // the IDs of the earlier messages were not stored
	s.repeats(m, first)

	s.configureTopic(duly.TopicConfig{Dedupe: duly.None})
	s.publish(m)
	s.logged("1", "1", "1", "1")
}

func dedupeDestroyed(s *scene) {
	// The second round would fail if an ID had survived the destroy.
	for range 2 {
		s.configureTopic(duly.TopicConfig{Dedupe: time.Hour})
		s.publish(duly.Message{ID: "a"})
		s.must("destroy", s.log().DestroyTopic(s.ctx, s.topic()))
	}
}

func dedupeRefused(s *scene) {
	s.configureTopic(duly.TopicConfig{Dedupe: time.Hour, MaxCount: 1})
	g := s.group("g")
	first := s.publish(duly.Message{ID: "a"})[0]
	s.refused("a message without room", s.tryPublish(duly.Message{ID: "b"}).Err, duly.CodeFull)
	s.repeats(duly.Message{ID: "a"}, first) // exists is checked before full
	s.names("a bad message", s.tryPublish(duly.Message{ID: "a", Key: "\n"}).Err, duly.CodeInvalid, "key")
	g.ack(g.take())
	// The refused message did not store its ID.
	s.publish(duly.Message{ID: "b"})
}

// dedupeBound publishes more IDs than a shard stores, 1000 per call.
func dedupeBound(s *scene) {
	if !long() {
		s.Skip("publishes a million messages; set DULY_LONG=1")
	}
	s.configureTopic(duly.TopicConfig{Dedupe: 24 * time.Hour, MaxCount: 1000, Overflow: duly.OverflowDrop})
	for call := range duly.MaxIDs/duly.MaxBatch + 1 {
		messages := make([]duly.Message, duly.MaxBatch)
		for i := range messages {
			messages[i].ID = numberedID(call*duly.MaxBatch + i)
		}
		s.publish(messages...)
	}
	same(s, "forgotten", s.info().Stats.Forgotten, duly.MaxBatch)
	// The first IDs were forgotten, so they are new again.
	s.publish(duly.Message{ID: numberedID(0)})
	r := s.tryPublish(duly.Message{ID: numberedID(2 * duly.MaxBatch)})
	same(s, "the status of a stored ID", r.Status, duly.Exists)
}

func numberedID(n int) string { return "id-" + strconv.Itoa(n) }

package enginetest

import (
	"fmt"
	"time"

	"github.com/dulymq/duly"
)

func topicFilterTests() []test {
	return []test{
		{"MatchingMessagesAreDelivered", []string{"C12.115", "C12.116", "C12.117"}, Options{}, filterMatches},
		{"AllEightConditionsHaveToMatch", []string{"C12.115"}, Options{}, filterEight},
		{"AppliesOnlyBeyondTheCursor", []string{"C12.116"}, Options{}, filterBeyond},
		{"SkipsMoreMessagesThanOneStep", []string{"C12.118"}, Options{}, filterFar},
		{"SkippedMessagesAreTrimmed", []string{"C12.117"}, Options{}, filterTrims},
		{"WaiterSkipsMessagesThatDoNotMatch", []string{"C12.117"}, Options{}, filterWaits},
		{"MaxHeldStopsTheCursor", []string{"C12.104", "C12.105", "C12.106"}, Options{}, maxHeld},
		{"MaxHeldReportsTheKeyThatBlocksMost", []string{"C12.106"}, Options{}, maxHeldKey},
		{"ConsumersAreListed", []string{"C12.107", "C12.108", "C12.110", "C12.152"}, Options{}, consumersListed},
		{"ConsumersOwnNoMessages", []string{"C12.108", "C12.109"}, Options{}, consumersOwnNothing},
		{"ConsumersAreAtMost1000", []string{"C12.110"}, Options{}, consumersBound},
	}
}

func withHeaders(body string, headers ...string) duly.Message {
	m := duly.Message{Body: []byte(body), Headers: map[string]string{}}
	for i := 0; i < len(headers); i += 2 {
		m.Headers[headers[i]] = headers[i+1]
	}
	return m
}

// filtered creates a group with a filter.
func (s *scene) filtered(name string, f duly.Filter) *scene {
	s.Helper()
	g := s.group(name)
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{Filter: f}})
	return g
}

func filterMatches(s *scene) {
	byHeader := s.filtered("header", "type=order&region=eu")
	byKey := s.filtered("key", duly.FilterOf(duly.Condition{Name: duly.FilterKey, Value: "a b"}))
	all := s.group("all")
	s.publish(
		withHeaders("1", "Type", "order", "Region", "eu"), withHeaders("2", "type", "order"),
		withHeaders("3", "type", "Order", "region", "eu"),
		withHeaders("4", "type", "order", "region", "eu", "more", "x"), keyed("a b", "5"), keyed("a", "6"),
	)
	// The filter applies when messages are reserved, so all of them count as lag before.
	same(s, "the lag", byHeader.groupStats().Lag, 6)
	byHeader.delivers("1", "4")
	byKey.delivers("5")
	all.delivers("1", "2", "3", "4", "5", "6")
	same(s, "the filtered of the group with headers", byHeader.groupStats().Filtered, 4)
	same(s, "the filtered of the group with a key", byKey.groupStats().Filtered, 5)
	same(s, "the lag", byHeader.groupStats().Lag, 0)
	same(s, "the filter", byHeader.config().Group.Filter, duly.Filter("type=order&region=eu"))
}

func filterEight(s *scene) {
	headers, conditions := []string{}, []duly.Condition{}
	for i := range duly.MaxConditions {
		name := fmt.Sprint("h", i)
		headers = append(headers, name, "v")
		conditions = append(conditions, duly.Condition{Name: name, Value: "v"})
	}
	g := s.filtered("g", duly.FilterOf(conditions...))
	s.publish(withHeaders("all", headers...), withHeaders("one missing", headers[2:]...))
	g.delivers("all")
}

func filterBeyond(s *scene) {
	g := s.group("g")
	s.publish(withHeaders("1", "a", "no"), withHeaders("2", "a", "no"))
	ds := g.delivers("1", "2")
	// Messages that the group holds already are delivered again, whatever the new filter.
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{Filter: "a=yes"}})
	for _, d := range ds {
		g.release(d)
	}

	s.publish(withHeaders("3", "a", "no"), withHeaders("4", "a", "yes"))
	g.delivers("1", "2", "4")

	// Without a filter the group takes all later messages.
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{Filter: duly.NoFilter}})
	s.publish(withHeaders("5", "a", "no"))
	g.delivers("5")
	same(s, "filtered", g.groupStats().Filtered, 1)
}

// filterFar publishes more messages that do not match than two steps skip.
func filterFar(s *scene) {
	g := s.filtered("g", "a=yes")
	for range 2 {
		s.publish(make([]duly.Message, duly.MaxBatch)...)
	}
	s.publish(make([]duly.Message, 500)...)
	s.publish(withHeaders("found", "a", "yes"))
	s.publish(make([]duly.Message, 700)...)
	g.delivers("found")
	same(s, "filtered", g.groupStats().Filtered, 3200)
	same(s, "the lag", g.groupStats().Lag, 0)
}

func filterTrims(s *scene) {
	g := s.filtered("g", "a=yes")
	s.send("1", "2")
	g.delivers()
	// The skipped messages are behind the cursor, so no group needs them.
	s.stepTopic()
	s.logged()
	same(s, "trimmed", s.info().Stats.Trimmed, 2)
}

// filterWaits checks that a message without a match wakes a waiting worker, whose Reserve then skips
// it. Without that, the topic could not trim the message and would fill up.
func filterWaits(s *scene) {
	g := s.filtered("g", "a=yes")
	s.configureTopic(duly.TopicConfig{MaxCount: 2})
	for range 3 {
		s.send("1", "2")
		same(s, "a wait for messages that do not match", g.ready(), true)
		g.delivers()
		same(s, "the lag", g.groupStats().Lag, 0)
	}
	same(s, "a wait after the last", g.ready(), false)
}

func maxHeld(s *scene) {
	g := s.group("g")
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: 2}})
	s.send("a", "b", "c", "d")

	// The bound counts messages that the group holds: delivered but not finished.
	same(s, "the bound before it is reached", g.groupStats().AtMaxHeld, false)
	ds := g.delivers("a", "b")
	st := g.groupStats()
	same(s, "the bound", st.AtMaxHeld, true)
	same(s, "the key without an order", st.Key, "")
	same(s, "the lag", st.Lag, 2)
	same(s, "a wait at the bound", g.ready(), false)

	g.release(ds[0])
	g.snooze(ds[1], time.Hour)
	// Ready messages are still delivered at the bound.
	ds = g.delivers("a")
	// A dead message is not held.
	g.bury(ds[0], "no")
	g.delivers("c")
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: 5}})
	g.delivers("d")
	same(s, "the bound", g.groupStats().AtMaxHeld, false)
}

func maxHeldKey(s *scene) {
	// Only the first message of each key is deliverable. The other messages are blocked behind it.
	g := s.ordered("g")
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: 6}})
	s.publish(keyed("x", "x1"), keyed("y", "y1"), keyed("y", "y2"), keyed("x", "x2"), keyed("y", "y3"),
		keyed("y", "y4"), keyed("z", "z1"))
	ds := g.delivers("x1", "y1")
	st := g.groupStats()
	same(s, "the bound", st.AtMaxHeld, true)
	same(s, "the key that blocks most", st.Key, "y")

	g.ack(ds[0])
	g.delivers("x2", "z1")
}

func consumersListed(s *scene) {
	g := s.group("g")
	reserveAs := func(name string) {
		_, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 1, Consumer: name})
		s.must("reserve", err)
	}

	listed := func() (names []string) {
		for _, c := range g.groupStats().Consumers {
			names = append(names, c.Name)
			if age := s.now().Sub(c.LastCall); age < 0 || age > duly.ConsumerMemory {
				s.Errorf("consumer %s called %s ago, want between 0 and duly.ConsumerMemory", c.Name, age)
			}
		}
		return names
	}

	s.send("a")
	reserveAs("mail-2")
	reserveAs("mail-1")
	s.sameIDs("the consumers", listed(), []string{"mail-1", "mail-2"})

	// A consumer is listed for an hour after its last call.
	s.Advance(50 * time.Minute)
	reserveAs("mail-1")
	last := g.groupStats().Consumers[0].LastCall
	if age := s.now().Sub(last); age < 0 || age > time.Minute {
		s.Errorf("the last call of mail-1 was %s ago, want at most a minute", age)
	}

	s.Advance(15 * time.Minute)
	s.sameIDs("the consumers an hour later", listed(), []string{"mail-1"})
	_, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 1, Consumer: "a b"})
	s.names("a bad name", err, duly.CodeInvalid, "consumer")
}

func consumersOwnNothing(s *scene) {
	g := s.group("g")
	s.send("a")
	ds, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 1, Consumer: "one"})
	s.must("reserve", err)
	// The lease ends, so any consumer may receive the message.
	g.stall(ds[0])
	again, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 1, Consumer: "two"})
	s.must("reserve", err)
	same(s, "the message that another consumer receives", again[0].ID, ds[0].ID)
	g.ack(again[0])
}

func consumersBound(s *scene) {
	g := s.group("g")
	for i := range duly.MaxConsumers + 5 {
		_, err := s.Engine.Reserve(s.ctx, duly.ReserveParams{Queues: []string{g.queue}, Max: 1,
			Consumer: fmt.Sprint("c", i)})
		s.must("reserve", err)
	}
	if n := len(g.groupStats().Consumers); n > duly.MaxConsumers {
		s.Errorf("%d consumers are listed, want at most %d", n, duly.MaxConsumers)
	}
}

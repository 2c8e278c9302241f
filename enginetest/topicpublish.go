package enginetest

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func topicPublishTests() []test {
	return []test{
		{"MessageEntersTheLogWithAPosition", []string{"C12.1", "C12.12", "C12.14", "C12.18", "C12.34", "C12.35"},
			Options{}, publishPositions},
		{"MessageIsReadUnchanged", []string{"C12.16", "C12.141"}, Options{}, publishContent},
		{"PublishConfigureAndCreateGroupCreateTheTopic", []string{"C12.25", "C12.160", "C12.179"}, Options{},
			publishCreatesTopic},
		{"InvalidMessageFailsAlone", []string{"C12.16", "C12.21"}, Options{MaxBody: 100}, publishBad},
		{"CallIsLimitedTo1000MessagesAnd8MiB", []string{"C12.13"}, Options{}, publishBounds},
		{"MessagesOfOneCallAreConsecutive", []string{"C12.22"}, Options{}, publishBlock},
		{"PositionsRiseWhenTheClockStepsBack", []string{"C12.38", "C12.42", "C12.43", "C12.44"}, Options{},
			publishClockBack},
		{"TopicsOfOneCallAreIndependent", []string{"C12.1", "C12.14"}, Options{}, publishSeveralTopics},
		{"NamespacesAreIndependent", []string{"C12.1", "C12.34"}, Options{}, publishNamespaces},
		{"TopicAndQueueNeverShareAName", []string{"C12.181"}, Options{}, publishNames},
		{"DestroyRemovesEverything", []string{"C12.31", "C12.32"}, Options{}, publishDestroyed},
		{"TopicsCountAsQueues", []string{"C12.179"}, Options{MaxQueues: 2}, publishTopicBound},
		{"ConfigureNamesEveryBadField", []string{"C12.56", "C12.123", "C12.127"}, Options{}, publishBadConfig},
		{"ConfigureChangesOnlyGivenFields", []string{"C12.56", "C12.119", "C12.123", "C12.127"}, Options{},
			publishConfigured},
	}
}

func publishPositions(s *scene) {
	s.Advance(1234567 * time.Microsecond)
	results := s.publish(messagesOf("a", "b", "c")...)
	for i, r := range results {
		p := contract.PositionPartsOf(r.Position)
		same(s, "the parts of a position", p, contract.PositionParts{
			Millis: s.now().UnixMilli(), Ordinal: uint64(i + 1), Topic: contract.TopicChecksum(s.topic()),
		})
		same(s, "the ID of a message without one", r.ID, "")
	}

	s.logged("a", "b", "c")
	for i, e := range s.readAll(duly.FromStart) {
		same(s, "the position that Read returns", e.Position, results[i].Position)
	}
}

func publishContent(s *scene) {
	m := duly.Message{ID: "order-17", Key: "account 7", Body: []byte{0, 1, 255},
		Headers: map[string]string{"Type": "order", "b": "ü"}}
	r := s.publish(m, duly.Message{})
	same(s, "the ID of the result", r[0].ID, "order-17")
	// The entry time must not follow the clock.
	s.Advance(time.Hour)

	entries := s.readAll(duly.FromStart)
	same(s, "the messages of the log", len(entries), 2)
	e := entries[0]
	same(s, "the topic", e.Topic, theTopic)
	same(s, "the namespace", e.Namespace, duly.DefaultNamespace)
	same(s, "the ID", e.ID, m.ID)
	same(s, "the key", e.Key, m.Key)
	same(s, "the body", string(e.Body), string(m.Body))
	if want := map[string]string{"type": "order", "b": "ü"}; !maps.Equal(e.Headers, want) {
		s.Errorf("the headers are %q, want %q", e.Headers, want)
	}
	sameTime(s, "the entry time", e.EnteredAt, s.now().Add(-time.Hour))
	same(s, "the due moment of a message in the log", e.Due.IsZero() && e.Delay == 0, true)
	same(s, "the size of an empty body", len(entries[1].Body), 0)
}

func publishCreatesTopic(s *scene) {
	s.sameIDs("the topics", s.topics(), nil)
	s.onTopic("published").send("a")
	s.onTopic("configured").configureTopic(duly.TopicConfig{Keep: time.Hour})
	s.onTopic("grouped").group("g")
	s.sameIDs("the topics", s.topics(), []string{"configured", "grouped", "published"})
	s.sameIDs("the queues", s.queues(), nil)

	want := contract.DefaultTopicConfig()
	same(s, "the configuration of a topic that was never configured", s.onTopic("published").info().Config, want)
	if s.Registry == nil {
		return
	}

	// A namespace that has only topics is also listed.
	s.in("elsewhere").send("a")
	page, err := s.Registry.Namespaces(s.ctx, duly.PageParams{})
	s.must("namespaces", err)
	s.sameIDs("the namespaces", page.Names, []string{"default", "elsewhere"})
}

func publishBad(s *scene) {
	for field, m := range map[string]duly.Message{
		"id":        {ID: "-x"},
		"key":       {Key: "a\nb"},
		"headers":   {Headers: map[string]string{"a b": "c"}},
		"delay":     {Delay: -time.Second},
		"due":       {Due: duly.MaxTime.Add(time.Second)},
		"topic":     {Topic: "t@g"},
		"namespace": {Topic: theTopic},
	} {
		// The helper sets the namespace, so this case calls Publish itself.
		if field == "namespace" {
			results, err := s.log().Publish(s.ctx, []duly.Message{{Namespace: "a/b", Topic: theTopic}})
			if err == nil {
				err = results[0].Err
			}
			s.names("publish into the namespace a/b", err, duly.CodeInvalid, field)
			continue
		}
		s.names("publish of a bad "+field, s.tryPublish(m).Err, duly.CodeInvalid, field)
	}
	s.sameIDs("the topics after invalid messages only", s.topics(), nil)

	// Two invalid messages between two valid ones.
	results, err := s.published(duly.Message{Body: []byte("a")}, duly.Message{ID: "?"},
		duly.Message{Body: make([]byte, 101)}, duly.Message{Body: []byte("b")})
	s.must("publish", err)
	s.must("the first", results[0].Err)
	s.refused("a bad ID", results[1].Err, duly.CodeInvalid)
	s.names("a long body", results[2].Err, duly.CodeTooLarge, "body")
	s.must("the last", results[3].Err)
	s.logged("a", "b")
}

func publishBounds(s *scene) {
	_, err := s.published(make([]duly.Message, duly.MaxBatch+1)...)
	s.refused("1001 messages", err, duly.CodeTooLarge)
	large := make([]duly.Message, 9)
	for i := range large {
		large[i].Body = make([]byte, 1<<20)
	}
	_, err = s.published(large...)
	s.refused("9 MiB", err, duly.CodeTooLarge)
	s.refused("a body of 1 MiB and 1 byte", s.tryPublish(duly.Message{Body: make([]byte, 1<<20+1)}).Err,
		duly.CodeTooLarge)

	s.sameIDs("the topics", s.topics(), nil)
	// Exactly at the bounds.
	s.publish(make([]duly.Message, duly.MaxBatch)...)
	s.publish(large[:8]...)
	same(s, "the messages", s.info().Stats.Messages, duly.MaxBatch+8)
}

func publishBlock(s *scene) {
	// The group keeps the messages in the log.
	s.group("g")
	for call := range 20 {
		messages := make([]duly.Message, call+1)
		for i := range messages {
			messages[i] = keyed(fmt.Sprint("key-", i), fmt.Sprint(i))
		}
		results := s.publish(messages...)
		first := contract.PositionPartsOf(results[0].Position)
		for i, r := range results {
			p := contract.PositionPartsOf(r.Position)
			same(s, "the ordinal", p.Ordinal, first.Ordinal+uint64(i))
			same(s, "the entry time", p.Millis, first.Millis)
		}
	}
}

func publishClockBack(s *scene) {
	s.group("g")
	before := s.publish(messagesOf("a")...)[0].Position
	start := s.now()
	// Each step of the clock is relative to the one before.
	for _, step := range []time.Duration{-time.Hour, time.Second, 2 * time.Hour, -3 * time.Hour, -time.Hour} {
		s.Clock.Step(step)
		after := s.publish(messagesOf("x")...)[0].Position
		if after.String() <= before.String() {
			s.Errorf("after a clock step of %s the position is %s, want a position after %s", step, after, before)
		}
		if s.on(duly.GroupName(theTopic, "g")).groupStats().OldestNeeded < 0 {
			s.Errorf("the age of a message is negative after a clock step of %s", step)
		}
		before = after
	}

	millis := []time.Duration{}
	for _, e := range s.readAll(duly.FromStart) {
		millis = append(millis, e.EnteredAt.Sub(start))
	}

	// Entry times never go back. They stay at the highest time so far.
	hour := time.Hour + time.Second
	same(s, "the entry times", fmt.Sprint(millis), fmt.Sprint([]time.Duration{0, 0, 0, hour, hour, hour}))
}

func publishSeveralTopics(s *scene) {
	results := s.publish(duly.Message{Topic: "a", Body: []byte("1")}, duly.Message{Topic: "b", Body: []byte("2")},
		duly.Message{Topic: "a", Body: []byte("3")})
	same(s, "the topic of the second position", contract.PositionPartsOf(results[1].Position).Topic,
		contract.TopicChecksum(duly.Q("b")))
	s.onTopic("a").logged("1", "3")
	s.onTopic("b").logged("2")
}

func publishNamespaces(s *scene) {
	a, b := s.in("a"), s.in("b")
	pa := a.send("x")[0]
	pb := b.send("y")[0]
	if pa == pb {
		s.Errorf("topics of two namespaces have the same position %s, want different ones", pa)
	}
	a.logged("x")
	b.logged("y")
	s.sameIDs("the topics of the default namespace", s.topics(), nil)

	// Positions contain a checksum of the topic and its namespace.
	_, err := b.log().Read(b.ctx, b.topic(), contract.ReadParams{From: duly.From(pa)})
	b.names("read from a position of another namespace", err, duly.CodeInvalid, "from")
}

func publishNames(s *scene) {
	s.on("q").push(duly.Job{ID: "x"})
	q := s.onTopic("q")
	s.refused("publish to the name of a queue", q.tryPublish(duly.Message{}).Err, duly.CodeConflict)
	s.refused("configuring a topic with the name of a queue",
		s.log().ConfigureTopic(s.ctx, q.ref(), duly.TopicConfig{Keep: time.Hour}), duly.CodeConflict)
	_, err := s.log().CreateGroup(s.ctx, duly.Q("q@g"), "")
	s.refused("a group with the name of a queue", err, duly.CodeConflict)
	s.sameIDs("the topics", s.topics(), nil)

	s.send("a")
	t := s.on(theTopic)
	for what, err := range map[string]error{
		"push":      t.try(duly.Job{}).Err,
		"configure": t.Engine.Configure(t.ctx, t.ref(), duly.QueueConfig{MaxLeased: 1}),
		"pause":     t.Engine.Pause(t.ctx, t.ref()),
		"resume":    t.Engine.Resume(t.ctx, t.ref()),
		"destroy":   t.Engine.Destroy(t.ctx, t.ref()),
		"delete":    t.Engine.Delete(t.ctx, t.ref(), "x"),
		"get all":   errOf(t.Engine.GetJobs(t.ctx, t.ref(), []string{"x"}, true)),
		"promotion": errOf(t.Engine.PromoteJobs(t.ctx, t.ref(), []string{"x"})),
		"deletion":  errOf(t.Engine.DeleteJobs(t.ctx, t.ref(), []string{"x"}, duly.StateNone)),
		// The queue of the same call has a job, which must not be leased.
		"reserve": errOf(t.Engine.Reserve(t.ctx, duly.ReserveParams{Queues: []string{"q", theTopic}, Max: 2})),
		"wait":    errOf(t.Engine.Wait(t.ctx, duly.WaitParams{Queues: []string{"q", theTopic}})),
		"get":     errOf(t.Engine.Get(t.ctx, t.ref(), "x")),
		"list":    errOf(t.Engine.List(t.ctx, t.ref(), duly.ListParams{State: duly.StateReady})),
		"stats":   errOf(t.Engine.Stats(t.ctx, t.ref())),
		"config":  errOf(t.Engine.Config(t.ctx, t.ref())),
		"purge":   errOf(t.Engine.Purge(t.ctx, t.ref(), duly.StateReady, 0)),
		"requeue": errOf(t.Engine.Requeue(t.ctx, t.ref(), duly.RequeueParams{N: 1})),
	} {
		s.refused(what+" of a topic's name", err, duly.CodeConflict)
		if err != nil && !strings.Contains(err.Error(), "TOPIC@GROUP") {
			s.Errorf("%s of a topic's name: error %q does not mention TOPIC@GROUP", what, err)
		}
	}
	s.on("q").is("x", duly.StateReady)
	s.logged("a")
}

func errOf[T any](_ T, err error) error { return err }

func publishDestroyed(s *scene) {
	s.configureTopic(duly.TopicConfig{Dedupe: time.Hour, MaxAge: time.Hour})
	g := s.group("g")
	first := s.publish(duly.Message{ID: "a"}, duly.Message{ID: "b", Delay: time.Hour})
	d := g.take()

	s.must("destroy", s.log().DestroyTopic(s.ctx, s.topic()))
	s.must("destroy again", s.log().DestroyTopic(s.ctx, s.topic()))
	s.sameIDs("the topics", s.topics(), nil)
	_, err := s.log().Topic(s.ctx, s.topic())
	s.refused("the topic", err, duly.CodeNotFound)
	g.lost("an ack with an old receipt", g.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))

	// The new topic has forgotten the IDs, positions and settings.
	again := s.publish(duly.Message{ID: "a"}, duly.Message{ID: "b", Delay: time.Hour})
	same(s, "the position in the new topic", contract.PositionPartsOf(again[0].Position).Ordinal, 1)
	same(s, "the ID of the delayed message", again[1].ID, first[1].ID)
	same(s, "the configuration", s.info().Config, contract.DefaultTopicConfig())
	s.sameIDs("the groups", s.groups(), nil)
	same(s, "the numbers", s.info().Stats.Published, 2)
}

func publishTopicBound(s *scene) {
	s.onTopic("a").send("x")
	s.on("q").push(duly.Job{})
	s.refused("a third name by publish", s.onTopic("c").tryPublish(duly.Message{}).Err, duly.CodeFull)
	s.refused("a third name by configure", s.log().ConfigureTopic(s.ctx, duly.Q("c"), duly.TopicConfig{}),
		duly.CodeFull)
	_, err := s.log().CreateGroup(s.ctx, duly.Q("c@g"), "")
	s.refused("a third name by a group", err, duly.CodeFull)
	s.refused("a third name by push", s.on("c").try(duly.Job{}).Err, duly.CodeFull)
	// A group counts with its topic.
	s.onTopic("a").group("g")
	s.sameIDs("the topics", s.topics(), []string{"a"})

	// A destroyed topic no longer counts.
	s.must("destroy", s.log().DestroyTopic(s.ctx, duly.Q("a")))
	s.onTopic("c").send("x")
}

func publishBadConfig(s *scene) {
	s.send("a")
	s.topicUnchanged("a bad configuration", func() {
		for field, patch := range map[string]duly.TopicConfig{
			"shards":    {Shards: 3},
			"dedupe":    {Dedupe: time.Second - time.Millisecond},
			"keep":      {Keep: time.Microsecond},
			"max_age":   {MaxAge: -time.Second},
			"max_count": {MaxCount: -2},
			"max_bytes": {MaxBytes: -2},
			"overflow":  {Overflow: "block"},
		} {
			s.names("configure topic", s.log().ConfigureTopic(s.ctx, s.topic(), patch), duly.CodeInvalid, field)
		}

		s.names("a long dedupe", s.log().ConfigureTopic(s.ctx, s.topic(),
			duly.TopicConfig{Dedupe: 24*time.Hour + time.Millisecond}), duly.CodeInvalid, "dedupe")
		code := duly.CodeUnsupported
		if s.Sharded {
			code = duly.CodeInvalid
		}
		s.refused("shards of an existing topic",
			s.log().ConfigureTopic(s.ctx, s.topic(), duly.TopicConfig{Shards: 2}), code)
	})
}

func publishConfigured(s *scene) {
	full := duly.TopicConfig{
		Dedupe: time.Second, Keep: time.Minute, MaxAge: time.Hour, MaxCount: 5, MaxBytes: 1 << 20,
		Overflow: duly.OverflowDrop,
	}
	s.configureTopic(full)
	full.Shards = 1
	same(s, "the configuration", s.info().Config, full)
	// Fields that are not set do not change.
	s.configureTopic(duly.TopicConfig{MaxAge: duly.None, Dedupe: 24 * time.Hour})
	full.MaxAge, full.Dedupe = duly.None, 24*time.Hour
	same(s, "the configuration", s.info().Config, full)
}

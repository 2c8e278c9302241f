package enginetest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// theTopic is the topic of every test that needs only one.
const theTopic = "events"

// topicSubjects returns the tests of topics. They run only if the engine has topics.
func topicSubjects() []subject {
	return []subject{
		{"TopicPublish", topicPublishTests()},
		{"TopicDelayed", topicDelayedTests()},
		{"TopicDedupe", topicDedupeTests()},
		{"TopicGroup", topicGroupTests()},
		{"TopicReserve", topicReserveTests()},
		{"TopicSettle", topicSettleTests()},
		{"TopicOrder", topicOrderTests()},
		{"TopicFilter", topicFilterTests()},
		{"TopicRead", topicReadTests()},
		{"TopicSeek", topicSeekTests()},
		{"TopicRetention", topicRetentionTests()},
		{"TopicStats", topicStatsTests()},
		{"TopicFence", topicFenceTests()},
		{"TopicShards", topicShardTests()},
		{"TopicInput", topicInputTests()},
	}
}

// hasTopics reports whether the engines of the suite have topics. It returns false for a suite
// with sharded queues, because the topic tests set the shards themselves.
func (s Suite) hasTopics(t *testing.T) (yes bool) {
	if s.Shards > 1 {
		return false
	}
	t.Run("HasTopics", func(t *testing.T) {
		s.run(t, Options{}, func(t *testing.T, h *Harness) { play(t, h, func(s *scene) { yes = s.hasTopics() }) })
	})
	return yes
}

// hasTopics reports whether the namespace can have topics: the engine has topics, and the
// namespace is not moving to another engine.
func (s *scene) hasTopics() bool {
	s.Helper()
	topics, ok := s.Engine.(contract.Topics)
	if !ok {
		return false
	}

	// A call decides, because a server may have an engine without topics.
	_, err := topics.Topics(s.ctx, s.namespace, duly.PageParams{})
	if code := duly.CodeOf(err); code == duly.CodeUnsupported || code == duly.CodeConflict {
		return false
	}
	s.must("list of topics", err)
	return true
}

// log returns the engine's topics.
func (s *scene) log() contract.Topics {
	s.Helper()
	topics, ok := s.Engine.(contract.Topics)
	if !ok {
		s.Fatalf("the engine has no topics")
	}
	return topics
}

// topic returns the topic of the scene: its group's topic, or the test's.
func (s *scene) topic() duly.QueueRef {
	if topic, _, ok := s.ref().Group(); ok {
		return topic
	}

	// The queue of a new scene names no topic.
	if s.queue == theQueue {
		return duly.QueueRef{Namespace: s.namespace, Name: theTopic}
	}
	return s.ref()
}

// onTopic returns the scene on another topic.
func (s *scene) onTopic(topic string) *scene { return s.on(topic) }

// published calls Publish once. Messages without a topic go to the scene's topic.
func (s *scene) published(messages ...duly.Message) ([]duly.PublishResult, error) {
	sent := make([]duly.Message, len(messages))

	// The messages belong to the caller.
	for i, m := range messages {
		m.Namespace = s.namespace
		if m.Topic == "" {
			m.Topic = s.topic().Name
		}
		sent[i] = m
	}
	return s.log().Publish(s.ctx, sent)
}

// publish publishes messages and requires that each is created.
func (s *scene) publish(messages ...duly.Message) []duly.PublishResult {
	s.Helper()
	results, err := s.published(messages...)
	s.must("publish", err)
	if len(results) != len(messages) {
		s.Fatalf("a publish of %d messages has %d results, want one for each", len(messages), len(results))
	}
	for i, r := range results {
		s.must("publish", r.Err)
		if r.Status != duly.Created {
			s.Fatalf("message %d of the publish is answered %s, want created", i, r.Status)
		}
	}
	return results
}

// send publishes messages with these bodies in one call and returns their positions.
func (s *scene) send(bodies ...string) []string {
	s.Helper()
	return positionsOf(s.publish(messagesOf(bodies...)...))
}

// sendOver publishes n messages at each of several times and returns all positions.
func (s *scene) sendOver(times, n int) (positions []string) {
	s.Helper()
	for range times {
		positions = append(positions, s.send(make([]string, n)...)...)
		s.Advance(time.Millisecond)
	}
	return positions
}

// tryPublish publishes a message and returns its result. If the call fails, the result has the
// error of the call.
func (s *scene) tryPublish(m duly.Message) duly.PublishResult {
	s.Helper()
	results, err := s.published(m)
	if err != nil {
		return duly.PublishResult{Err: err}
	}
	if len(results) != 1 {
		s.Fatalf("a publish of one message has %d results, want 1", len(results))
	}
	return results[0]
}

// repeats checks that a publish returns exists with the first message's result.
func (s *scene) repeats(m duly.Message, first duly.PublishResult) {
	s.Helper()
	r := s.tryPublish(m)
	if r.Err != nil || r.Status != duly.Exists || r.Position != first.Position || r.ID != first.ID {
		s.Errorf("publish of %q returns %s, ID %q, position %s (error %v), want exists, ID %q, position %s", m.ID, r.Status,
			r.ID, r.Position, r.Err, first.ID, first.Position)
	}
}

func messagesOf(bodies ...string) []duly.Message {
	messages := make([]duly.Message, len(bodies))
	for i, body := range bodies {
		messages[i] = duly.Message{Body: []byte(body)}
	}
	return messages
}

// keyed returns a message with a key.
func keyed(key, body string) duly.Message { return duly.Message{Key: key, Body: []byte(body)} }

func positionsOf(results []duly.PublishResult) []string {
	positions := make([]string, len(results))
	for i, r := range results {
		positions[i] = r.Position.String()
	}
	return positions
}

func bodiesOf(ds []duly.Delivery) []string {
	bodies := make([]string, len(ds))
	for i, d := range ds {
		bodies[i] = string(d.Body)
	}
	return bodies
}

func listedBodies(jobs []duly.JobInfo) []string {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = string(j.Body)
	}
	return ids
}

// configureTopic changes the scene's topic.
func (s *scene) configureTopic(patch duly.TopicConfig) {
	s.Helper()
	s.must("configure topic", s.log().ConfigureTopic(s.ctx, s.topic(), patch))
}

// info returns the topic's configuration with its numbers.
func (s *scene) info() duly.TopicInfo {
	s.Helper()
	info, err := s.log().Topic(s.ctx, s.topic())
	s.must("topic", err)
	return info
}

// groupFrom creates a group and returns a scene that uses it. The test fails if the group exists.
func (s *scene) groupFrom(name string, from duly.From) *scene {
	s.Helper()
	g := s.on(duly.GroupName(s.topic().Name, name))
	existed, err := s.log().CreateGroup(s.ctx, g.ref(), from)
	s.must("create group", err)
	if existed {
		s.Fatalf("group %s existed before it was created", name)
	}
	return g
}

// group creates a group that starts at the first message.
func (s *scene) group(name string) *scene {
	s.Helper()
	return s.groupFrom(name, duly.FromStart)
}

// groups returns the groups of the scene's topic.
func (s *scene) groups() []string {
	s.Helper()
	return s.allNames(func(p duly.PageParams) (duly.NamePage, error) { return s.log().Groups(s.ctx, s.topic(), p) })
}

// topics returns the topics of the namespace.
func (s *scene) topics() []string {
	s.Helper()
	return s.allNames(func(p duly.PageParams) (duly.NamePage, error) { return s.log().Topics(s.ctx, s.namespace, p) })
}

// allNames returns all names of a list, read in pages of three.
func (s *scene) allNames(list func(p duly.PageParams) (duly.NamePage, error)) (names []string) {
	s.Helper()

	// Three, so that short lists have several pages too.
	p := duly.PageParams{Limit: 3}
	for {
		page, err := list(p)
		s.must("list of names", err)
		if len(page.Names) > p.Limit {
			s.Fatalf("a page with limit %d has %d names, want at most that many", p.Limit, len(page.Names))
		}
		names = append(names, page.Names...)
		if page.Next == "" {
			return names
		}
		p.Cursor = page.Next
	}
}

// stepTopic adds due messages to the log, trims it and steps every group.
func (s *scene) stepTopic() {
	s.Helper()
	s.on(s.topic().Name).step()
}

// seek moves the cursor of the scene's group.
func (s *scene) seek(to duly.From) contract.SeekResult {
	s.Helper()
	r, err := s.log().Seek(s.ctx, s.ref(), to)
	s.must("seek", err)
	return r
}

// readPage calls Read once.
func (s *scene) readPage(p contract.ReadParams) contract.ReadPage {
	s.Helper()
	page, err := s.log().Read(s.ctx, s.topic(), p)
	s.must("read", err)
	if page.Next == "" {
		s.Fatalf("a page of the log has no Next, want one")
	}
	return page
}

// readAll returns the log from a position on.
func (s *scene) readAll(from duly.From) (entries []contract.Entry) {
	s.Helper()
	for {
		page := s.readPage(contract.ReadParams{From: from, Limit: duly.MaxBatch})
		if len(page.Entries) == 0 {
			// The end of the log is an empty page, because next is never empty.
			return entries
		}
		entries, from = append(entries, page.Entries...), page.Next
	}
}

// logged checks that the log has exactly these messages.
func (s *scene) logged(bodies ...string) {
	s.Helper()
	got := []string{}
	for _, e := range s.readAll(duly.FromStart) {
		got = append(got, string(e.Body))
	}
	s.sameIDs("the messages of the log", got, append([]string{}, bodies...))
}

// delivers reserves all messages that are deliverable now. It fails unless they are exactly
// these, in this order.
func (s *scene) delivers(bodies ...string) []duly.Delivery {
	s.Helper()
	ds := s.takeAll()
	s.sameIDs("the messages delivered to "+s.queue, bodiesOf(ds), append([]string{}, bodies...))
	// The caller uses the deliveries by index, so stop if they are wrong.
	if s.Failed() {
		s.FailNow()
	}
	return ds
}

// groupStats returns the statistics that only a group has.
func (s *scene) groupStats() duly.GroupStats {
	s.Helper()
	st := s.stats()
	if st.Group == nil {
		s.Fatalf("stats of %s has no group part", s.queue)
	}
	return *st.Group
}

// sameStats compares the stats of a queue or a group.
func (s *scene) sameStats(what string, got, want duly.Stats) {
	s.Helper()
	if !reflect.DeepEqual(got, want) {
		s.Errorf("%s is %s, want %s", what, statsText(got), statsText(want))
	}
}

func statsText(st duly.Stats) string {
	group := st.Group

	// The pointer would print as an address.
	st.Group = nil
	if group == nil {
		return fmt.Sprintf("%+v", st)
	}
	return fmt.Sprintf("%+v %+v", st, *group)
}

// balanced checks that entered + replayed equals the sum of a group's other counters, its lag and
// its messages (C12.154).
func (s *scene) balanced() {
	s.Helper()
	st := s.stats()
	g, c, z := st.Group, st.Counters, st.Sizes
	// Every message that entered the group is counted once on the other side.
	have := g.Entered + g.Replayed
	held := z.Ready + z.Delayed + z.Blocked + z.Leased + z.Dead
	want := g.Lag + held + c.Acked + g.Filtered + g.Skipped + g.Missed + c.Deleted + c.Dropped
	if have != want {
		s.Errorf("group %s: entered + replayed is %d, the rest is %d: %s", s.ref(), have, want, statsText(st))
	}
}

// auditTopics checks the invariants of every topic of the namespace.
func (s *scene) auditTopics() {
	s.Helper()
	if !s.hasTopics() {
		return
	}
	for _, topic := range s.topics() {
		t := s.onTopic(topic)

		// Due messages and overdue trims come first, so that the numbers are at rest.
		t.step()
		t.auditLog()
		for _, group := range t.groups() {
			g := s.on(duly.GroupName(topic, group))
			g.balanced()
			g.listsAgree()
		}
	}
}

// auditLog checks that positions rise in every shard, and that the statistics agree with the log.
func (s *scene) auditLog() {
	s.Helper()
	entries := s.readAll(duly.FromStart)
	last := map[int]contract.PositionParts{}
	for _, e := range entries {
		p := contract.PositionPartsOf(e.Position)
		// Ordinals have no gaps, and times never decrease.
		if before, ok := last[p.Shard]; ok && (p.Ordinal != before.Ordinal+1 || p.Millis < before.Millis) {
			s.Errorf("topic %s: position %+v follows %+v, want the next ordinal and no earlier time", s.topic(), p, before)
		}
		last[p.Shard] = p
	}

	st := s.info().Stats
	same(s, "the messages of the stats", st.Messages, int64(len(entries)))
	same(s, "entered + canceled + delayed", st.Entered+st.Canceled+st.Delayed, st.Published)
	same(s, "trimmed + dropped + messages", st.Trimmed+st.Dropped+st.Messages, st.Entered)
}

// groupNames returns the groups of the namespace as queue names.
func (s *scene) groupNames() (names []string) {
	s.Helper()
	if !s.hasTopics() {
		return nil
	}
	for _, topic := range s.topics() {
		for _, group := range s.onTopic(topic).groups() {
			names = append(names, duly.GroupName(topic, group))
		}
	}
	return names
}

// dumpTopic returns all that the API shows of the namespace's topics, as text.
func (s *scene) dumpTopic() string {
	s.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "topics %q, queues %q\n", s.topics(), s.queues())
	for _, topic := range s.topics() {
		t := s.onTopic(topic)
		info := t.info()
		for i := range info.Stats.Floors {
			info.Stats.Floors[i].Since = time.Time{} // an engine may lose this time
		}

		fmt.Fprintf(&b, "topic %s %+v\n", topic, info)
		for _, e := range t.readAll(duly.FromStart) {
			fmt.Fprintf(&b, "logged %+v\n", e)
		}
		for _, m := range t.delayed() {
			fmt.Fprintf(&b, "delayed %+v\n", m)
		}

		for _, group := range t.groups() {
			g := s.on(duly.GroupName(topic, group))
			fmt.Fprintf(&b, "group %s\nconfig %+v\nstats %s\n", group, g.config(), statsText(g.stats()))
			g.dumpJobs(&b)
		}
	}
	return b.String()
}

// delayed returns the delayed messages of the topic, read in pages of two.
func (s *scene) delayed() (messages []duly.Message) {
	s.Helper()
	p := contract.DelayedParams{PageParams: duly.PageParams{Limit: 2}, Bodies: true}
	for {
		page, err := s.log().Delayed(s.ctx, s.topic(), p)
		s.must("list of delayed messages", err)
		messages = append(messages, page.Messages...)
		if page.Next == "" {
			return messages
		}
		p.Cursor = page.Next
	}
}

// topicUnchanged reports an error if f changes anything that the API shows of a topic.
func (s *scene) topicUnchanged(what string, f func()) {
	s.Helper()
	before := s.dumpTopic()
	f()
	if after := s.dumpTopic(); after != before {
		s.Errorf("%s changed the state.\nbefore:\n%s\nafter:\n%s", what, before, after)
	}
}

package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// topicShardTests returns the tests for engines that can split a topic into several shards.
func topicShardTests() []test {
	return []test{
		{"NumberIsAPowerOfTwoAndFixed", []string{"C12.26", "C12.27"}, Options{}, topicShardsNumber},
		{"AreChosenByTheKey", []string{"C12.28", "C12.37"}, Options{}, topicShardsByKey},
		{"CallWithoutKeysUsesOneShard", []string{"C12.29", "C12.22", "C12.23"}, Options{}, topicShardsAny},
		{"AreChosenByTheIDWithDedupe", []string{"C12.30", "C12.63"}, Options{}, topicShardsDedupe},
		{"DelayedMessagesAreFoundInEveryShard", []string{"C12.51", "C12.19", "C12.49"}, Options{}, topicShardsDelayed},
		{"EachEnforcesItsOwnBound", []string{"C12.23", "C12.24", "C12.127"}, Options{}, topicShardsFull},
		{"ReserveReadsAllFromARandomStart", []string{"C12.90", "C12.109", "C12.98"}, Options{}, topicShardsReserve},
		{"MaxHeldIsDivided", []string{"C12.104"}, Options{}, topicShardsMaxHeld},
		{"KeyOrderIsKeptAcrossShards", []string{"C12.99"}, Options{}, topicShardsOrder},
		{"ReadMergesShardsByPosition", []string{"C12.142", "C12.39"}, Options{}, topicShardsRead},
		{"SeekByPositionUsesItsTimeInOtherShards", []string{"C12.146", "C12.70"}, Options{}, topicShardsSeek},
		{"AddUpInStats", []string{"C12.151", "C12.156", "C12.134", "C12.159"}, Options{}, topicShardsStats},
		{"EachShardWakesAWaiter", []string{"C12.91"}, Options{}, topicShardsWake},
		{"AreDestroyedWithTheirTopic", []string{"C12.31", "C12.33"}, Options{}, topicShardsDestroyed},
		{"BoundBelowTheNumberOfShardsIsInvalid", []string{"C12.26", "C12.123"}, Options{}, topicShardsBounds},
	}
}

// overTopic gives the scene's topic several shards.
func (s *scene) overTopic(patch duly.TopicConfig) {
	s.Helper()
	if !s.Sharded {
		s.Skip("the engine keeps a topic in one shard")
	}
	patch.Shards = manyShards
	s.configureTopic(patch)
}

// keyOf returns a key whose messages go to this shard.
func keyOf(shard int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key-", i); contract.KeyShard(key, manyShards) == shard {
			return key
		}
	}
}

// sendEach publishes one message into each shard, in separate calls.
func (s *scene) sendEach(body string) (positions []string) {
	s.Helper()
	for shard := range manyShards {
		positions = append(positions, s.publish(keyed(keyOf(shard), body))[0].Position.String())
	}
	return positions
}

func shardOfPosition(n duly.Position) int { return contract.PositionPartsOf(n).Shard }

func topicShardsNumber(s *scene) {
	s.names("three shards", s.log().ConfigureTopic(s.ctx, s.topic(), duly.TopicConfig{Shards: 3}), duly.CodeInvalid,
		"shards")
	s.names("512 shards", s.log().ConfigureTopic(s.ctx, s.topic(), duly.TopicConfig{Shards: 512}), duly.CodeInvalid,
		"shards")
	if !s.Sharded {
		// An engine with one shard accepts only one shard.
		s.refused("two shards", s.log().ConfigureTopic(s.ctx, s.topic(), duly.TopicConfig{Shards: 2}),
			duly.CodeUnsupported)
		s.sameIDs("the topics", s.topics(), nil)
		s.send("a")
		same(s, "the shards", s.info().Config.Shards, 1)
		return
	}

	s.overTopic(duly.TopicConfig{})
	same(s, "the shards", s.info().Config.Shards, manyShards)
	s.configureTopic(duly.TopicConfig{Shards: manyShards, Keep: time.Hour})
	// The number of shards is fixed when the topic is created.
	s.names("another number", s.log().ConfigureTopic(s.ctx, s.topic(), duly.TopicConfig{Shards: 2 * manyShards}),
		duly.CodeInvalid, "shards")
	same(s, "the shards of a group", s.group("g").config().Shards, manyShards)
}

func topicShardsByKey(s *scene) {
	s.overTopic(duly.TopicConfig{})
	for i := range 50 {
		key := fmt.Sprint("account ", i)
		r := s.publish(keyed(key, "x"), duly.Message{Key: key, ID: fmt.Sprint("id-", i)})
		for _, r := range r {
			same(s, "the shard of "+key, shardOfPosition(r.Position), contract.KeyShard(key, manyShards))
		}
	}
}

func topicShardsAny(s *scene) {
	s.overTopic(duly.TopicConfig{})
	seen := map[int]bool{}
	for i := range 200 {
		messages := messagesOf("a", "b", "c")
		// A message with a key goes to the shard of its key. It does not affect the other messages.
		messages = slices.Insert(messages, 1, keyed(keyOf(i%manyShards), "k"))
		results := s.publish(messages...)
		first, second, third := contract.PositionPartsOf(results[0].Position), contract.PositionPartsOf(results[2].Position),
			contract.PositionPartsOf(results[3].Position)

		if first.Shard != second.Shard || second.Shard != third.Shard {
			s.Errorf("messages of one call without keys went to the shards %d, %d and %d, want one shard", first.Shard, second.Shard,
				third.Shard)
		}
		same(s, "the ordinal of the last of a block", third.Ordinal, second.Ordinal+1)
		// The shard is random, so two different shards are enough.
		if seen[first.Shard] = true; len(seen) > 1 && i > 20 {
			return
		}
	}
	s.Errorf("200 calls went to the shards %v, want every shard", seen)
}

func topicShardsDedupe(s *scene) {
	s.overTopic(duly.TopicConfig{Dedupe: time.Hour})
	for i := range 30 {
		m := duly.Message{ID: fmt.Sprint("id-", i)}
		if i%3 == 0 {
			m.ID = duly.NewNumber().String()
		}
		first := s.publish(m)[0]
		same(s, "the shard of the ID "+m.ID, shardOfPosition(first.Position), contract.KeyShard(m.ID, manyShards))
		s.repeats(m, first)
	}

	// Each shard stores only its own IDs, so messages with different keys may share an ID.
	a := s.publish(duly.Message{ID: "order-1", Key: keyOf(1)})[0]
	b := s.publish(duly.Message{ID: "order-1", Key: keyOf(2)})[0]
	s.repeats(duly.Message{ID: "order-1", Key: keyOf(1)}, a)
	s.repeats(duly.Message{ID: "order-1", Key: keyOf(2)}, b)
}

func topicShardsDelayed(s *scene) {
	s.overTopic(duly.TopicConfig{})
	type named struct{ key, id string }
	var all []named
	for i := range 3 * manyShards {
		m := duly.Message{Delay: time.Duration(1+i%5) * time.Second}
		// Own IDs, keys and made IDs, which all decide the shard differently.
		switch i % 3 {
		case 0:
			m.ID = fmt.Sprint("own-", i)
		case 1:
			m.Key = fmt.Sprint("k", i)
		case 2:
			m.ID = duly.NewNumber().String()
		}
		all = append(all, named{m.Key, s.publish(m)[0].ID})
	}

	same(s, "the listed", len(s.delayed()), len(all))
	for _, n := range all {
		m, err := s.log().DelayedMessage(s.ctx, s.topic(), n.key, n.id)
		s.must("get of a delayed message", err)
		same(s, "the ID", m.ID, n.id)
	}

	// The change of the window must not lose a delayed message.
	s.configureTopic(duly.TopicConfig{Dedupe: time.Minute})
	for _, n := range all[:6] {
		s.must("cancel", s.log().CancelDelayed(s.ctx, s.topic(), n.key, n.id))
	}

	s.Advance(5 * time.Second)
	s.stepTopic()
	entries := s.readAll(duly.FromStart)
	same(s, "the messages that entered", len(entries), len(all)-6)
	for _, e := range entries {
		same(s, "entry of a canceled message", slices.Contains(all[:6], named{e.Key, e.ID}), false)
	}
}

func topicShardsFull(s *scene) {
	// Two messages in the first shard, and one in each of the others.
	s.overTopic(duly.TopicConfig{MaxCount: manyShards + 1})
	// The group needs all messages, so none can be dropped.
	s.group("g")
	var messages []duly.Message
	for range 2 {
		for shard := range manyShards {
			messages = append(messages, keyed(keyOf(shard), "x"))
		}
	}
	results, err := s.published(messages...)
	s.must("publish", err)
	for i, r := range results {
		// Only the first shard has room for a second message.
		if i < manyShards || i == manyShards {
			s.must(fmt.Sprintf("message %d", i), r.Err)
			continue
		}
		s.refused(fmt.Sprintf("message %d", i), r.Err, duly.CodeFull)
	}
	same(s, "the messages", s.info().Stats.Messages, manyShards+1)
}

func topicShardsReserve(s *scene) {
	s.overTopic(duly.TopicConfig{})
	g := s.group("g")
	for range 20 {
		s.sendEach("x")
	}

	ds := g.reserve(duly.MaxBatch)
	same(s, "the messages of all shards", len(ds), 20*manyShards)
	last := map[int]string{}
	var turns []int

	for _, d := range ds {
		shard := g.shardOf(d)
		same(s, "the shard of the ID", contract.ShardOf(d.ID, manyShards), shard)
		if d.ID <= last[shard] {
			s.Errorf("shard %d delivered %s after %s", shard, d.ID, last[shard])
		}
		last[shard] = d.ID
		// Count consecutive messages of one shard as one turn.
		if n := len(turns); n == 0 || turns[n-1] != shard {
			turns = append(turns, shard)
		}
	}

	for i, shard := range turns {
		if shard != (turns[0]+i)%manyShards {
			s.Errorf("the shards were read in the order %v, want each in turn", turns)
			break
		}
	}

	for _, d := range ds {
		g.release(d)
	}

	// The start is random, so two different shards are enough.
	begins := map[int]bool{}
	for range 20 * manyShards {
		if begins[g.shardOf(g.take())] = true; len(begins) > 1 {
			return
		}
	}
	s.Errorf("all calls began at shard %v, want different shards", begins)
}

func topicShardsMaxHeld(s *scene) {
	s.overTopic(duly.TopicConfig{})
	g := s.group("g")
	s.names("a bound below the shards", g.Engine.Configure(g.ctx, g.ref(),
		duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: manyShards - 1}}), duly.CodeInvalid, "max_held")
	g.configure(duly.QueueConfig{Group: duly.GroupConfig{MaxHeld: manyShards + 3}})
	for range 5 {
		s.sendEach("x")
	}
	// The remainder of the bound goes to the first shards.
	same(s, "the messages held", g.perShard(g.takeAll()), [manyShards]int{2, 2, 2, 1, 1, 1, 1, 1})
	same(s, "the bound", g.groupStats().AtMaxHeld, true)
}

func topicShardsOrder(s *scene) {
	s.overTopic(duly.TopicConfig{})
	g := s.ordered("g")
	for i := range 3 {
		s.sendEach(fmt.Sprint(i))
	}
	// Each round delivers the next message of every key.
	for i := range 3 {
		ds := g.takeAll()
		same(s, "the messages of all keys", len(ds), manyShards)
		for _, d := range ds {
			same(s, "the message of the key", string(d.Body), fmt.Sprint(i))
		}
		g.ackAll(ds)
	}
}

func topicShardsRead(s *scene) {
	s.overTopic(duly.TopicConfig{})
	var want []string
	for i := range 5 {
		want = append(want, s.sendEach(fmt.Sprint(i))...)
		s.Advance(time.Millisecond)
	}

	slices.Sort(want)
	from, got := duly.FromStart, []string{}
	for {
		page := s.readPage(contract.ReadParams{From: from, Limit: 7})
		if len(page.Entries) == 0 {
			break
		}
		for _, e := range page.Entries {
			got = append(got, e.Position.String())
		}
		from = page.Next
	}
	s.sameIDs("the messages of all shards", got, want)

	// The next position continues in all shards.
	more := s.sendEach("more")
	slices.Sort(more)
	got = got[:0]
	for _, e := range s.readAll(from) {
		got = append(got, e.Position.String())
	}
	s.sameIDs("the messages behind the end", got, more)

	// Reads from a position. The position's shard begins there, the other shards at its entry time.
	got = got[:0]
	for _, e := range s.readAll(duly.From(want[3*manyShards])) {
		got = append(got, string(e.Body))
	}
	if text := strings.Join(got, ""); strings.Contains(text, "2") || len(got) < 2*manyShards {
		s.Errorf("a read from the first message of round 3 returns %q, want at least %d messages and none of round 2",
			text, 2*manyShards)
	}
}

func topicShardsSeek(s *scene) {
	s.overTopic(duly.TopicConfig{Keep: 1000 * time.Hour})
	g := s.group("g")
	var rounds [][]string
	for i := range 4 {
		rounds = append(rounds, s.sendEach(fmt.Sprint(i)))
		s.Advance(time.Second)
	}
	// Both messages enter at the same time.
	extra := s.publish(keyed(keyOf(3), "extra"), keyed(keyOf(3), "last"))[1].Position

	g.ackAll(g.takeAll())
	// The shard of the message continues at the message's position. The other shards begin at its
	// time.
	r := g.seek(duly.From(rounds[2][5]))
	same(s, "the result", r, contract.SeekResult{Replayed: 2*manyShards + 2})
	bodies := bodiesOf(g.takeAll())
	slices.Sort(bodies)
	same(s, "the messages from round 2 on", strings.Join(bodies, ""),
		strings.Repeat("2", manyShards)+strings.Repeat("3", manyShards)+"extralast")

	g.seek(duly.FromPosition(extra))
	g.delivers("last")
	h := s.groupFrom("h", duly.From(rounds[3][0]))
	same(s, "the lag of a group from a position", h.groupStats().Lag, manyShards+2)

	// The position after the last one does not exist yet.
	parts := contract.PositionPartsOf(extra)
	parts.Ordinal++
	s.topicUnchanged("a seek beyond the end of one shard", func() {
		_, err := s.log().Seek(s.ctx, g.ref(), duly.FromPosition(parts.Position()))
		s.names("a seek beyond the end of one shard", err, duly.CodeInvalid, "from")
	})
	parts.Shard = manyShards // the topic has no such shard
	_, err := s.log().Seek(s.ctx, g.ref(), duly.FromPosition(parts.Position()))
	s.refused("a seek to a position in no shard", err, duly.CodeInvalid)
}

func topicShardsStats(s *scene) {
	s.overTopic(duly.TopicConfig{})
	g := s.group("g")
	positions := append(s.sendEach("a"), s.sendEach("b")...)
	slices.Sort(positions)
	st := s.info().Stats
	same(s, "messages", st.Messages, 2*manyShards)
	same(s, "the first", st.First.String(), positions[0])
	same(s, "the last", st.Last.String(), positions[len(positions)-1])
	same(s, "the floors", len(st.Floors), manyShards)

	// Every shard has a floor, at which the same group is behind.
	for i, f := range st.Floors {
		same(s, "the shard of the floor", f.Shard, i)
		same(s, "the group at the floor", f.Group, "g")
		same(s, "the messages that only this group needs", f.Alone, 2)
	}

	same(s, "the lag", g.groupStats().Lag, 2*manyShards)
	ds := g.takeAll()
	g.bury(ds[0], "no")
	g.snooze(ds[1], time.Hour)
	g.sizes(duly.Sizes{Dead: 1, Delayed: 1, Leased: 2*manyShards - 2})
	var shards []int
	for _, j := range g.list(duly.StateLeased) {
		shards = append(shards, contract.ShardOf(j.ID, manyShards))
	}

	same(s, "the list is sorted by shard", slices.IsSorted(shards), true)
	same(s, "the messages purged", g.purge(duly.StateLeased), 2*manyShards-2)
}

func topicShardsWake(s *scene) {
	s.overTopic(duly.TopicConfig{})
	g := s.group("g")
	for shard := range manyShards {
		woken := make(chan bool, 1)
		go func() {
			ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{g.queue}, Timeout: time.Minute})
			woken <- ready && err == nil
		}()
		// The waiter must wait before the message is published.
		s.Quiet()
		s.publish(keyed(keyOf(shard), "x"))
		same(s, fmt.Sprintf("a wait for a message of shard %d", shard), <-woken, true)
		g.ack(g.take())
	}
}

func topicShardsDestroyed(s *scene) {
	s.overTopic(duly.TopicConfig{})
	g := s.group("g")
	s.sendEach("x")
	ds := g.takeAll()
	s.must("destroy", s.log().DestroyTopic(s.ctx, s.topic()))
	s.overTopic(duly.TopicConfig{})
	s.group("g")
	s.sendEach("x") // at the same time, so that the positions are equal
	s.topicUnchanged("old receipts", func() {
		for _, d := range ds {
			g.refusesReceipt(d.Receipt)
		}
	})
	same(s, "the messages of the new topic", len(g.takeAll()), manyShards)
}

func topicShardsBounds(s *scene) {
	if !s.Sharded {
		s.Skip("the engine keeps a topic in one shard")
	}
	for field, patch := range map[string]duly.TopicConfig{
		"max_count": {Shards: manyShards, MaxCount: manyShards - 1},
		"max_bytes": {Shards: manyShards, MaxBytes: manyShards - 1},
	} {
		s.names("a bound below the number of shards", s.log().ConfigureTopic(s.ctx, s.topic(), patch),
			duly.CodeInvalid, field)
	}
	s.sameIDs("the topics", s.topics(), nil)
}

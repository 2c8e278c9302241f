package redisengine_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/hashslot"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// everything returns all data of a server: keys and values alternately.
func everything(t testing.TB, server *redistest.Server) (all []any) {
	t.Helper()
	for _, key := range server.Must("KEYS", "*").([]any) {
		all = append(all, key, server.Must("DUMP", key))
	}
	return all
}

// goBack restores earlier data of a server, as a failover that lost the latest writes or a
// restored backup does.
func goBack(t testing.TB, server *redistest.Server, all []any) {
	t.Helper()
	const script = `redis.call('FLUSHALL') for i = 1, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end`
	server.Must(append([]any{"EVAL", script, 0}, all...)...)
}

// onServer runs the suite on a server that is empty at the start of each test.
func onServer(t *testing.T, server *redistest.Server) enginetest.Suite {
	return suite(t, func(testing.TB) string {
		server.Must("FLUSHALL")
		return server.URL()
	}, 1)
}

// TestStaleReceiptsAfterAFlush runs the tests of stale receipts, with a flush of the server between
// the delivery and the settle. C12.82, C12.173
func TestStaleReceiptsAfterAFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	onServer(t, server).StaleReceipts(t, nil, func(_ testing.TB, h *enginetest.Harness) *enginetest.Harness {
		server.Must("FLUSHALL")
		return h
	})
}

// TestStaleReceiptsAfterALostTail runs the tests of stale receipts with a server that lost its
// latest writes. C12.82, C12.173
func TestStaleReceiptsAfterALostTail(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	var before []any
	onServer(t, server).StaleReceipts(t,
		func(t testing.TB, _ *enginetest.Harness) { before = everything(t, server) },
		func(t testing.TB, h *enginetest.Harness) *enginetest.Harness {
			goBack(t, server, before)
			return h
		})
}

// topicRules is a topic with a group on a private server.
type topicRules struct {
	*testing.T
	server *redistest.Server
	clock  *clock.Fake
	e      *redisengine.Engine
}

func newTopicRules(t *testing.T, shards int, from duly.From) *topicRules {
	r := &topicRules{T: t, server: redistest.Single(t), clock: clock.NewFake()}
	r.e = openOn(t, func(testing.TB) string { return r.server.URL() }, r.clock, enginetest.Options{})
	t.Cleanup(func() { r.e.Close() })
	must(t, r.e.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{Shards: shards}))
	if from != "" {
		r.group(from)
	}
	return r
}

func (r *topicRules) group(from duly.From) {
	r.Helper()
	_, err := r.e.CreateGroup(r.Context(), duly.Q("t@g"), from)
	must(r, err)
}

// publish publishes a message for each body, which is also its key.
func (r *topicRules) publish(bodies ...string) (positions []duly.Position) {
	r.Helper()
	messages := make([]duly.Message, len(bodies))
	for i, body := range bodies {
		messages[i] = duly.Message{Topic: "t", Body: []byte(body), Key: body}
	}
	results, err := r.e.Publish(r.Context(), messages)
	must(r, err)
	for _, result := range results {
		must(r, result.Err)
		positions = append(positions, result.Position)
	}
	return positions
}

func (r *topicRules) reserve() []duly.Delivery {
	r.Helper()
	ds, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{"t@g"}, Max: 1000})
	must(r, err)
	return ds
}

func (r *topicRules) ack(ds []duly.Delivery) {
	r.Helper()
	outcomes := make([]duly.SettleRequest, len(ds))
	for i, d := range ds {
		outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
	}
	errs, err := r.e.Settle(r.Context(), "", outcomes)
	must(r, errors.Join(append(errs, err)...))
}

func (r *topicRules) delivers(bodies ...string) {
	r.Helper()
	got := map[string]bool{}
	for _, d := range r.reserve() {
		got[string(d.Body)] = true
	}
	for _, body := range bodies {
		if !got[body] {
			r.Errorf("the group does not deliver %q", body)
		}
	}
	if len(got) != len(bodies) {
		r.Errorf("the group delivers %v, want %v", got, bodies)
	}
}

// TestMessagesOfALostTailAreDeliveredAgain checks that messages acked in the lost interval are delivered again. The
// lost positions are unknown, and can occur again only if clock and ordinal match.
//
// C12.172, C12.173, C12.40
func TestMessagesOfALostTailAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	r := newTopicRules(t, 1, duly.FromStart)
	r.publish("a", "b")
	before := everything(t, r.server)
	r.ack(r.reserve())
	lost := r.publish("lost", "lost")
	page, err := r.e.Read(t.Context(), duly.Q("t"), contract.ReadParams{Limit: 3})
	must(t, err)
	goBack(t, r.server, before)

	_, err = r.e.Read(t.Context(), duly.Q("t"), contract.ReadParams{From: duly.FromPosition(lost[1]), Limit: 1})
	if !errors.Is(err, duly.ErrConflict) || !strings.Contains(err.Error(), "the log ends at") {
		t.Errorf("Read from a lost position: %v, want a conflict that says where the log ends", err)
	}
	if _, err := r.e.Seek(t.Context(), duly.Q("t@g"), duly.FromPosition(lost[1])); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("Seek to a lost position: %v, want invalid", err)
	}
	r.delivers("a", "b")

	if again := r.publish("new"); again[0] != lost[0] {
		t.Errorf("at the same time the position is %s, want that of the lost message: %s", again[0], lost[0])
	}
	goBack(t, r.server, before)
	r.clock.Advance(time.Millisecond)
	if again := r.publish("new"); again[0] == lost[0] {
		t.Errorf("at a later time the position %s of a lost message occurs again", lost[0])
	}
	r.publish("newer")
	for _, from := range []duly.From{duly.FromPosition(lost[0]), page.Next} {
		if _, err := r.e.Read(t.Context(), duly.Q("t"), contract.ReadParams{From: from}); !errors.Is(err, duly.ErrConflict) {
			t.Errorf("Read from %s of the lost interval, which has messages again: %v, want a conflict", from, err)
		}
	}
}

// TestShardAddsAMissingGroup checks that a shard adds a group that it lacks, with the time of the
// group's creation.
//
// C12.74
func TestShardAddsAMissingGroup(t *testing.T) {
	t.Parallel()
	r := newTopicRules(t, 2, "")
	r.publish("1", "2", "3", "4") // the order keys of the messages are in both shards
	r.clock.Advance(time.Second)
	r.group(duly.FromEnd)
	r.publish("5", "6", "7", "8")
	for i := range 2 {
		tag := store.ShardTag("duly", duly.QueueRef{Namespace: duly.DefaultNamespace, Name: "t"}, i)
		if r.server.Must("HDEL", tag+"heads", "g") != int64(1) {
			t.Fatalf("shard %d has no group: %v", i, r.server.Must("KEYS", "*"))
		}
	}
	r.delivers("5", "6", "7", "8")
}

// TestResetShardAddsItsGroupsAtTheStart checks that a shard which lost all data adds the group at
// its start.
//
// C12.75
func TestResetShardAddsItsGroupsAtTheStart(t *testing.T) {
	t.Parallel()
	r := newTopicRules(t, 2, duly.FromEnd)
	r.publish("1", "2", "3", "4")
	r.ack(r.reserve())
	// The new messages then have earlier times than the group.
	r.clock.Step(-time.Hour)
	for _, key := range r.server.Must("KEYS", "*{default/t/*").([]any) {
		r.server.Must("DEL", key)
	}
	r.publish("5", "6", "7", "8")
	r.delivers("5", "6", "7", "8")
}

// TestShardOfATopicHasOneHashTag checks the hash tags of a topic's keys. C12.169
func TestShardOfATopicHasOneHashTag(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	openTopicRig(t, server, "x")
	var slots []int
	kinds := map[string]bool{}
	for _, key := range server.Must("KEYS", "x:{default/t/*").([]any) {
		slots = append(slots, int(hashslot.Of(fmt.Sprint(key))))
		kinds[fmt.Sprint(key)[strings.LastIndex(fmt.Sprint(key), ":")+1:]] = true
	}
	for _, kind := range []string{"log", "heads", "config", "held", "blocks", "copies", "busy", "records", "ids"} {
		if !kinds[kind] {
			t.Errorf("the shard has no key %s", kind)
		}
	}
	for _, slot := range slots {
		if slot != slots[0] {
			t.Errorf("the keys of one shard are in the slots %v", slots)
			break
		}
	}
}

// TestInvisibleMessagesAreFreedInNodes checks that the stream frees whole nodes, and that at rest
// at most two nodes of invisible messages are left.
//
// C12.137, C12.139
func TestInvisibleMessagesAreFreedInNodes(t *testing.T) {
	t.Parallel()
	r := newTopicRules(t, 1, duly.FromStart)
	node := 100 // the server's default for stream-node-max-entries
	for range 10 {
		r.publish(strings.Split(strings.Repeat("m ", 1000), " ")[:1000]...)
	}
	for ds := r.reserve(); len(ds) > 0; ds = r.reserve() {
		r.ack(ds[:len(ds)-1])
		r.ack(ds[len(ds)-1:])
		info, err := r.e.Topic(t.Context(), duly.Q("t"))
		must(t, err)
		stored := int(r.server.Must("XLEN", "duly:{default/t/0}:log").(int64))
		if invisible := stored - int(info.Stats.Messages); invisible < 0 || invisible > 2*node {
			t.Errorf("the stream has %d messages, of which %d are invisible: want at most two nodes", stored, invisible)
		}
		if (10_000-stored)%node != 0 {
			t.Errorf("%d messages were freed, want whole nodes", 10_000-stored)
		}
	}
}

// TestDroppedMessagesAreFreed checks that messages which a limit dropped, and which entered at
// many different times, are freed as well.
//
// C12.139
func TestDroppedMessagesAreFreed(t *testing.T) {
	t.Parallel()
	r := newTopicRules(t, 1, duly.FromStart)
	must(t, r.e.ConfigureTopic(t.Context(), duly.Q("t"), duly.TopicConfig{MaxCount: 50, Overflow: duly.OverflowDrop}))
	for range 10 {
		r.publish(strings.Split(strings.Repeat("m ", 1000), " ")[:1000]...)
		r.clock.Advance(time.Millisecond)
	}
	if stored := r.server.Must("XLEN", "duly:{default/t/0}:log").(int64); stored > 50+2*100 {
		t.Errorf("the stream has %d messages, of which 50 are visible: want at most two nodes more", stored)
	}
}

// TestCallsReadFewUndeliveredBytes checks that a call which skips or returns messages without
// delivering them returns after 8 MiB.
func TestCallsReadFewUndeliveredBytes(t *testing.T) {
	t.Parallel()
	r := newTopicRules(t, 1, duly.FromStart)
	large := strings.Repeat("m", 1<<20)
	for range 10 {
		_, err := r.e.Publish(t.Context(), []duly.Message{{Topic: "t", Body: []byte(large)},
			{Topic: "t", Body: []byte(large)}})
		must(t, err)
	}

	reserveOne := func() {
		_, err := r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"t@g"}, Max: 1})
		must(t, err)
	}
	for range 7 {
		reserveOne()
	}
	r.clock.Advance(time.Hour)
	if more, err := r.e.Step(t.Context(), duly.Q("t@g")); more || err != nil {
		t.Errorf("a step over 7 leases of 1 MiB ended early: %t, %v", more, err)
	}
	for range 20 {
		reserveOne()
	}
	r.clock.Advance(time.Hour)
	if more, err := r.e.Step(t.Context(), duly.Q("t@g")); !more || err != nil {
		t.Errorf("a step over 20 leases of 1 MiB did not end early: %t, %v", more, err)
	}

	_, err := r.e.CreateGroup(t.Context(), duly.Q("t@few"), duly.FromStart)
	must(t, err)
	must(t, r.e.Configure(t.Context(), duly.Q("t@few"), duly.QueueConfig{Group: duly.GroupConfig{Filter: "type=paid"}}))
	r.server.Must("CONFIG", "RESETSTAT")
	_, err = r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"t@few"}, Max: 1})
	must(t, err)
	calls := regexp.MustCompile(`(?m)^cmdstat_fcall:calls=(\d+)`).FindStringSubmatch(fmt.Sprint(r.server.Must("INFO",
		"commandstats")))
	if len(calls) == 0 || calls[1] == "1" {
		t.Errorf("a Reserve that skips 20 MiB made the calls %v, want several", calls)
	}
}

// TestReadFetchesOnePage checks that a Read of a topic with many shards fetches one page in total,
// not one from each shard.
func TestReadFetchesOnePage(t *testing.T) {
	t.Parallel()
	r := newTopicRules(t, 4, "")
	messages := make([]duly.Message, 16)
	for i := range messages {
		messages[i] = duly.Message{Topic: "t", Key: string(rune('a' + i)), Body: make([]byte, 1<<19)}
	}
	for range 4 {
		_, err := r.e.Publish(t.Context(), messages)
		must(t, err)
	}

	sent := func() (n int64) {
		text := fmt.Sprint(r.server.Must("INFO", "stats"))
		_, after, _ := strings.Cut(text, "total_net_output_bytes:")
		_, err := fmt.Sscan(after, &n)
		must(t, err)
		return n
	}
	read, before := 0, sent()
	for from := duly.FromStart; read < 4*len(messages); {
		page, err := r.e.Read(t.Context(), duly.Q("t"), contract.ReadParams{From: from, Limit: 1000})
		must(t, err)
		if len(page.Entries) == 0 {
			t.Fatalf("the pages end after %d messages", read)
		}
		now := sent()
		if n := now - before; n > 8<<20+4<<19+1<<16 {
			t.Errorf("a page of %d messages fetched %d bytes, want at most 8 MiB and a message of each shard",
				len(page.Entries), n)
		}
		read, from, before = read+len(page.Entries), page.Next, now
	}
}

// TestScriptCreatesThePosition checks that the script creates the position, by the server's
// clock.
//
// C12.36
func TestScriptCreatesThePosition(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	e := open(t, withPrefix(server.URL(), prefix))
	millis := func() (ms int64) {
		now := server.Must("TIME").([]any)
		var s, us int64
		_, err := fmt.Sscan(fmt.Sprint(now[0], " ", now[1]), &s, &us)
		must(t, err)
		return s*1000 + us/1000
	}
	before := millis()
	results, err := e.Publish(t.Context(), []duly.Message{{Topic: "t"}})
	must(t, err)
	parts := contract.PositionPartsOf(results[0].Position)
	if parts.Millis < before || parts.Millis > millis() {
		t.Errorf("the position has the time %d, want one between %d and %d", parts.Millis, before, millis())
	}
	entry := server.Must("XREVRANGE", prefix+":{default/t/0}:log", "+", "-", "COUNT", 1).([]any)[0].([]any)
	if want := fmt.Sprintf("%d-%d", parts.Millis, parts.Ordinal); entry[0] != want {
		t.Errorf("the entry of the stream is %s, want %s as the position says", entry[0], want)
	}
}

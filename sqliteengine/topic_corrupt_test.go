package sqliteengine

import (
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// Ways to damage topics and groups. The numbers are from the contract's table. Where
// the layout excludes a fault, a comment says why.
var topicDamages = []damage{
	{"1 PointerWithoutMessage", "DELETE FROM messages WHERE ordinal = (SELECT cursor FROM topic_cursors)",
		faultMessageGone, ""},
	{"1 LogLost", "DELETE FROM messages", faultMessageGone, ""},
	{"1 HeldBeyondCursor", "UPDATE topic_cursors SET cursor = cursor - 2", faultBeyondCursor, ""},
	{"2 MessageInTwoStates", "INSERT INTO jobs SELECT * FROM jobs WHERE state = 4", "", "UNIQUE"},
	{"2 DeadAndHeldNumber", "UPDATE jobs SET state = 5 WHERE state = 2", faultCopyNumber, ""},
	{"2 MessageTwiceInLog", "INSERT INTO messages SELECT * FROM messages", "", "UNIQUE"},
	{"3 CursorBeyondLog", "UPDATE topic_cursors SET cursor = cursor + 1000", faultCursorAhead, ""},
	{"4 CursorBelowLog", "UPDATE topic_cursors SET cursor = -5", faultCursorBehind, ""},
	{"4 LogBeginsLater", "DELETE FROM messages WHERE ordinal = (SELECT first FROM topic_logs)", faultLogNumbers, ""},
	{"5 GroupWithoutCursor", "DELETE FROM topic_cursors", faultGroupRows, ""},
	{"5 GroupWithoutSettings", "DELETE FROM topic_groups", faultGroupRows, ""},
	{"5 TopicWithoutSettings", "DELETE FROM topics", faultTopicRows, ""},
	{"5 TopicWithoutNumbers", "DELETE FROM topic_logs", faultTopicRows, ""},
	{"6 SettingsOfNoGroup",
		"INSERT INTO topic_groups SELECT 999, order_keys, max_held, filter, idle, target FROM topic_groups",
		faultStrayRows, ""},
	{"6 CursorOfNoGroup", "INSERT INTO topic_cursors SELECT 999, start, cursor, reserved, 0, 0, 0, 0 FROM topic_cursors", faultStrayRows, ""},
	{"6 GroupWithoutTopic", "UPDATE queues SET name = 'other@g' WHERE kind = 2", faultGroupTopic, ""},
	{"6 MessagesOfNoTopic", "INSERT INTO messages SELECT 999, ordinal, ms, entered, id, key, headers, body FROM messages", faultStray, ""},
	{"7 BusyKeyWithoutHolder", "UPDATE heads SET number = zeroblob(16)", faultKeyStray, ""},
	{"7 BlockedByNobody", "DELETE FROM heads", faultBlockedByNone, ""},
	{"8 DeadWithoutCopy", "UPDATE jobs SET rules = NULL WHERE state = 5", faultCopyMissing, ""},
	{"8 DeadWithoutLargeBody", "DELETE FROM bodies", faultBodyMissing, ""},
	{"9 DelayedWithoutRecord", "UPDATE delayed_messages SET body = NULL", "", "NOT NULL"},
	{"10 SizesWrong", "UPDATE tallies SET ready = ready + 7", faultCounters, ""},
	{"10 CountersDoNotAddUp", "UPDATE topic_cursors SET filtered = filtered + 3", faultCounters, ""},
	{"10 DelayedMiscounted", "UPDATE topic_logs SET delayed = delayed + 1", faultLogNumbers, ""},
	{"10 BytesMiscounted", "UPDATE topic_logs SET gone_bytes = gone_bytes + 1", faultLogNumbers, ""},
	{"10 LastTooLow", "UPDATE topic_logs SET last = last - 1", faultLogNumbers, ""},
	// 11, a missing marker, has a test of its own.
}

// C12.176: Check finds and repairs every fault that the tables of topics and groups can have.
func TestCheckRepairsTopics(t *testing.T) {
	t.Parallel()
	repairEach(t, topicDamages, newDamagedTopicStore, (*damagedStore).drainGroup)
}

// C12.176: if the due time of the next delayed message is missing in memory, the timer would miss
// the message. Check finds and repairs this fault.
func TestCheckRepairsAMissedTopicTime(t *testing.T) {
	t.Parallel()
	newDamagedTopicStore(t).missTime(ruinTopic)
}

var ruinTopic, damagedGroup = duly.Q("ruin-log"), duly.Q("ruin-log@g")

// newDamagedTopicStore returns a closed store with a topic, and a group with a message in every
// state.
func newDamagedTopicStore(t *testing.T) *damagedStore {
	r := emptyDamagedStore(t)
	r.open()
	_, err := r.e.CreateGroup(t.Context(), damagedGroup, "")
	r.must(err)
	r.must(r.e.Configure(t.Context(), damagedGroup, duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys}}))

	r.publish(duly.Message{}, duly.Message{Key: "d", Body: make([]byte, 5000)}, duly.Message{}, duly.Message{},
		duly.Message{Key: "k"}, duly.Message{Key: "k"})
	got, err := r.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{damagedGroup.Name}, Max: 10})
	r.must(err)
	later := time.Minute
	_, err = r.e.Settle(t.Context(), "", []duly.SettleRequest{
		{Receipt: got[0].Receipt, As: duly.Ack}, {Receipt: got[1].Receipt, As: duly.Bury},
		{Receipt: got[2].Receipt, As: duly.Release}, {Receipt: got[3].Receipt, As: duly.Nack, Delay: &later},
	})
	r.must(err)
	r.publish(duly.Message{}, duly.Message{}, duly.Message{ID: "later", Delay: time.Minute})
	if err := r.e.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *damagedStore) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *damagedStore) publish(messages ...duly.Message) {
	r.Helper()
	for i := range messages {
		messages[i].Topic = ruinTopic.Name
	}
	results, err := r.e.Publish(r.Context(), messages)
	r.must(err)
	for _, result := range results {
		r.must(result.Err)
	}
}

// drainGroup handles all remaining messages of the group. A new message must reach the group,
// unless the group has no topic.
func (r *damagedStore) drainGroup() {
	r.Helper()
	r.publish(duly.Message{Body: []byte("new")})
	r.clock.Advance(2 * time.Minute)
	_, err := r.e.CreateGroup(r.Context(), damagedGroup, "") // the repair has destroyed a group without a topic
	r.must(err)
	found := false
	for {
		got, err := r.e.Reserve(r.Context(), duly.ReserveParams{Queues: []string{damagedGroup.Name}, Max: 10})
		r.must(err)
		if len(got) == 0 {
			break
		}
		outcomes := make([]duly.SettleRequest, len(got))
		for i, d := range got {
			found = found || string(d.Body) == "new"
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		errs, err := r.e.Settle(r.Context(), "", outcomes)
		r.must(err)
		for _, err := range errs {
			r.must(err)
		}
	}

	if !found {
		r.Error("the group does not see a new message")
	}

	stats, err := r.e.Stats(r.Context(), damagedGroup)
	r.must(err)
	if z := stats.Sizes; z.Delayed+z.Ready+z.Blocked+z.Leased > 0 || stats.Group.Lag > 0 {
		r.Errorf("stuck: %+v, lag %d", z, stats.Group.Lag)
	}
	if faults := r.check(false); len(faults) > 0 {
		r.Errorf("after all there are %+v", faults)
	}
}

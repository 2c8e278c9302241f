package sqliteengine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// published publishes messages to a topic and returns their positions.
func published(t *testing.T, e *Engine, messages ...duly.Message) (positions []duly.Position) {
	t.Helper()
	results, err := e.Publish(t.Context(), messages)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		positions = append(positions, r.Position)
	}
	return positions
}

// takenFrom reserves from one group and returns the bodies.
func takenFrom(t *testing.T, e *Engine, group string, n int) []duly.Delivery {
	t.Helper()
	got, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{group}, Max: n})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// openCounted opens an engine that counts its transactions.
func openCounted(t *testing.T) (*Engine, *atomic.Int64) {
	t.Helper()
	transactions := new(atomic.Int64)
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "duly.db"), Manual: true,
		Observe: func(call string, _ time.Duration) {
			if call == "transaction" {
				transactions.Add(1)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, transactions
}

// A Reserve whose filter skips large messages ends its transaction after 8 MiB of skipped messages,
// so that other calls run in between.
func TestFilterSkipsFewBytesPerTransaction(t *testing.T) {
	t.Parallel()
	e, transactions := openCounted(t)
	group := duly.Q("events@few")
	if _, err := e.CreateGroup(t.Context(), group, duly.FromStart); err != nil {
		t.Fatal(err)
	}
	if err := e.Configure(t.Context(), group, duly.QueueConfig{Group: duly.GroupConfig{Filter: "type=paid"}}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		published(t, e, duly.Message{Topic: "events", Body: make([]byte, 1<<20)})
	}

	before := transactions.Load()
	if got := takenFrom(t, e, group.Name, 10); len(got) > 0 {
		t.Errorf("the group delivers %d messages that its filter excludes", len(got))
	}
	if n := transactions.Load() - before; n < 3 {
		t.Errorf("a Reserve passes over 20 MiB in %d transactions, want 3 or more", n)
	}
}

// max_bytes drops large messages in transactions of 8 MiB, so that other calls run in between.
func TestMaxBytesDropsFewBytesPerTransaction(t *testing.T) {
	t.Parallel()
	e, transactions := openCounted(t)
	topic := duly.Q("events")
	lower := func(to int64) {
		t.Helper()
		if err := e.ConfigureTopic(t.Context(), topic, duly.TopicConfig{MaxBytes: to,
			Overflow: duly.OverflowDrop}); err != nil {
			t.Fatal(err)
		}
	}
	dropped := func() int64 {
		t.Helper()
		info, err := e.Topic(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		return info.Stats.Dropped
	}
	for range 60 {
		published(t, e, duly.Message{Topic: topic.Name, Body: make([]byte, 1<<20)})
	}

	lower(31 << 20)
	for more, before := true, int64(0); more; before = dropped() {
		var err error
		if more, err = e.Step(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		if n := dropped() - before; n > 9 {
			t.Errorf("a step drops %d MiB, want 9 at most", n)
		}
	}
	if n := dropped(); n != 30 {
		t.Errorf("the steps drop %d messages, want 30", n)
	}

	lower(1 << 20)
	before := transactions.Load()
	published(t, e, duly.Message{Topic: topic.Name, Body: []byte("small")})
	if n := transactions.Load() - before; n < 4 {
		t.Errorf("a Publish drops 30 MiB in %d transactions, want 4 or more", n)
	}
	if n := dropped(); n != 60 {
		t.Errorf("the steps and the Publish drop %d messages, want 60", n)
	}
}

// A Publish of many small messages drops large ones by max_count in transactions of 8 MiB, so that
// other calls run in between. A repeated Publish drops nothing.
func TestMaxCountDropsFewBytesPerTransaction(t *testing.T) {
	t.Parallel()
	e, transactions := openCounted(t)
	topic := duly.Q("events")
	if err := e.ConfigureTopic(t.Context(), topic,
		duly.TopicConfig{MaxCount: 60, Overflow: duly.OverflowDrop, Dedupe: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		published(t, e, duly.Message{Topic: topic.Name, Body: make([]byte, 1<<20)})
	}
	small := make([]duly.Message, 30)
	for i := range small {
		small[i] = duly.Message{Topic: topic.Name, ID: fmt.Sprint(i), Body: []byte("small")}
	}
	publish := func() (inTransactions int64) {
		t.Helper()
		before := transactions.Load()
		if _, err := e.Publish(t.Context(), small); err != nil {
			t.Fatal(err)
		}
		return transactions.Load() - before
	}

	if n := publish(); n < 4 {
		t.Errorf("a Publish drops 30 MiB in %d transactions, want 4 or more", n)
	}
	if n := publish(); n > 2 {
		t.Errorf("a repeat takes %d transactions", n)
	}
	info, err := e.Topic(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Stats; st.Dropped != 30 || st.Messages != 60 || st.Exists != 30 {
		t.Errorf("%d messages are dropped, %d are left and %d exist, want 30, 60 and 30", st.Dropped, st.Messages,
			st.Exists)
	}
}

// A sweep deletes old messages in topics without calls.
func TestSweepTrimsTopics(t *testing.T) {
	t.Parallel()
	e, c, _ := openLogged(t)
	topic := duly.Q("events")
	if err := e.ConfigureTopic(t.Context(), topic, duly.TopicConfig{MaxAge: time.Hour}); err != nil {
		t.Fatal(err)
	}
	published(t, e, duly.Message{Topic: "events"}, duly.Message{Topic: "events"})
	c.Advance(2 * time.Hour)
	if err := e.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := e.Topic(t.Context(), topic); err != nil || info.Stats.Messages != 0 || info.Stats.Dropped != 2 {
		t.Errorf("after the sweep the topic is %+v, %v", info.Stats, err)
	}
}

// C12.140: if another program deletes a held message, or a message beyond the group's cursor, the
// message counts as missed and is never delivered.
func TestMessagesDeletedByAnotherProgramAreMissed(t *testing.T) {
	t.Parallel()
	e, _, _ := openLogged(t)
	if _, err := e.CreateGroup(t.Context(), duly.Q("events@g"), ""); err != nil {
		t.Fatal(err)
	}
	published(t, e, make5("events")...)
	got := takenFrom(t, e, "events@g", 2)
	if _, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Release},
		{Receipt: got[1].Receipt, As: duly.Release}}); err != nil {
		t.Fatal(err)
	}
	deleteMessages(t, e, "ordinal IN (2, 4)")

	var bodies []string
	for _, d := range takenFrom(t, e, "events@g", 10) {
		bodies = append(bodies, string(d.Body))
	}
	if want := []string{"1", "3", "5"}; !slices.Equal(bodies, want) {
		t.Errorf("the group hands out %q, want %q", bodies, want)
	}
	if stats, err := e.Stats(t.Context(), duly.Q("events@g")); err != nil || stats.Group.Missed != 2 ||
		stats.Group.Lag != 0 {
		t.Errorf("the group is %+v, %v; want two missed", stats.Group, err)
	}
}

// C12.140: after another program has deleted the end of the log, the group continues after it.
func TestGroupSkipsDeletedEndOfLog(t *testing.T) {
	t.Parallel()
	e, _, _ := openLogged(t)
	if _, err := e.CreateGroup(t.Context(), duly.Q("events@g"), ""); err != nil {
		t.Fatal(err)
	}
	published(t, e, make5("events")...)
	deleteMessages(t, e, "ordinal > 3")
	if got := takenFrom(t, e, "events@g", 10); len(got) != 3 {
		t.Errorf("%d messages are handed out, want 3", len(got))
	}
	if got := takenFrom(t, e, "events@g", 10); len(got) != 0 {
		t.Errorf("%d messages are handed out behind the end", len(got))
	}
	if stats, err := e.Stats(t.Context(), duly.Q("events@g")); err != nil || stats.Group.Missed != 2 ||
		stats.Group.Lag != 0 {
		t.Errorf("the group is %+v, %v; want two missed", stats.Group, err)
	}
}

// If the body of a message is missing when its delivery ends, the message counts as missed, not as
// dead.
func TestSettledMessageThatIsGoneCountsAsMissed(t *testing.T) {
	t.Parallel()
	e, _, _ := openLogged(t)
	if _, err := e.CreateGroup(t.Context(), duly.Q("events@g"), ""); err != nil {
		t.Fatal(err)
	}
	published(t, e, make5("events")...)
	got := takenFrom(t, e, "events@g", 1)
	deleteMessages(t, e, "ordinal = 1")
	errs, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Bury}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	if stats, err := e.Stats(t.Context(), duly.Q("events@g")); err != nil || stats.Group.Missed != 1 ||
		stats.Sizes.Dead != 0 {
		t.Errorf("the group is %+v %+v, %v; want one missed", stats.Sizes, stats.Group, err)
	}
}

// C12.59: a topic with too many IDs forgets the oldest ones and counts them.
func TestTopicForgetsTheOldestIDs(t *testing.T) {
	e, c, _ := openLogged(t)
	defer func(was int64) { maxIDs = was }(maxIDs)
	maxIDs = 3
	if err := e.ConfigureTopic(t.Context(), duly.Q("events"), duly.TopicConfig{Dedupe: time.Hour}); err != nil {
		t.Fatal(err)
	}

	for _, id := range []string{"a", "b", "c", "d", "e"} {
		published(t, e, duly.Message{Topic: "events", ID: id})
		c.Advance(time.Second)
	}

	info, err := e.Topic(t.Context(), duly.Q("events"))
	if err != nil || info.Stats.Forgotten != 2 {
		t.Errorf("%d IDs are forgotten, %v; want 2", info.Stats.Forgotten, err)
	}

	results, err := e.Publish(t.Context(), []duly.Message{{Topic: "events", ID: "e"}, {Topic: "events", ID: "a"}})
	if err != nil || results[0].Status != duly.Exists || results[1].Status != duly.Created {
		t.Errorf("repeats are %+v, %v; want exists for the newest and created for the oldest", results, err)
	}
}

// Topics, groups and their state survive a restart: the log continues, and older receipts
// stay valid.
func TestTopicsSurviveARestart(t *testing.T) {
	t.Parallel()
	r := emptyDamagedStore(t)
	r.open()
	if _, err := r.e.CreateGroup(t.Context(), damagedGroup, ""); err != nil {
		t.Fatal(err)
	}
	r.publish(duly.Message{ID: "late", Delay: time.Minute}, duly.Message{}, duly.Message{})
	got := takenFrom(t, r.e, damagedGroup.Name, 1)
	before, err := r.e.Topic(t.Context(), ruinTopic)
	if err := errors.Join(err, r.e.Close()); err != nil {
		t.Fatal(err)
	}

	r.open()
	after, err := r.e.Topic(t.Context(), ruinTopic)
	before.Stats.Floors, after.Stats.Floors = nil, nil // the times of floors are not stored
	if err != nil || before.Stats.Last != after.Stats.Last || before.Stats.Delayed != after.Stats.Delayed ||
		before.Stats.Bytes != after.Stats.Bytes {
		t.Errorf("the topic was %+v and is %+v, %v", before.Stats, after.Stats, err)
	}
	errs, err := r.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Ack}})
	if err != nil || errs[0] != nil {
		t.Errorf("an older receipt is answered %v, %v", errs, err)
	}
	r.clock.Advance(2 * time.Minute)
	if got := takenFrom(t, r.e, damagedGroup.Name, 10); len(got) != 2 {
		t.Errorf("%d messages are left, want the second and the delayed one", len(got))
	}
}

// make5 returns five messages with the bodies 1 to 5.
func make5(topic string) (messages []duly.Message) {
	for _, body := range []string{"1", "2", "3", "4", "5"} {
		messages = append(messages, duly.Message{Topic: topic, Body: []byte(body)})
	}
	return messages
}

// deleteMessages deletes messages of the log as another program would.
func deleteMessages(t *testing.T, e *Engine, which string) {
	t.Helper()
	if err := e.change(t.Context(), func(tx *tx) error { return tx.Exec("DELETE FROM messages WHERE " + which) }); err != nil {
		t.Fatal(err)
	}
}

// C12.82: a restore voids receipts, even if the message was leased in the backup.
func TestRestoreVoidsReceiptsOfGroups(t *testing.T) {
	t.Parallel()
	r := restoringIn(t, t.TempDir())
	e := mustOpen(t, r.path)
	if _, err := e.CreateGroup(t.Context(), duly.Q("events@g"), ""); err != nil {
		t.Fatal(err)
	}
	published(t, e, duly.Message{Topic: "events"})
	receipt := takenFrom(t, e, "events@g", 1)[0].Receipt
	var copied bytes.Buffer
	r.must(e.Backup(t.Context(), &copied))
	r.must(e.Close())
	r.must(os.WriteFile(r.backup, copied.Bytes(), 0o600))
	r.restore(nil)

	e = mustOpen(t, r.path)
	errs, err := e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: receipt, As: duly.Ack}})
	if err != nil || !errors.Is(errs[0], duly.ErrLeaseLost) {
		t.Errorf("the receipt is answered %v, %v; want lease_lost", errs, err)
	}
	if stats, err := e.Stats(t.Context(), duly.Q("events@g")); err != nil || stats.Sizes.Leased != 1 {
		t.Errorf("the group is %+v, %v; want the message still leased", stats.Sizes, err)
	}
}

// C12.125: the log names the group and the messages it missed, at most once a minute, and
// covers every message.
func TestDropsAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	e, c, log := openLogged(t)
	if err := e.ConfigureTopic(t.Context(), duly.Q("events"),
		duly.TopicConfig{MaxCount: 5, Overflow: duly.OverflowDrop}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateGroup(t.Context(), duly.Q("events@g"), ""); err != nil {
		t.Fatal(err)
	}
	const text = "a group has missed messages"
	published(t, e, make5("events")...)
	for range 3 {
		published(t, e, make5("events")[:2]...)
		c.Advance(time.Second)
	}
	if n := log.Count(text); n != 1 {
		t.Errorf("drops within a minute are logged %d times, want once", n)
	}
	c.Advance(time.Minute)
	published(t, e, duly.Message{Topic: "events"})

	lines := log.Lines(text)
	if len(lines) != 2 {
		t.Fatalf("after a minute the log has %q, want two lines", lines)
	}
	logged := 0
	for _, line := range lines {
		var n int
		if _, err := fmt.Sscanf(line[strings.Index(line, "messages="):], "messages=%d", &n); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		logged += n
	}
	if !strings.Contains(lines[1], "group=default/events@g") || !strings.Contains(lines[1], "last=7") || logged != 7 {
		t.Errorf("the log says %q, want 7 messages of the group, up to the 7th", lines)
	}
}

// C12.15, C12.60: when Publish returns, the messages and their IDs are in the files, so a process
// that dies afterwards loses nothing.
func TestPublishReturnsWhenTheMessageIsStored(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	if err := e.ConfigureTopic(t.Context(), duly.Q("events"), duly.TopicConfig{Dedupe: time.Hour}); err != nil {
		t.Fatal(err)
	}
	position := published(t, e, duly.Message{Topic: "events", ID: "own", Body: []byte("kept")})[0]
	path := copyOf(t, e)

	killed := mustOpen(t, path)
	page, err := killed.Read(t.Context(), duly.Q("events"), contract.ReadParams{})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Position != position ||
		string(page.Entries[0].Body) != "kept" {
		t.Errorf("after a kill the log has %+v, %v", page, err)
	}
	repeat, err := killed.Publish(t.Context(), []duly.Message{{Topic: "events", ID: "own"}})
	if err != nil || repeat[0].Status != duly.Exists || repeat[0].Position != position {
		t.Errorf("after a kill a repeat is %+v, %v", repeat, err)
	}
}

// copyOf copies the files of an open store. The copy is like the files of a killed process.
func copyOf(t *testing.T, e *Engine) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "duly.db")
	for _, end := range []string{"", "-wal"} {
		text, err := os.ReadFile(e.cfg.Path + end)
		if err == nil {
			err = os.WriteFile(path+end, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// C12.174, C12.175: on a full disk, publishes fail and operations on stored messages
// continue.
func TestFullDiskRefusesPublishes(t *testing.T) {
	t.Parallel()
	e := openNew(t)
	ctx, group := t.Context(), duly.Q("events@g")
	if _, err := e.CreateGroup(ctx, group, ""); err != nil {
		t.Fatal(err)
	}
	published(t, e, make5("events")...)
	fillDisk(t, e, true)

	_, err := e.Publish(ctx, make5("events"))
	_, err2 := e.CreateGroup(ctx, duly.Q("events@h"), "")
	err3 := e.ConfigureTopic(ctx, duly.Q("events"), duly.TopicConfig{Keep: time.Hour})
	for what, err := range map[string]error{"a publish": err, "a new group": err2, "a configuration": err3} {
		if !errors.Is(err, duly.ErrFull) {
			t.Errorf("%s is answered %v, want full", what, err)
		}
	}

	got := takenFrom(t, e, group.Name, 2)
	if len(got) != 2 {
		t.Fatalf("%d messages are handed out, want 2", len(got))
	}
	errs, err := e.Settle(ctx, "", []duly.SettleRequest{{Receipt: got[0].Receipt, As: duly.Ack},
		{Receipt: got[1].Receipt, As: duly.Release}})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Errorf("outcomes are answered %v", err)
	}
	if page, err := e.Read(ctx, duly.Q("events"), contract.ReadParams{}); err != nil || len(page.Entries) != 4 {
		t.Errorf("a read finds %d messages, %v; want 4", len(page.Entries), err)
	}
	if _, err := e.Seek(ctx, group, duly.FromEnd); err != nil {
		t.Errorf("a seek is answered %v", err)
	}
}

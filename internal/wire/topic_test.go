package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var (
	events = duly.QueueRef{Namespace: "shop", Name: "events"}
	place  = contract.PositionParts{Millis: when.UnixMilli(), Ordinal: 7, Shard: 3,
		Topic: contract.TopicChecksum(events)}.Position()
)

// fullMessage returns a message with all fields of a publish except due.
func fullMessage() duly.Message {
	return duly.Message{Namespace: "shop", Topic: "events", ID: "order:1", Key: "kundin 7",
		Body:    []byte("hello \"w\\orld\" <ü>\n"),
		Headers: map[string]string{"b": "2", "a": "1"}, Delay: 90 * time.Minute}
}

func fullEntry() contract.Entry {
	m := fullMessage()
	m.Delay = 0
	return contract.Entry{Message: m, Position: place, EnteredAt: when}
}

func delayedMessage() duly.Message {
	m := fullMessage()
	m.Delay, m.Due = 0, when
	return m
}

func fullTopicConfig() duly.TopicConfig {
	return duly.TopicConfig{Shards: 8, Dedupe: time.Hour, Keep: 24 * time.Hour, MaxAge: duly.None, MaxCount: 5,
		MaxBytes: 1 << 40, Overflow: duly.OverflowDrop}
}

func fullTopic() Topic {
	return Topic{Name: "events", TopicInfo: duly.TopicInfo{Config: fullTopicConfig(), Stats: duly.TopicStats{
		Messages: 1, Bytes: 2, First: place, Last: place, Delayed: 3, NextDue: when, Published: 4, Exists: 5,
		Entered: 6, Canceled: 7, Trimmed: 8,
		Dropped: 9, Forgotten: 10, Floors: []duly.Floor{{Shard: 3, Position: place, Group: "mailer", Since: when,
			Alone: 11}},
	}}}
}

func fullGroupStats() *duly.GroupStats {
	return &duly.GroupStats{Lag: 1, Entered: 2, Filtered: 3, Skipped: 4, Replayed: 5, Missed: 6,
		OldestNeeded: time.Minute, Parked: true, AtMaxHeld: true,
		Key: "kundin 7", Consumers: []duly.Consumer{{Name: "host-1-a", LastCall: when}}}
}

func groupConfig() duly.QueueConfig {
	return duly.QueueConfig{MaxLeased: 9, Group: duly.GroupConfig{Order: duly.OrderKeys, MaxHeld: 5,
		Filter: "type=order&@key=a", Idle: time.Hour, Target: "mail"}}
}

// C14.6, C14.7: a reader returns the values that were written.
func TestRequestsOfTopicsSurviveTheWire(t *testing.T) {
	t.Parallel()
	messages := []duly.Message{fullMessage(), {Namespace: "shop", Topic: "events", Body: []byte{}},
		{Namespace: "shop", Topic: "events", Body: []byte{0, 0xff, 'a'}, Due: when}}
	read(t, "publish", Items[duly.Message]{Values: messages})(ReadPublish(string(AppendPublish(nil, messages)),
		events))
	read(t, "topic config", fullTopicConfig())(TopicConfigForm.ReadRequest(
		string(TopicConfigForm.Append(nil, fullTopicConfig()))))
	none := duly.TopicConfig{Dedupe: duly.None, Keep: duly.None, MaxAge: duly.None, MaxCount: duly.None,
		MaxBytes: duly.None}
	read(t, "topic config without bounds", none)(TopicConfigForm.ReadRequest(string(TopicConfigForm.Append(nil, none))))

	for _, from := range []duly.From{"", duly.FromStart, duly.FromTime(when), duly.FromPosition(place)} {
		read(t, "from", from)(ReadFrom(string(FromForm.Append(nil, from))))
	}
	read(t, "from of an empty request", duly.From(""))(ReadFrom(""))
	read(t, "group config", groupConfig())(ConfigForm.ReadRequest(string(ConfigForm.Append(nil, groupConfig()))))
	cleared := duly.QueueConfig{Group: duly.GroupConfig{Filter: duly.NoFilter, Idle: duly.None, Target: duly.NoTarget}}
	read(t, "group config without bounds", cleared)(ConfigForm.ReadRequest(string(ConfigForm.Append(nil, cleared))))
	res := Reserve{ReserveParams: duly.ReserveParams{Namespace: "shop", Queues: []string{"events@mailer"}, Max: 1,
		Consumer: "host-1", Target: "mail"}}
	read(t, "reserve", res)(ReadReserve(string(ReserveForm.Append(nil, res)), "shop"))
}

// C13.1: every answer of topics is read as it was written, with its errors.
func TestAnswersOfTopicsSurviveTheWire(t *testing.T) {
	t.Parallel()
	published := []duly.PublishResult{{Status: duly.Created, Position: place},
		{Status: duly.Exists, ID: "a", Position: place}, {Status: duly.Created, ID: "b"},
		{ID: "c", Err: contract.Invalid("key", "has 129 bytes")}}

	read(t, "published", published)(PublishedForm.ReadAnswer(string(PublishedForm.Append(nil, published))))
	binary := fullEntry()
	binary.Body = []byte{0, 0xff}
	page := contract.ReadPage{Entries: []contract.Entry{fullEntry(), binary}, Next: "next:a", Gap: 12}
	read(t, "entries", page)(ReadEntries(string(EntriesForm.Append(nil, page)), events))
	delayed := contract.DelayedPage{Messages: []duly.Message{delayedMessage()}, Next: "c"}
	read(t, "delayed", delayed)(ReadDelayed(string(AppendDelayed(nil, delayed, true)), events))
	one := delayedMessage()
	read(t, "delayed message", one)(ReadDelayedMessage(string(DelayedMessageForm.Append(nil, one)), events))
	delayed.Messages[0].Body = nil
	read(t, "delayed without bodies", delayed)(ReadDelayed(string(AppendDelayed(nil, delayed, false)), events))
	read(t, "topic", fullTopic())(TopicForm.ReadAnswer(string(TopicForm.Append(nil, fullTopic()))))
	for _, existed := range []bool{false, true} {
		read(t, "group created", existed)(GroupCreatedForm.ReadAnswer(string(GroupCreatedForm.Append(nil, existed))))
		read(t, "trimmed", existed)(TrimmedForm.ReadAnswer(string(TrimmedForm.Append(nil, existed))))
	}

	seeked := contract.SeekResult{Clipped: true, Skipped: 1 << 60, Replayed: 2}
	read(t, "seeked", seeked)(SeekedForm.ReadAnswer(string(SeekedForm.Append(nil, seeked))))
	group := Queue{Name: "events@mailer", Config: contract.DefaultGroupConfig(),
		Stats: duly.Stats{Group: fullGroupStats()}}
	read(t, "group", group)(QueueForm.ReadAnswer(string(QueueForm.Append(nil, group))))
	survey := contract.SurveyPage{Queues: []contract.QueueStats{{Name: "events@mailer",
		Throttle: contract.ThrottleOf(contract.DefaultGroupConfig()), Stats: duly.Stats{Group: fullGroupStats()}}}}
	read(t, "survey", survey)(ReadSurvey(string(QueuesForm.Append(nil, survey))))
}

// C13.2: the error of a message names every bad field, and the other messages have no error.
func TestBadMessageHasItsOwnError(t *testing.T) {
	t.Parallel()
	messages, err := ReadPublish(`{"messages":[{"body":"x"},{"key":"a\u0001","delay":"soon"},`+
		`{"delay":"0s","due":"2030-01-01T00:00:00Z"}]}`, events)
	if err != nil {
		t.Fatal(err)
	}
	if messages.Errs[0] != nil {
		t.Errorf("the good one: %v", messages.Errs[0])
	}
	for i, words := range [][]string{1: {"key", "delay"}, 2: {"delay and due are both set"}} {
		for _, word := range words {
			if err := messages.Errs[i]; !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), word) {
				t.Errorf("message %d: %v, want it to name %s", i, err, word)
			}
		}
	}

	for _, text := range []string{`{}`, `{"messages":[null]}`, `{"messages":[{"topic":"t"}]}`,
		`{"messages":[{"priority":1}]}`} {
		if _, err := ReadPublish(text, events); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// C14.7: a body with a NUL is base64, and a body full of escapes never becomes more than twice as
// long.
func TestBodiesOfMessagesAreBase64IfNeeded(t *testing.T) {
	t.Parallel()
	m := duly.Message{Body: []byte("a\x00b")}
	for what, text := range map[string][]byte{
		"publish": AppendPublish(nil, []duly.Message{m}),
		"entries": EntriesForm.Append(nil, contract.ReadPage{Entries: []contract.Entry{{Message: m}}}),
		"delayed": DelayedMessageForm.Append(nil, m),
	} {
		if !bytes.Contains(text, []byte(`"body_base64":"YQBi"`)) {
			t.Errorf("%s: %s", what, text)
		}
	}
	swells := strings.Repeat("\x01", 9000)
	if n := len(AppendPublish(nil, []duly.Message{{Body: []byte(swells)}})); n > 2*len(swells)+200 {
		t.Errorf("a body of %d bytes takes %d", len(swells), n)
	}
}

// The estimated size of an answer is at least its size, and not much larger.
func TestEstimatedSizeOfMessagesIsClose(t *testing.T) {
	t.Parallel()
	long := full(nil)
	for name, body := range map[string][]byte{"nothing": nil, "text": []byte(strings.Repeat("täxt ", 20_000)),
		"binary": bytes.Repeat([]byte{0xff, 0}, 50_000)} {
		for _, n := range []int{0, 1, 10} {
			page := contract.ReadPage{Next: duly.From(strings.Repeat("n", 600)), Gap: 1 << 60}
			delayed := contract.DelayedPage{Next: strings.Repeat("n", 600)}
			for range n {
				m := duly.Message{ID: long.ID, Key: long.OrderKey, Headers: long.Headers, Body: body, Due: long.Due}
				page.Entries = append(page.Entries, contract.Entry{Message: m, Position: place, EnteredAt: when})
				delayed.Messages = append(delayed.Messages, m)
			}

			for answer, sizes := range map[string][2]int{
				"entries": {len(EntriesForm.Append(nil, page)), SizeOfEntries(page)},
				"delayed": {len(AppendDelayed(nil, delayed, true)), SizeOfDelayed(delayed, true)},
				"a list":  {len(AppendDelayed(nil, delayed, false)), SizeOfDelayed(delayed, false)},
			} {
				if is, guess := sizes[0], sizes[1]; guess < is || guess > short && guess > is+(n+1)*(4<<10) {
					t.Errorf("%d %s of %s have %d bytes, %d were estimated", n, answer, name, is, guess)
				}
			}
		}
	}
}

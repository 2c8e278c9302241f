package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/dulymq/duly"
)

// message is a text of the wire and its reader.
type message struct {
	name string
	text []byte
	read func(text string, mode Mode) (any, error)
}

func reads[T any](f func(text string) (T, error)) func(string, Mode) (any, error) {
	return func(text string, _ Mode) (any, error) { return f(text) }
}

func readsIn[T any](f func(text string, mode Mode) (T, error)) func(string, Mode) (any, error) {
	return func(text string, mode Mode) (any, error) { return f(text, mode) }
}

func readsFor[T any](f func(text, namespace string) (T, error)) func(string, Mode) (any, error) {
	return func(text string, _ Mode) (any, error) { return f(text, "shop") }
}

func readsOf[T any](f func(text string, topic duly.QueueRef) (T, error)) func(string, Mode) (any, error) {
	return func(text string, _ Mode) (any, error) { return f(text, events) }
}

func readsForIn[T any](f func(text, namespace string, mode Mode) (T, error)) func(string, Mode) (any, error) {
	return func(text string, mode Mode) (any, error) { return f(text, "shop", mode) }
}

// requests are one of each, with every object that it can have.
func requests() []message {
	hour := time.Hour
	return []message{
		{"push", AppendPush(nil, []duly.Job{fullJob()}), readsForIn(ReadPush)},
		{"reserve", AppendReserve(nil, Reserve{ReserveParams: duly.ReserveParams{Queues: []string{"a"}, Max: 2}}), readsForIn(ReadReserve)},
		{"wait", AppendWait(nil, duly.WaitParams{Queues: []string{"a"}, Timeout: hour}), readsForIn(ReadWait)},
		{"canceled", AppendCanceledAsk(nil, CanceledAsk{After: "c", Wait: hour}), readsIn(ReadCanceledAsk)},
		{"settle", AppendSettle(nil, []duly.Outcome{{Receipt: "r", As: duly.Nack, Delay: &hour}}), readsIn(ReadSettle)},
		{"extend", AppendExtend(nil, Extend{Receipts: []duly.Receipt{"a"}, Lease: hour}), readsIn(ReadExtend)},
		{"update", AppendUpdate(nil, &duly.Update{Delay: &hour, Tries: 2}), readsIn(ReadUpdate)},
		{"requeue", AppendRequeue(nil, duly.RequeueParams{N: 3}), readsIn(ReadRequeue)},
		{"purge", AppendPurge(nil, Purge{State: duly.StateDead, N: 3}), readsIn(ReadPurge)},
		{"config", AppendConfig(nil, duly.QueueConfig{Defaults: duly.Defaults{Tries: 1}, MaxJobs: 3}), readsIn(ReadConfig)},
		{"check", AppendCheck(nil, true), readsIn(ReadCheck)},
		{"token", AppendToken(nil, Token{Token: duly.Token{Namespace: "*", Rights: duly.RightAdmin, Limits: duly.Limits{Produce: 1, Per: hour}}}), readsIn(ReadToken)},
		{"limits", AppendLimits(nil, duly.Limits{Consume: 1, Per: hour}), readsIn(ReadLimits)},
		{"place", AppendPlace(nil, "orders"), readsIn(ReadPlace)},
		{"publish", AppendPublish(nil, []duly.Message{fullMessage()}), func(text string, mode Mode) (any, error) { return ReadPublish(text, events, mode) }},
		{"topic config", AppendTopicConfig(nil, fullTopicConfig()), readsIn(ReadTopicConfig)},
		{"from", AppendFrom(nil, duly.FromEnd), readsIn(ReadFrom)},
		{"group config", AppendConfig(nil, groupConfig()), readsIn(ReadConfig)},
	}
}

// answers are one of each, with every object that it can have.
func answers() []message {
	conflict := duly.Conflict(duly.StateLeased, "is leased")
	bad := duly.Invalid("priority", "is 1001")
	info := duly.JobInfo{Job: storedJob(), State: duly.StateDead, Size: 21, PushedAt: when, LastError: "boom"}
	stats := duly.Stats{OldestReady: time.Second, NextDue: when, Sizes: duly.Sizes{Ready: 2}, Counters: duly.Counters{Pushed: 3}}
	move := duly.MoveState{Placement: duly.Placement{Namespace: "shop", Pool: "a", From: "b", Phase: duly.Draining, Since: when}}
	return []message{
		{"push", AppendPushResults(nil, []duly.PushResult{{ID: "a", Outcome: duly.Created}, {Err: bad}}), reads(ReadPushResults)},
		{"deliveries", AppendDeliveries(nil, []duly.Delivery{{Job: storedJob(), Receipt: "r", Attempt: 2, Now: when}}), readsFor(ReadDeliveries)},
		{"ready", AppendReady(nil, true), reads(ReadReady)},
		{"canceled", AppendCanceled(nil, Canceled{Canceled: []duly.Canceled{{Queue: "q", IDs: []string{"a"}}}, Cursor: "c"}), reads(ReadCanceled)},
		{"results", AppendResults(nil, []error{nil, bad}), reads(ReadResults)},
		{"job", AppendJob(nil, &info), readsFor(ReadJob)},
		{"jobs", AppendJobs(nil, duly.ListPage{Jobs: []duly.JobInfo{info}, Next: "c"}, true), readsFor(ReadJobs)},
		{"names", AppendNames(nil, "queues", duly.NamePage{Names: []string{"a"}, Next: "b"}), func(text string, _ Mode) (any, error) { return ReadNames(text, "queues") }},
		{"survey", AppendSurvey(nil, duly.SurveyPage{Queues: []duly.QueueStats{{Name: "a", Stats: stats, Throttle: duly.Throttle{Paused: true, MaxLeased: 3, Rate: duly.Rate{PerSecond: duly.None}}}, {Name: "b", Err: bad}}, Next: "b"}), reads(ReadSurvey)},
		{"queue", AppendQueue(nil, Queue{Name: "mail", Config: duly.DefaultQueueConfig(), Stats: stats}), reads(ReadQueue)},
		{"requeued", AppendRequeued(nil, []duly.RequeueResult{{ID: "a", State: duly.StateReady}, {ID: "d", Err: conflict}}), reads(ReadRequeued)},
		{"purged", AppendPurged(nil, 12), reads(ReadPurged)},
		{"check line", AppendCheckLine(nil, CheckLine{Report: &duly.CheckReport{Jobs: 3, Faults: []duly.Fault{{Kind: "k", ID: "a"}}}}), reads(ReadCheckLine)},
		{"token", AppendToken(nil, Token{Token: duly.Token{Namespace: "*", Limits: duly.Limits{Produce: 1, Per: time.Hour}}, Secret: "s"}), readsIn(ReadToken)},
		{"tokens", AppendTokens(nil, duly.TokenPage{Tokens: []duly.Token{{Namespace: "*", CreatedAt: when}}, Next: "n"}), reads(ReadTokens)},
		{"pools", AppendPools(nil, []duly.PoolState{{Name: "a"}}), reads(ReadPools)},
		{"move", AppendMove(nil, &move), reads(ReadMove)},
		{"published", AppendPublishResults(nil, []duly.PublishResult{{Outcome: duly.Created, Position: place}, {Err: bad}}), reads(ReadPublishResults)},
		{"entries", AppendEntries(nil, duly.ReadPage{Entries: []duly.Entry{fullEntry()}, Next: "next:a"}), readsOf(ReadEntries)},
		{"delayed", AppendDelayed(nil, duly.DelayedPage{Messages: []duly.Message{delayedMessage()}, Next: "c"}, true), readsOf(ReadDelayed)},
		{"topic", AppendTopic(nil, fullTopic()), reads(ReadTopic)},
		{"group created", AppendGroupCreated(nil, true), reads(ReadGroupCreated)},
		{"seeked", AppendSeeked(nil, duly.SeekResult{Skipped: 3}), reads(ReadSeeked)},
		{"trimmed", AppendTrimmed(nil, true), reads(ReadTrimmed)},
		{"group", AppendQueue(nil, Queue{Name: "events@mailer", Config: duly.DefaultGroupConfig(), Stats: duly.Stats{Group: fullGroupStats()}}), reads(ReadQueue)},
		{"moves", AppendMoves(nil, []duly.MoveState{move}), reads(ReadMoves)},
	}
}

// withUnknown returns the text with a field that nobody knows at the beginning of
// one object, for each object of it. The names of headers are not fields.
func withUnknown(text string) (all []string) {
	const field = `"later":{"a":[1,{"b":[]},[null]],"c":"}]","d":true,"e":-2.5e1},`
	for i, c := range text {
		if c != '{' || strings.HasSuffix(text[:i], `"headers":`) {
			continue
		}
		all = append(all, text[:i+1]+field+text[i+1:])
	}

	return all
}

// C14.9: a request with an unknown field is refused, wherever it is. An older
// client reads the answer of a newer server, whatever that has added.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	for _, m := range slices.Concat(requests(), answers()) {
		want, err := m.read(string(m.text), Lenient)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}

		for _, text := range withUnknown(string(m.text)) {
			got, err := m.read(text, Lenient)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: of %s is read\n%+v, %v, want\n%+v", m.name, text, got, err, want)
			}
		}
	}

	for _, m := range requests() {
		for _, text := range withUnknown(string(m.text)) {
			if _, err := m.read(text, Strict); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), `unknown field "later"`) {
				t.Errorf("%s: %s: %v", m.name, text, err)
			}
		}
	}
}

// What only answers have is unknown in a request.
func TestATokensSecretIsNotSentToAServer(t *testing.T) {
	t.Parallel()
	for _, field := range []string{`"id":"00"`, `"token":"x"`, `"created_at":"2030-01-01T00:00:00Z"`} {
		if _, err := ReadToken(`{"namespace":"a",`+field+`}`, Strict); err == nil || !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := ReadToken(`{"id":"00"}`, Lenient); err == nil {
		t.Error("an id of one byte is read")
	}
}

func TestARightThatDoesNotExistIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := ReadToken(`{"namespace":"a","rights":["produce","own"]}`, Strict); err == nil || !strings.Contains(err.Error(), "rights") {
		t.Errorf("rights produce and own: %v", err)
	}
}

// Only what has a bound that can be taken away is none.
func TestNoneIsNoNumberOfTries(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"tries":  second(ReadRequeue(`{"n":1,"tries":"none"}`, Strict)),
		"shards": second(ReadConfig(`{"shards":"none"}`, Strict)),
		"burst":  second(ReadConfig(`{"burst":"none"}`, Strict)),
	} {
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s none: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A string is read as encoding/json reads it, with every escape and every UTF-16
// unit, in both cases. Half a surrogate pair is refused, where encoding/json
// replaces it.
func TestEscapesAreThoseOfJSON(t *testing.T) {
	t.Parallel()
	str := func(quoted string) (s string, err error) {
		err = parse(quoted, Strict, func(f *fields) { s = f.r.str() })
		return s, err
	}

	for c := range rune(0x10000) {
		for _, quoted := range []string{fmt.Sprintf(`"a\u%04xb"`, c), fmt.Sprintf(`"a\u%04Xb"`, c)} {
			var want string
			if err := json.Unmarshal([]byte(quoted), &want); err != nil {
				t.Fatal(err)
			}
			got, err := str(quoted)
			if half := utf16.IsSurrogate(c); half != (err != nil) || !half && got != want {
				t.Fatalf("%s is read as %q, %v, want %q", quoted, got, err, want)
			}
		}
	}

	for quoted, want := range map[string]string{
		`"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\ud83d\uDE00"`: "😀",
	} {
		if got, err := str(quoted); got != want || err != nil {
			t.Errorf("%s is read as %q, %v", quoted, got, err)
		}
	}

	const noEscape, noCharacter, cut = "an escape that JSON does not know", "escape that is no character", "in the middle of its JSON"
	for quoted, problem := range map[string]string{
		`"\x"`: noEscape, `"\`: cut, `"\u12`: cut, `"\u12"`: noCharacter, `"\u12"    `: noCharacter, `"\u00g0"`: noCharacter,
		`"\ud83d\u1"`: noCharacter, `"\ud83d"`: noCharacter, `"\ud83d\u0041"`: noCharacter, `"\ud83dx"`: noCharacter, `"\u00e9`: cut,
	} {
		if got, err := str(quoted); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s is read as %q, %v, want %s", quoted, got, err, problem)
		}
	}
}

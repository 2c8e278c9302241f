package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// message is a JSON text and its reader.
type message struct {
	name string
	text []byte
	read func(text string) (any, error)
}

func reads[T any](f func(text string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return f(text) }
}

func readsFor[T any](f func(text, namespace string) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return f(text, "shop") }
}

func readsOf[T any](f func(text string, topic duly.QueueRef) (T, error)) func(string) (any, error) {
	return func(text string) (any, error) { return f(text, events) }
}

// requests returns one request of each form, with all its objects.
func requests() []message {
	hour := time.Hour
	return []message{
		{"push", AppendPush(nil, []duly.Job{fullJob()}), readsFor(ReadPush)},
		{"reserve", ReserveForm.Append(nil, Reserve{ReserveParams: duly.ReserveParams{Queues: []string{"a"}, Max: 2}}),
			readsFor(ReadReserve)},
		{"wait", WaitForm.Append(nil, duly.WaitParams{Queues: []string{"a"}, Timeout: hour}), readsFor(ReadWait)},
		{"canceled", CanceledAskForm.Append(nil, CanceledAsk{After: "c", Wait: hour}),
			reads(CanceledAskForm.ReadRequest)},
		{"settle", AppendSettle(nil, []duly.SettleRequest{{Receipt: "r", As: duly.Nack, Delay: &hour}}),
			reads(ReadSettle)},
		{"extend", ExtendForm.Append(nil, Extend{Receipts: []duly.Receipt{"a"}, Lease: hour}), reads(ReadExtend)},
		{"update", UpdateForm.Append(nil, duly.Update{Delay: &hour, Tries: 2}), reads(UpdateForm.ReadRequest)},
		{"requeue", RequeueForm.Append(nil, duly.RequeueParams{N: 3}), reads(RequeueForm.ReadRequest)},
		{"purge", PurgeForm.Append(nil, Purge{State: duly.StateDead, N: 3}), reads(PurgeForm.ReadRequest)},
		{"delete jobs", DeleteJobsForm.Append(nil, DeleteJobs{IDs: []string{"a"}, State: duly.StateDead}),
			reads(DeleteJobsForm.ReadRequest)},
		{"get jobs", GetJobsForm.Append(nil, GetJobs{IDs: []string{"a"}, Bodies: true}), reads(GetJobsForm.ReadRequest)},
		{"promote jobs", PromoteJobsForm.Append(nil, []string{"a"}), reads(PromoteJobsForm.ReadRequest)},
		{"config", ConfigForm.Append(nil, duly.QueueConfig{Defaults: duly.Defaults{Tries: 1}, MaxJobs: 3}),
			reads(ConfigForm.ReadRequest)},
		{"check", CheckForm.Append(nil, true), reads(ReadCheck)},
		{"token", NewTokenForm.Append(nil,
			contract.Token{Namespace: "*", Rights: contract.RightAdmin,
				Limits: contract.Limits{Produce: 1, Per: hour}}), reads(NewTokenForm.ReadRequest)},
		{"limits", LimitTokenForm.Append(nil, contract.Limits{Consume: 1, Per: hour}), reads(ReadLimits)},
		{"place", PlaceForm.Append(nil, "orders"), reads(ReadPlace)},
		{"publish", AppendPublish(nil, []duly.Message{fullMessage()}), readsOf(ReadPublish)},
		{"topic config", TopicConfigForm.Append(nil, fullTopicConfig()), reads(TopicConfigForm.ReadRequest)},
		{"from", FromForm.Append(nil, duly.FromEnd), reads(ReadFrom)},
		{"group config", ConfigForm.Append(nil, groupConfig()), reads(ConfigForm.ReadRequest)},
	}
}

// answers returns one answer of each form, with all its objects.
func answers() []message {
	conflict := contract.Conflict(duly.StateLeased, "is leased")
	bad := contract.Invalid("priority", "is 1001")
	info := duly.JobInfo{Job: storedJob(), State: duly.StateDead, Size: 21, PushedAt: when, LastError: "boom"}
	stats := duly.Stats{OldestReady: time.Second, NextDue: when, Sizes: duly.Sizes{Ready: 2},
		Counters: duly.Counters{Pushed: 3}}
	move := contract.MoveState{Placement: contract.Placement{Namespace: "shop", Pool: "a", From: "b",
		Phase: contract.Draining, Since: when}}

	return []message{
		{"push", PushedForm.Append(nil, []duly.PushResult{{ID: "a", Status: duly.Created}, {Err: bad}}),
			reads(PushedForm.ReadAnswer)},
		{"deliveries", DeliveriesForm.Append(nil,
			[]duly.Delivery{{Job: storedJob(), Receipt: "r", Attempt: 2, Now: when}}), readsFor(ReadDeliveries)},
		{"ready", ReadyForm.Append(nil, true), reads(ReadyForm.ReadAnswer)},
		{"canceled", CanceledForm.Append(nil,
			Canceled{Canceled: []contract.Canceled{{Queue: "q", IDs: []string{"a"}}}, Cursor: "c"}),
			reads(CanceledForm.ReadAnswer)},
		{"results", ResultsForm.Append(nil, []error{nil, bad}), reads(ResultsForm.ReadAnswer)},
		{"job", JobForm.Append(nil, info), readsFor(ReadJob)},
		{"got jobs", AppendGotJobs(nil, []contract.JobResult{{Info: info}}, true), readsFor(ReadGotJobs)},
		{"jobs", AppendJobs(nil, duly.ListPage{Jobs: []duly.JobInfo{info}, Next: "c"}, true), readsFor(ReadJobs)},
		{"found", FoundForm.Append(nil, contract.Found{Jobs: []duly.JobInfo{info}, More: true}), readsFor(ReadFound)},
		{"explanation", ExplainForm.Append(nil, fullExplanation()), reads(ExplainForm.ReadAnswer)},
		{"keys", KeysForm.Append(nil, contract.KeyPage{Next: "c", Keys: []contract.KeyInfo{{Key: "k", Waiting: 1,
			Head: contract.KeyHead{ID: "a", State: duly.StateReady, Due: when}, FirstDue: when}}}), reads(KeysForm.ReadAnswer)},
		{"names", AppendNames(nil, "queues", duly.NamePage{Names: []string{"a"}, Next: "b"}),
			func(text string) (any, error) { return ReadNames(text, "queues") }},
		{"survey", QueuesForm.Append(nil,
			contract.SurveyPage{Queues: []contract.QueueStats{{Name: "a", Stats: stats,
				Throttle: contract.Throttle{Paused: true, MaxLeased: 3, Rate: duly.Rate{PerSecond: duly.None}}},
				{Name: "b", Err: bad}}, Next: "b"}), reads(ReadSurvey)},
		{"queue", QueueForm.Append(nil, Queue{Name: "mail", Config: contract.DefaultQueueConfig(), Stats: stats}),
			reads(QueueForm.ReadAnswer)},
		{"requeued", RequeuedForm.Append(nil,
			[]duly.RequeueResult{{ID: "a", State: duly.StateReady}, {ID: "d", Err: conflict}}),
			reads(RequeuedForm.ReadAnswer)},
		{"purged", PurgedForm.Append(nil, 12), reads(PurgedForm.ReadAnswer)},
		{"check line", AppendCheckLine(nil,
			CheckLine{Report: &contract.CheckReport{Jobs: 3, Faults: []contract.Fault{{Kind: "k", ID: "a"}}}}),
			reads(CheckLineForm.ReadAnswer)},
		{"token", MadeTokenForm.Append(nil,
			Token{Token: contract.Token{Namespace: "*", Limits: contract.Limits{Produce: 1, Per: time.Hour}},
				Secret: "s"}), reads(MadeTokenForm.ReadAnswer)},
		{"tokens", TokensForm.Append(nil,
			contract.TokenPage{Tokens: []contract.Token{{Namespace: "*", CreatedAt: when}}, Next: "n"}),
			reads(TokensForm.ReadAnswer)},
		{"login code", LoginCodeForm.Append(nil, LoginCode{Path: "/ui/login?code=X", ExpiresAt: when}),
			reads(LoginCodeForm.ReadAnswer)},
		{"pools", PoolsForm.Append(nil, []contract.PoolState{{Name: "a"}}), reads(PoolsForm.ReadAnswer)},
		{"move", MoveForm.Append(nil, move), reads(MoveForm.ReadAnswer)},
		{"published", PublishedForm.Append(nil,
			[]duly.PublishResult{{Status: duly.Created, Position: place}, {Err: bad}}),
			reads(PublishedForm.ReadAnswer)},
		{"entries", EntriesForm.Append(nil, contract.ReadPage{Entries: []contract.Entry{fullEntry()}, Next: "next:a"}),
			readsOf(ReadEntries)},
		{"delayed", AppendDelayed(nil, contract.DelayedPage{Messages: []duly.Message{delayedMessage()}, Next: "c"},
			true), readsOf(ReadDelayed)},
		{"topic", TopicForm.Append(nil, fullTopic()), reads(TopicForm.ReadAnswer)},
		{"group created", GroupCreatedForm.Append(nil, true), reads(GroupCreatedForm.ReadAnswer)},
		{"seeked", SeekedForm.Append(nil, contract.SeekResult{Skipped: 3}), reads(SeekedForm.ReadAnswer)},
		{"trimmed", TrimmedForm.Append(nil, true), reads(TrimmedForm.ReadAnswer)},
		{"group", QueueForm.Append(nil,
			Queue{Name: "events@mailer", Config: contract.DefaultGroupConfig(),
				Stats: duly.Stats{Group: fullGroupStats()}}), reads(QueueForm.ReadAnswer)},
		{"moves", MovesForm.Append(nil, []contract.MoveState{move}), reads(MovesForm.ReadAnswer)},
	}
}

// withUnknown returns the text with an unknown field at the beginning of one of its objects, one
// result per object. The names of headers are not fields.
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

// C14.9: a reader ignores unknown fields in an answer, so an older client can read the answers of a
// newer server. An unknown field in any object of a request is refused.
func TestOnlyRequestsRefuseUnknownFields(t *testing.T) {
	t.Parallel()
	for _, m := range answers() {
		want, err := m.read(string(m.text))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}

		for _, text := range withUnknown(string(m.text)) {
			got, err := m.read(text)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: of %s is read\n%+v, %v, want\n%+v", m.name, text, got, err, want)
			}
		}
	}

	for _, m := range requests() {
		if _, err := m.read(string(m.text)); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		for _, text := range withUnknown(string(m.text)) {
			if _, err := m.read(text); !errors.Is(err, duly.ErrInvalid) ||
				!strings.Contains(err.Error(), `unknown field "later"`) {
				t.Errorf("%s: %s: %v", m.name, text, err)
			}
		}
	}
}

// A field that only answers have is unknown in a request.
func TestSecretOfTokenIsUnknownInRequest(t *testing.T) {
	t.Parallel()
	for _, field := range []string{`"id":"00"`, `"token":"x"`, `"created_at":"2030-01-01T00:00:00Z"`} {
		if _, err := NewTokenForm.ReadRequest(`{"namespace":"a",` + field + `}`); err == nil ||
			!strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := MadeTokenForm.ReadAnswer(`{"id":"00"}`); err == nil {
		t.Error("an id of one byte is read")
	}
}

func TestUnknownRightIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := NewTokenForm.ReadRequest(`{"namespace":"a","rights":["produce","own"]}`); err == nil ||
		!strings.Contains(err.Error(), "rights") {
		t.Errorf("rights produce and own: %v", err)
	}
}

// Only a field whose limit can be removed may be "none".
func TestTriesCannotBeNone(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"tries":  second(RequeueForm.ReadRequest(`{"n":1,"tries":"none"}`)),
		"shards": second(ConfigForm.ReadRequest(`{"shards":"none"}`)),
		"burst":  second(ConfigForm.ReadRequest(`{"burst":"none"}`)),
	} {
		if !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s none: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// A string is read like encoding/json reads it, with every escape and every UTF-16 unit, in lower
// and upper case. One exception: half a surrogate pair is refused here, while encoding/json
// replaces it.
func TestEscapesAreThoseOfJSON(t *testing.T) {
	t.Parallel()
	str := func(quoted string) (s string, err error) {
		err = parse(quoted, strict, func(f *fields) { s = f.r.str() })
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

	const noEscape, noCharacter, cut = "an escape that JSON does not know", "escape that is no character",
		"in the middle of its JSON"
	for quoted, problem := range map[string]string{
		`"\x"`: noEscape, `"\`: cut, `"\u12`: cut, `"\u12"`: noCharacter, `"\u12"    `: noCharacter,
		`"\u00g0"`:    noCharacter,
		`"\ud83d\u1"`: noCharacter, `"\ud83d"`: noCharacter, `"\ud83d\u0041"`: noCharacter, `"\ud83dx"`: noCharacter,
		`"\u00e9`: cut,
	} {
		if got, err := str(quoted); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s is read as %q, %v, want %s", quoted, got, err, problem)
		}
	}
}

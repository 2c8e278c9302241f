package native

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

var when = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func fullJob(body string) duly.Job {
	return duly.Job{ID: "a", Queue: "q", Body: []byte(body), Headers: map[string]string{"a": "b"}, Delay: time.Second, Due: when, Priority: 1, Tries: 2, MaxStalls: 3,
		Backoff: "fixed:1s", TTL: time.Hour, Lease: time.Second, OrderKey: "k", Callback: "https://x", OnDone: "target:a", OnDead: "none", Retain: time.Hour, Made: true,
		Merge: duly.Merge{Key: "k", Mode: duly.MergeReplace, MaxWait: time.Hour, Until: duly.UntilLeased}}
}

func stored(body string) duly.Job {
	j := fullJob(body)
	j.Delay, j.Made = 0, false
	return j
}

// oneJob is the request that pushes a full job alone: its queue is in the path.
func oneJob(body string) []byte {
	var batch struct{ Jobs []map[string]any }
	if err := json.Unmarshal(wire.AppendPush(nil, []duly.Job{fullJob(body)}), &batch); err != nil {
		panic(err)
	}
	delete(batch.Jobs[0], "queue")
	text, err := json.Marshal(batch.Jobs[0])
	if err != nil {
		panic(err)
	}

	return text
}

// The settings of a target and the gate of a host, with every member set.
var (
	shownTarget = wire.TargetSettings{URL: "https://x", Method: "PUT", Timeout: time.Second, Success: []int{302}, Permanent: []int{404}, Concurrency: 1,
		Rate: duly.Rate{PerSecond: 1, Burst: 2}, Sign: []string{"v1"}, CA: "c"}
	fullTarget = func() wire.TargetSettings {
		s := shownTarget
		s.Headers, s.Secret = map[string]string{"a": "b"}, "whsec_x"
		return s
	}()
	fullHost = wire.PushHost{Host: "https://x:443", Open: true, Closed: time.Second, Limit: 1, InFlight: 1, HeldBack: 1, Usual: time.Second}
)

// samples are the wire's forms with every member set, beside the type that
// describes them. Bodies come in both spellings.
func samples() []struct {
	form any
	text []byte
} {
	delay, priority := time.Second, 1
	fault := &duly.Error{Code: duly.CodeConflict, Message: "m", State: duly.StateDone, RetryAfter: time.Second, Fields: []duly.FieldError{{Field: "f", Problem: "p"}}}
	update := func(body string) []byte {
		return wire.UpdateForm.Append(nil, duly.Update{Delay: &delay, Due: when, Priority: &priority, Body: []byte(body), Headers: map[string]string{"a": "b"}, Tries: 1,
			MaxStalls: 1, Backoff: "fixed:1s", TTL: time.Hour, Lease: time.Second, Retain: time.Hour})
	}
	info := func(body string) duly.JobInfo {
		return duly.JobInfo{Job: stored(body), State: duly.StateDone, Size: 1, Attempt: 1, Failures: 1, Stalls: 1, PushedAt: when, ExpiresAt: when, LeaseEnd: when, FinishedAt: when, LastError: "e", Result: []byte(body)}
	}
	plain, binary := info("x"), info("\xff")
	problem, _ := wire.AppendProblem(nil, fault, 0)
	config := duly.DefaultQueueConfig().With(duly.QueueConfig{Delivery: duly.DeliverPush, Rate: duly.Rate{PerSecond: 1, Burst: 2}})
	group := duly.DefaultGroupConfig().With(duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys, Filter: "a=b", Idle: time.Hour, Target: "q"}})
	message := func(body string) duly.Message {
		return duly.Message{ID: "a", Key: "k", Headers: map[string]string{"a": "b"}, Body: []byte(body), Delay: time.Second, Due: when}
	}
	place := duly.PositionParts{Millis: when.UnixMilli(), Ordinal: 1}.Position()
	topicConfig := duly.TopicConfig{Shards: 1, Dedupe: time.Hour, Keep: time.Hour, MaxAge: duly.None, MaxCount: 1, MaxBytes: duly.None, Overflow: duly.OverflowDrop}
	return []struct {
		form any
		text []byte
	}{
		{pushForm{}, wire.AppendPush(nil, []duly.Job{fullJob("x"), fullJob("\xff")})},
		{OneJobForm{}, oneJob("x")},
		{OneJobForm{}, oneJob("\xff")},
		{pushedOneForm{}, wire.PushedOneForm.Append(nil, duly.PushResult{ID: "a", Outcome: duly.Exists, State: duly.StateDone})},
		{pushedForm{}, wire.PushedForm.Append(nil, []duly.PushResult{{ID: "a", Outcome: duly.Exists, State: duly.StateDone}, {Err: fault}})},
		{reserveForm{}, wire.ReserveForm.Append(nil, wire.Reserve{ReserveParams: duly.ReserveParams{Queues: []string{"q"}, Max: 1, Lease: time.Second, Consumer: "c", Target: "q"}, Wait: time.Second})},
		{deliveriesForm{}, wire.DeliveriesForm.Append(nil, []duly.Delivery{{Job: stored("x"), Receipt: "r", LeaseEnd: when, Now: when, PushedAt: when, ExpiresAt: when}, {Job: stored("\xff"), LeaseEnd: when, Now: when, PushedAt: when}})},
		{waitForm{}, wire.WaitForm.Append(nil, duly.WaitParams{Queues: []string{"q"}, Timeout: time.Second})},
		{readyForm{}, wire.ReadyForm.Append(nil, true)},
		{canceledAskForm{}, wire.CanceledAskForm.Append(nil, wire.CanceledAsk{After: "c", Wait: time.Second})},
		{canceledForm{}, wire.CanceledForm.Append(nil, wire.Canceled{Canceled: []duly.Canceled{{Queue: "q", IDs: []string{"a"}}, {Queue: "p"}}, Cursor: "c"})},
		{settleForm{}, wire.AppendSettle(nil, []duly.Outcome{{Receipt: "r", As: duly.Nack, Delay: &delay, Error: "e", Result: []byte("x")}, {Receipt: "r", As: duly.Ack, Result: []byte{0}}})},
		{extendForm{}, wire.ExtendForm.Append(nil, wire.Extend{Receipts: []duly.Receipt{"r"}, Lease: time.Second})},
		{resultsForm{}, wire.ResultsForm.Append(nil, []error{nil, fault})},
		{queuesForm{}, wire.AppendNames(nil, "queues", duly.NamePage{Names: []string{"q"}, Next: "q"})},
		{queuesForm{}, wire.QueuesForm.Append(nil, duly.SurveyPage{Queues: []duly.QueueStats{{Name: "q", Stats: duly.Stats{NextDue: when}, Throttle: config.Throttle()}, {Name: "p", Throttle: duly.Throttle{Paused: true, MaxLeased: 1}}, {Name: "r", Err: fault}}, Next: "r"})},
		{queueForm{}, wire.QueueForm.Append(nil, wire.Queue{Name: "q", Config: config, Stats: duly.Stats{NextDue: when, Delivery: duly.DeliverPush}})},
		{ConfigForm{}, wire.ConfigForm.Append(nil, config)},
		{queueForm{}, wire.QueueForm.Append(nil, wire.Queue{Name: "t@g", Config: group, Stats: duly.Stats{NextDue: when, Group: &duly.GroupStats{Key: "k", Consumers: []duly.Consumer{{Name: "c", LastCall: when}}}}})},
		{ConfigForm{}, wire.ConfigForm.Append(nil, group)},
		{publishForm{}, wire.AppendPublish(nil, []duly.Message{message("x"), message("\xff")})},
		{publishedForm{}, wire.PublishedForm.Append(nil, []duly.PublishResult{{Outcome: duly.Exists, Position: place, ID: "a"}, {Err: fault}})},
		{entriesForm{}, wire.EntriesForm.Append(nil, duly.ReadPage{Entries: []duly.Entry{{Message: message("x"), Position: place, EnteredAt: when}, {Message: message("\xff"), Position: place, EnteredAt: when}}, Next: "next:a"})},
		{delayedForm{}, wire.AppendDelayed(nil, duly.DelayedPage{Messages: []duly.Message{message("x"), message("\xff")}, Next: "c"}, true)},
		{topicsForm{}, wire.AppendNames(nil, "topics", duly.NamePage{Names: []string{"t"}, Next: "t"})},
		{groupsForm{}, wire.AppendNames(nil, "groups", duly.NamePage{Names: []string{"g"}, Next: "g"})},
		{fromForm{}, wire.FromForm.Append(nil, duly.FromEnd)},
		{seekForm{}, wire.FromForm.Append(nil, duly.FromEnd)},
		{groupCreatedForm{}, wire.GroupCreatedForm.Append(nil, true)},
		{seekedForm{}, wire.SeekedForm.Append(nil, duly.SeekResult{Clipped: true})},
		{trimmedForm{}, wire.TrimmedForm.Append(nil, true)},
		{TopicConfigForm{}, wire.TopicConfigForm.Append(nil, topicConfig)},
		{topicForm{}, wire.TopicForm.Append(nil, wire.Topic{Name: "t", TopicInfo: duly.TopicInfo{Config: topicConfig, Stats: duly.TopicStats{First: place, Last: place, NextDue: when, Floors: []duly.Floor{{Position: place, Group: "g", Since: when}}}}})},
		{targetSettingsForm{}, wire.TargetSettingsForm.Append(nil, fullTarget)},
		{targetsForm{}, wire.TargetsForm.Append(nil, wire.TargetPage{Targets: []wire.Target{{Name: "a", Settings: shownTarget, HeaderNames: []string{"a"}, OwnSecret: true, OverlapUntil: when, Version: 1, Host: &fullHost}}, Next: "a"})},
		{targetForm{}, wire.TargetForm.Append(nil, wire.Target{Name: "a", Settings: shownTarget, HeaderNames: []string{"a"}, OwnSecret: true, OverlapUntil: when, Version: 1, Host: &fullHost})},
		{pushHostsForm{}, wire.PushHostsForm.Append(nil, []wire.PushHost{fullHost})},
		{rotateForm{}, wire.PushRotateForm.Append(nil, wire.PushRotate{Overlap: &delay, Secret: "s"})},
		{pushSecretForm{}, wire.PushSecretForm.Append(nil, wire.PushSecret{Secret: "a", PrivateKey: "b", PublicKey: "c"})},
		{pushTestForm{}, wire.PushTestForm.Append(nil, wire.PushTest{Status: 500, As: duly.Nack, Error: "e", Took: time.Second, WebhookID: "w"})},
		{requeueForm{}, wire.RequeueForm.Append(nil, duly.RequeueParams{IDs: []string{"a"}, N: 1, Tries: 1, TTL: time.Hour})},
		{requeuedForm{}, wire.RequeuedForm.Append(nil, []duly.RequeueResult{{ID: "a", State: duly.StateReady, Merged: "b", Err: fault}})},
		{purgeForm{}, wire.PurgeForm.Append(nil, wire.Purge{State: duly.StateDead, N: 1})},
		{purgedForm{}, wire.PurgedForm.Append(nil, 1)},
		{RulesForm{}, update("x")}, {RulesForm{}, update("\xff")},
		{infoForm{}, wire.JobForm.Append(nil, plain)}, {infoForm{}, wire.JobForm.Append(nil, binary)},
		{jobsForm{}, wire.AppendJobs(nil, duly.ListPage{Jobs: []duly.JobInfo{plain}, Next: "c"}, true)},
		{problemForm{}, problem},
	}
}

// C14.3: the described forms are the forms of the wire: every member that is
// written is described with its type, and every member that is described is
// written.
func TestTheDescribedFormsAreTheWires(t *testing.T) {
	t.Parallel()
	registry := huma.NewMapRegistry("#/", huma.DefaultSchemaNamer)
	written := map[string]map[string]bool{}
	for _, s := range samples() {
		schema := registry.Schema(reflect.TypeOf(s.form), true, "")
		var v any
		if err := json.Unmarshal(s.text, &v); err != nil {
			t.Fatalf("%T: %v", s.form, err)
		}
		res := huma.ValidateResult{}
		huma.Validate(registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, &res)
		for _, err := range res.Errors {
			t.Errorf("%T: %v in %s", s.form, err, s.text)
		}
		walk(t, registry, schema, v, written)
	}
	for name, schema := range registry.Map() {
		for property := range schema.Properties {
			if !written[name][property] {
				t.Errorf("%s describes %s, which the wire does not write", name, property)
			}
		}
	}
}

func walk(t *testing.T, registry huma.Registry, schema *huma.Schema, v any, written map[string]map[string]bool) {
	t.Helper()
	name := strings.TrimPrefix(schema.Ref, "#/")
	if schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			walk(t, registry, schema.Items, item, written)
		}
	case map[string]any:
		if name == "" { // a map with free keys
			return
		}
		if written[name] == nil {
			written[name] = map[string]bool{}
		}
		for key, member := range v {
			written[name][key] = true
			if inner := schema.Properties[key]; inner == nil {
				t.Errorf("%s does not describe %s", name, key)
			} else {
				walk(t, registry, inner, member, written)
			}
		}
	}
}

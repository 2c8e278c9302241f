package wire

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

var when = time.Date(2030, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// fullJob returns a job with all fields of a push except due.
func fullJob() duly.Job {
	return duly.Job{
		ID: "order:1", Namespace: "shop", Queue: "mail", Body: []byte("hello \"w\\orld\" <ü>\n"),
		Headers: map[string]string{"b": "2", "a": "1"}, Delay: 90 * time.Minute, Priority: -7, Tries: 3,
		MaxStalls: duly.None, Backoff: "15s,3m", TTL: 48 * time.Hour, Lease: 250 * time.Millisecond,
		OrderKey: "kundin 7",
		Merge:    duly.Merge{Key: "k", Mode: duly.MergeReplace, MaxWait: time.Hour, Until: duly.UntilLeased},
		Callback: "https://example.org/x", OnDone: "target:a", OnDead: "none", Retain: duly.None, Made: true,
	}
}

func storedJob() duly.Job {
	j := fullJob()
	j.Delay, j.Made, j.Due = 0, false, when
	return j
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func read[T any](t *testing.T, what string, want T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		same(t, what, got, want)
	}
}

// C14.6, C14.7, C18.58: a reader returns the values that were written.
func TestEveryRequestSurvivesTheWire(t *testing.T) {
	t.Parallel()
	plain := duly.Job{Namespace: "shop", Queue: "q", Body: []byte{}}
	binary := duly.Job{Namespace: "shop", Queue: "q", Body: []byte{0, 0xff, 'a'}, Due: when}
	jobs := []duly.Job{fullJob(), plain, binary}
	read(t, "push", Items[duly.Job]{Values: jobs})(ReadPush(string(AppendPush(nil, jobs)), "shop"))

	res := Reserve{ReserveParams: duly.ReserveParams{Namespace: "shop", Queues: []string{"a", "b"}, Max: 7,
		Lease: time.Minute}, Wait: time.Second}
	read(t, "reserve", res)(ReadReserve(string(ReserveForm.Append(nil, res)), "shop"))
	wait := duly.WaitParams{Namespace: "shop", Queues: []string{"a"}, Timeout: 3 * time.Second}
	read(t, "wait", wait)(ReadWait(string(WaitForm.Append(nil, wait)), "shop"))
	for _, ask := range []CanceledAsk{{}, {After: "01J0000000000000000000000A.7", Wait: 3 * time.Second}} {
		read(t, "canceled", ask)(CanceledAskForm.ReadRequest(string(CanceledAskForm.Append(nil, ask))))
	}

	zero, hour := time.Duration(0), time.Hour
	outcomes := []duly.SettleRequest{
		{Receipt: "r1", As: duly.Ack, Result: []byte("ok")},
		{Receipt: "r2", As: duly.Nack, Delay: &zero, Error: "boom"},
		{Receipt: "r3", As: duly.Release, Delay: &hour}, {Receipt: "r4", As: duly.Bury, Error: "why"},
		{Receipt: "r5", As: duly.Ack, Result: []byte{0}},
		{Receipt: "r6", As: duly.Release, Slow: &zero, Error: "HTTP 429"}, {Receipt: "r7", As: duly.Release, Slow: &hour},
	}
	read(t, "settle", Items[duly.SettleRequest]{Values: outcomes})(ReadSettle(string(AppendSettle(nil, outcomes))))
	ext := Extend{Receipts: []duly.Receipt{"a", "b"}, Lease: time.Minute}
	read(t, "extend", ext)(ReadExtend(string(ExtendForm.Append(nil, ext))))

	priority := 0
	u := duly.Update{Delay: &zero, Priority: &priority, Body: []byte{}, Headers: map[string]string{}, Tries: 2,
		MaxStalls: duly.None,
		Backoff:   "fixed:0s", TTL: duly.None, Lease: time.Minute, Retain: time.Hour}
	read(t, "update", u)(UpdateForm.ReadRequest(string(UpdateForm.Append(nil, u))))
	rq := duly.RequeueParams{IDs: []string{"a", "b"}, Tries: 2, TTL: time.Hour}
	read(t, "requeue", rq)(RequeueForm.ReadRequest(string(RequeueForm.Append(nil, rq))))
	pg := Purge{State: duly.StateDead, N: 3}
	read(t, "purge", pg)(PurgeForm.ReadRequest(string(PurgeForm.Append(nil, pg))))
	dj := DeleteJobs{IDs: []string{"a", "b"}, State: duly.StateDead}
	read(t, "delete jobs", dj)(DeleteJobsForm.ReadRequest(string(DeleteJobsForm.Append(nil, dj))))
	gj := GetJobs{IDs: []string{"a", "b"}, Bodies: true}
	read(t, "get jobs", gj)(GetJobsForm.ReadRequest(string(GetJobsForm.Append(nil, gj))))
	pj := []string{"a", "b"}
	read(t, "promote jobs", pj)(PromoteJobsForm.ReadRequest(string(PromoteJobsForm.Append(nil, pj))))
	cfg := duly.QueueConfig{Shards: 1,
		Defaults: duly.Defaults{Tries: 1, MaxStalls: duly.None, Backoff: "fixed:5s", Lease: time.Second,
			TTL: duly.None},
		DeadAge: duly.None, DeadCount: 5, MaxJobs: duly.None, MaxLeased: 9, Rate: duly.Rate{PerSecond: 0.5, Burst: 3},
		Adapt: duly.Adapt{Floor: 0.05}}
	read(t, "config", cfg)(ConfigForm.ReadRequest(string(ConfigForm.Append(nil, cfg))))
	reopen := duly.QueueConfig{Reopen: true}
	read(t, "reopen", reopen)(ConfigForm.ReadRequest(string(ConfigForm.Append(nil, reopen))))
	if _, err := ConfigForm.ReadRequest(`{"closed":"10s"}`); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("closed has another value than none: %v", err)
	}
	fixed := duly.QueueConfig{Adapt: duly.Adapt{Floor: duly.None}}
	read(t, "fixed limits", fixed)(ConfigForm.ReadRequest(string(ConfigForm.Append(nil, fixed))))
	for _, bad := range []string{`{}`, `{"floor":0}`, `{"floor":-1}`, `{"floor":"none"}`, `{"floor":1e999}`, `"all"`, `0.5`} {
		if _, err := ConfigForm.ReadRequest(`{"adapt":` + bad + `}`); !errors.Is(err, duly.ErrInvalid) {
			t.Errorf("adapt is %s: %v", bad, err)
		}
	}
	read(t, "check", true)(ReadCheck(string(CheckForm.Append(nil, true))))
	tok := contract.Token{Namespace: "*", Rights: contract.RightConsume | contract.RightAdmin, Description: "ci",
		Limits: contract.Limits{Consume: 3, Per: time.Hour}}
	read(t, "token", tok)(NewTokenForm.ReadRequest(string(NewTokenForm.Append(nil, tok))))
	for _, l := range []contract.Limits{{}, {Produce: 1, Per: time.Second},
		{Produce: 2, Consume: 3, Per: time.Minute}} {
		read(t, "limits", l)(ReadLimits(string(LimitTokenForm.Append(nil, l))))
	}
	if _, err := ReadLimits(`{}`); !errors.Is(err, duly.ErrInvalid) {
		t.Errorf("a change of limits without any: %v", err)
	}
}

// C13.1: every answer is read as it was written, with its errors.
func TestEveryAnswerSurvivesTheWire(t *testing.T) {
	t.Parallel()
	conflict := contract.Conflict(duly.StateLeased, "is leased")
	invalid := contract.Invalid("priority", "is 1001")
	pushed := []duly.PushResult{{ID: "a", Status: duly.Created}, {ID: "b", Status: duly.Exists, State: duly.StateDone},
		{Err: invalid}}
	read(t, "push", pushed)(PushedForm.ReadAnswer(string(PushedForm.Append(nil, pushed))))
	deliveries := []duly.Delivery{{Job: storedJob(), Receipt: "q:0:X:1", Attempt: 2, Failures: 1, Stalls: 3,
		LeaseEnd: when, Now: when, PushedAt: when, ExpiresAt: when}}
	read(t, "deliveries", deliveries)(ReadDeliveries(string(DeliveriesForm.Append(nil, deliveries)), "shop"))
	read(t, "ready", true)(ReadyForm.ReadAnswer(string(ReadyForm.Append(nil, true))))
	for _, c := range []Canceled{
		{Any: true, Cursor: "c"},
		{Canceled: []contract.Canceled{{Queue: "q", IDs: []string{"a", "b"}}, {Queue: "p"},
			{Queue: "r", IDs: []string{}}}, Cursor: "c"},
	} {
		text := CanceledForm.Append(nil, c)
		read(t, "canceled", c)(CanceledForm.ReadAnswer(string(text)))
		if n := SizeOfCanceled(c); n < len(text) {
			t.Errorf("%s has %d bytes, estimated were %d", text, len(text), n)
		}
	}
	errs := []error{nil, duly.ErrLeaseLost, invalid}
	read(t, "results", errs)(ResultsForm.ReadAnswer(string(ResultsForm.Append(nil, errs))))

	info := duly.JobInfo{Job: storedJob(), State: duly.StateDead, Size: 21, Attempt: 1, Failures: 2, Stalls: 3,
		PushedAt: when, ExpiresAt: when,
		LeaseEnd: when, FinishedAt: when, LastError: "boom", Result: []byte{1, 0}}
	read(t, "job", info)(ReadJob(string(JobForm.Append(nil, info)), "shop"))
	page := duly.ListPage{Jobs: []duly.JobInfo{info}, Next: "c"}
	read(t, "jobs", page)(ReadJobs(string(AppendJobs(nil, page, true)), "shop"))
	found := contract.Found{Jobs: []duly.JobInfo{info}, More: true}
	read(t, "found", found)(ReadFound(string(FoundForm.Append(nil, found)), "shop"))
	x := fullExplanation()
	read(t, "explanation", x)(ExplainForm.ReadAnswer(string(ExplainForm.Append(nil, x))))
	keys := contract.KeyPage{Next: "c", Keys: []contract.KeyInfo{
		{Key: "ä\u202e\"", Head: contract.KeyHead{ID: "a", State: duly.StateLeased, Due: when, LeaseEnd: when.Add(time.Second)},
			Waiting: 1000, More: true, FirstDue: when},
		{Key: "b", Head: contract.KeyHead{ID: "b", State: duly.StateDelayed, Due: when}}, {Key: "c", Waiting: 1, FirstDue: when},
	}}
	read(t, "keys", keys)(KeysForm.ReadAnswer(string(KeysForm.Append(nil, keys))))
	if n, size := len(KeysForm.Append(nil, keys)), SizeOfKeys(&keys); n > size {
		t.Errorf("a page of %d bytes has the size %d", n, size)
	}
	page.Jobs[0].Body = nil
	read(t, "jobs without bodies", page)(ReadJobs(string(AppendJobs(nil, page, false)), "shop"))
	names := duly.NamePage{Names: []string{"a", "b"}, Next: "b"}
	read(t, "names", names)(ReadNames(string(AppendNames(nil, "queues", names)), "queues"))
	held := contract.Throttle{Paused: true, MaxLeased: 3, Rate: duly.Rate{PerSecond: 0.5, Burst: 2}}
	free := contract.Throttle{MaxLeased: duly.None, Rate: duly.Rate{PerSecond: duly.None}}
	survey := contract.SurveyPage{Queues: []contract.QueueStats{{Name: "c", Throttle: free},
		{Name: "a", Throttle: held, Stats: duly.Stats{OldestReady: time.Second, NextDue: when,
			Sizes: duly.Sizes{Ready: 2}, Counters: duly.Counters{Pushed: 3}}}, {Name: "b", Err: duly.ErrUnavailable}},
		Next: "b"}
	read(t, "survey", survey)(ReadSurvey(string(QueuesForm.Append(nil, survey))))
	q := Queue{Name: "mail", Config: contract.DefaultQueueConfig(),
		Stats: duly.Stats{OldestReady: time.Second, NextDue: when,
			Sizes:    duly.Sizes{Delayed: 1, Ready: 2, Blocked: 3, Leased: 4, Dead: 5, Done: 6},
			Counters: duly.Counters{Pushed: 1 << 60, Dropped: 7}}}
	q.Config.Paused = true
	q.Config.Closing = duly.Closing{Until: when, Reason: "HTTP 429"}
	q.Stats.Closing, q.Stats.Counters.Slowed = q.Config.Closing, 2
	q.Stats.Delivery = duly.DeliverPull
	q.Config.Adapt.Floor, q.Stats.Factor, q.Stats.Probing = 0.05, 0.123456, 2
	read(t, "queue", q)(QueueForm.ReadAnswer(string(QueueForm.Append(nil, q))))
	for _, tokens := range []int64{duly.None, 0, 1, 1 << 40} { // an absent number is none, and 0 is not absent
		q.Stats.Tokens, q.Stats.NextToken = tokens, time.Time{}
		if tokens == 0 {
			q.Stats.NextToken = when
		}
		read(t, "queue with tokens", q)(QueueForm.ReadAnswer(string(QueueForm.Append(nil, q))))
	}
	q.Config = contract.PatchConfig(q.Config,
		duly.QueueConfig{Delivery: duly.DeliverPush,
			Push: duly.PushConfig{URL: "https://a.example/", OnDead: "target:a"}})
	read(t, "push queue", q)(QueueForm.ReadAnswer(string(QueueForm.Append(nil, q))))
	requeued := []duly.RequeueResult{{ID: "a", State: duly.StateReady}, {ID: "b", Merged: "c"},
		{ID: "d", Err: conflict}}
	read(t, "requeued", requeued)(RequeuedForm.ReadAnswer(string(RequeuedForm.Append(nil, requeued))))
	read(t, "purged", 12)(PurgedForm.ReadAnswer(string(PurgedForm.Append(nil, 12))))

	report := &contract.CheckReport{Jobs: 9, Repaired: 1,
		Faults: []contract.Fault{{Kind: "k", Queue: duly.Q("q"), ID: "i", Detail: "d", Repaired: true}}}
	for _, line := range []CheckLine{{Done: 1, Total: 2}, {Report: report}, {Err: conflict}} {
		read(t, "check", line)(CheckLineForm.ReadAnswer(string(AppendCheckLine(nil, line))))
	}
	tok := Token{Secret: "duly_x",
		Token: contract.Token{Hash: [32]byte{1, 31: 255}, Namespace: "a", Rights: contract.RightProduce,
			CreatedAt: when,
			Limits:    contract.Limits{Produce: 2, Consume: 3, Per: time.Minute}}}
	read(t, "token", tok)(MadeTokenForm.ReadAnswer(string(MadeTokenForm.Append(nil, tok))))
	tokens := contract.TokenPage{Tokens: []contract.Token{tok.Token,
		{Hash: [32]byte{2}, Namespace: "*", Rights: contract.RightAdmin, Description: "d", CreatedAt: when}}, Next: "c"}
	read(t, "tokens", tokens)(TokensForm.ReadAnswer(string(TokensForm.Append(nil, tokens))))
	for _, bad := range []string{`{"tokens":[{"id":"01"}]}`, `{"tokens":[{"id":"` + strings.Repeat("g", 64) + `"}]}`} {
		if _, err := TokensForm.ReadAnswer(bad); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestProblemsRebuildTheSameError(t *testing.T) {
	t.Parallel()
	for _, code := range duly.Codes() {
		e := &duly.Error{Code: code, Message: "m", State: duly.StateDone, RetryAfter: time.Second,
			Fields: []duly.FieldError{{Field: "f", Problem: "p"}}}
		text, status := AppendProblem(nil, e, 0)
		got, ok := ReadProblem(string(text))
		if !ok || status != code.HTTPStatus() || got.Code != code {
			t.Errorf("%s: status %d, read back as %s", code, status, got.Code)
		}
		if Public(e) == e {
			same(t, string(code), got, e)
		}
	}
	for _, text := range []string{"<html>", `{"title":"Not Found","status":404}`, `{"code":404}`, `{"code":""}`} {
		if e, ok := ReadProblem(text); ok {
			t.Errorf("%s is read as %v", text, e)
		}
	}
}

// C13.16: the answer has no details of an internal error.
func TestInternalDetailsStayInside(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("secret"), contract.Errorf(duly.CodeInternal, "secret"),
		contract.Errorf(duly.CodeUnavailable, "secret 10.0.0.1")} {
		if text, _ := AppendProblem(nil, err, 0); strings.Contains(string(text), "secret") {
			t.Errorf("%v leaves the process as %s", err, text)
		}
	}
}

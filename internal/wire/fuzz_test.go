package wire

import (
	"errors"
	"testing"

	"github.com/dulymq/duly"
)

var seeds = []string{
	``, `{}`, `[]`, `null`, `{"jobs":[{"queue":"q","body":"x","delay":"1s","merge":{"key":"k"},"headers":{"a":"b"},` +
		`"priority":-3,"max_stalls":"none"}]}`,
	`{"jobs":[{"body":"\ud83d\ude00\u0000\n","body_base64":"AP8="}]}`,
	`{"queues":["a","b"],"max":3,"lease":"1m","wait":"10m"}`,
	`{"outcomes":[{"receipt":"q:0:X:1","as":"nack","delay":"0s","error":"e"},{"as":"ack","result_base64":"AA=="}]}`,
	`{"receipts":["a"],"lease":"1s"}`,
	`{"delay":"1h","due":"2030-01-01T00:00:00Z","body":"","headers":{}}`,
	`{"shards":1,"defaults":{"tries":3,"retain":"1h"},"rate":0.5,"burst":3,"max_jobs":"none"}`,
	`{"after":"a.1","wait":"1s"}`,
	`{"canceled":[{"queue":"q","ids":["a"]},{"queue":"p","ids":null}],"any":false,"cursor":"a.1"}`,
	`{"ids":["a"],"n":3,"ttl":"none"}`, `{"state":"dead","n":3}`,
	`{"namespace":"*","rights":["admin"],"limits":{"produce":3,"per":"1m"}}`,
	`{"tokens":[{"id":"00","limits":{}}],"next":"x"}`, `{"repair":true}`,
	`{"queues":[{"name":"a","stats":{"sizes":{"ready":1},"counters":{"pushed":1}}},` +
		`{"name":"b","error":{"code":"corrupt"}}],"next":"b"}`,
	`{"deliveries":[{"id":"a","receipt":"r","now":"2030-01-01T00:00:00.000Z"}]}`,
	`{"results":[{"error":{"code":"invalid","fields":[{"field":"f","problem":"p"}],"state":"done"}}]}`,
	`{"type":"about:blank","status":400,"code":"invalid"}`, `{"report":{"faults":[{"kind":"k"}]}}`,
	`{"name":"q","config":{"rate":"none"},"stats":{"sizes":{"ready":1}}}`,
	`{"messages":[{"id":"a","key":"k","body":"x","delay":"1s","headers":{"a":"b"}},` +
		`{"position":"01J0000000000000000000000A","entered_at":"2030-01-01T00:00:00.000Z"}],"next":"next:a","gap":3}`,
	`{"name":"t","config":{"dedupe":"1h","max_bytes":"none","overflow":"drop"},"stats":{"floors":[{"shard":1,` +
		`"group":"g"}],"counters":{"published":1}}}`,
	`{"from":"start"}`, `{"order":"key","max_held":5,"filter":"a=b","idle":"1h","target":"q"}`,
	`{"stats":{"group":{"lag":1,"consumers":[{"name":"c"}]}}}`,
	`{"a":[[[[{"b":[1,2.5e-3,true,false,null]}]]]]}`, `{"x":1e999,"x":1}`, "\xff", `"`, `{"a`, `{"a":"\u12`, `{"a":01}`,
}

// No reader of a request panics. Its errors are invalid or too_large.
func FuzzRequests(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		judge := func(err error) {
			if err != nil && !errors.Is(err, duly.ErrInvalid) && !errors.Is(err, duly.ErrTooLarge) {
				t.Errorf("%q: %v", text, err)
			}
		}
		jobs, err := ReadPush(text, "n")
		judge(err)
		if err == nil { // checks that the value can be written and read again
			again, err := ReadPush(string(AppendPush(nil, jobs.Values)), "n")
			if err != nil || len(again.Values) != len(jobs.Values) {
				t.Errorf("%q: read, written, and read again: %v", text, err)
			}
		}

		for _, fault := range jobs.Errs {
			judge(fault)
		}
		messages, err := ReadPublish(text, events)
		judge(err)
		for _, fault := range messages.Errs {
			judge(fault)
		}
		outcomes, err := ReadSettle(text)
		judge(err)
		for _, fault := range outcomes.Errs {
			judge(fault)
		}

		_, err = ReadReserve(text, "n")
		judge(err)
		_, err = ReadWait(text, "n")
		judge(err)
		_, err = CanceledAskForm.ReadRequest(text)
		judge(err)
		_, err = ReadExtend(text)
		judge(err)
		_, err = UpdateForm.ReadRequest(text)
		judge(err)
		_, err = ConfigForm.ReadRequest(text)
		judge(err)
		_, err = RequeueForm.ReadRequest(text)
		judge(err)
		_, err = PurgeForm.ReadRequest(text)
		judge(err)
		_, err = DeleteJobsForm.ReadRequest(text)
		judge(err)
		_, err = GetJobsForm.ReadRequest(text)
		judge(err)
		_, err = PromoteJobsForm.ReadRequest(text)
		judge(err)
		_, err = ReadCheck(text)
		judge(err)
		_, err = NewTokenForm.ReadRequest(text)
		judge(err)
		_, err = ReadLimits(text)
		judge(err)
		_, err = TopicConfigForm.ReadRequest(text)
		judge(err)
		_, err = ReadFrom(text)
		judge(err)
		judge(ReadEmpty(text))
	})
}

// No reader of an answer panics, for any text of a server or a proxy.
func FuzzAnswers(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		PushedForm.ReadAnswer(text)
		ReadDeliveries(text, "n")
		ReadyForm.ReadAnswer(text)
		CanceledForm.ReadAnswer(text)
		ResultsForm.ReadAnswer(text)
		ReadJob(text, "n")
		ReadJobs(text, "n")
		ReadNames(text, "queues")
		QueueForm.ReadAnswer(text)
		RequeuedForm.ReadAnswer(text)
		PurgedForm.ReadAnswer(text)
		CheckLineForm.ReadAnswer(text)
		MadeTokenForm.ReadAnswer(text)
		TokensForm.ReadAnswer(text)
		ReadProblem(text)
		PublishedForm.ReadAnswer(text)
		ReadEntries(text, events)
		ReadDelayed(text, events)
		ReadDelayedMessage(text, events)
		TopicForm.ReadAnswer(text)
		GroupCreatedForm.ReadAnswer(text)
		SeekedForm.ReadAnswer(text)
		TrimmedForm.ReadAnswer(text)
	})
}

// The reader and encoding/json agree about valid JSON, except for texts that the reader refuses
// intentionally.
func FuzzSkip(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := parse(text, lenient, func(f *fields) { f.r.skip() })
		if err == nil && !jsonValid(text) {
			t.Errorf("%q is no JSON, but was read", text)
		}
	})
}

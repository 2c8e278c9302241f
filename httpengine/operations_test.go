package httpengine_test

import (
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C14.90: each call is one request of the documented form.
func TestEachCallOfOperationsIsOneRequest(t *testing.T) {
	const one = `{"id":"A","kind":"requeue","queue":"mail","filter":"all","group":"0123456789ab","job_state":"dead",` +
		`"state":"waiting","reason":"waits","canary":{"jobs":10,"then":"wait","succeeded":7,"failed":1},"rate":100,` +
		`"found":300,"counted":true,"taken":10,"done":8,"skipped":1,"failed":1,"started":"2030-01-01T00:00:00.000Z",` +
		`"answers":[{"at":"2030-01-01T00:00:01.000Z","id":"a","outcome":"skipped","error":"gone"}],"new_field":1}`
	serve := func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method == "GET" && req.URL.Path == "/v1/shop/operations":
			reply(w, http.StatusOK, `{"operations":[`+one+`],"next":"A"}`)
		case req.Method == "GET" || req.URL.Path == "/v1/shop/operations":
			reply(w, http.StatusOK, one)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
	inBubble(t, serve, func(t *testing.T, r *rig) {
		o, ctx := r.Operations(), t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		want := contract.Operation{
			ID: "A", Namespace: "shop", Kind: contract.OperationRequeue, Queue: "mail", Filter: "all", Group: "0123456789ab",
			JobState: duly.StateDead, State: contract.OperationWaiting, Reason: "waits",
			Canary: &contract.OperationCanary{Jobs: 10, Then: "wait", Succeeded: 7, Failed: 1}, Rate: 100, Found: 300,
			Counted: true, Taken: 10, Done: 8, Skipped: 1, Failed: 1, Started: begin,
			Answers: []contract.OperationAnswer{{At: begin.Add(time.Second), ID: "a", Outcome: "skipped", Error: "gone"}},
		}
		got, err := o.Start(ctx, contract.NewOperation{
			Kind: contract.OperationRequeue, Queue: "mail", Group: "0123456789ab", Rate: 100, Tries: 3, TTL: time.Hour,
			Canary: &contract.OperationCanary{Jobs: 10, Then: "wait"},
		})
		if must(err); !reflect.DeepEqual(got, want) {
			t.Errorf("a start returns %+v", got)
		}
		list, next, err := o.List(ctx, duly.PageParams{Limit: 7, Cursor: "B"})
		if must(err); len(list) != 1 || next != "A" || list[0].Namespace != "shop" {
			t.Errorf("the list has %+v, %q", list, next)
		}
		got, err = o.Get(ctx, "A/../B")
		if must(err); !reflect.DeepEqual(got, want) {
			t.Errorf("a get returns %+v", got)
		}
		must(o.Pause(ctx, "A"))
		must(o.Continue(ctx, "A"))
		must(o.Stop(ctx, "A"))
		_, err = o.Start(ctx, contract.NewOperation{
			Kind: contract.OperationDelete, Queue: "mail", IDs: []string{"a", "b"}, State: duly.StateDead,
		})
		must(err)
		if _, _, err := o.List(ctx, duly.PageParams{Limit: -1}); duly.CodeOf(err) != duly.CodeInvalid {
			t.Errorf("a bad page returns %v", err)
		}

		wantCalls := []string{
			`POST /v1/shop/operations {"kind":"requeue","queue":"mail","group":"0123456789ab","rate":100,` +
				`"canary":{"jobs":10,"then":"wait"},"tries":3,"ttl":"1h"}`,
			"GET /v1/shop/operations?cursor=B&limit=7 ", "GET /v1/shop/operations/A%252F..%252FB ",
			"POST /v1/shop/operations/A/pause ", "POST /v1/shop/operations/A/continue ", "POST /v1/shop/operations/A/stop ",
			`POST /v1/shop/operations {"kind":"delete","queue":"mail","ids":["a","b"],"state":"dead"}`,
		}
		var calls []string
		for _, s := range r.requests() {
			calls = append(calls, s.line+" "+s.body)
		}
		if fmt.Sprint(calls) != fmt.Sprint(wantCalls) {
			t.Errorf("the calls are\n%q, want\n%q", calls, wantCalls)
		}
	})
}

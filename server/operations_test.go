package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/eventually"
)

const operationsPath = "/v1/default/operations"

// operation is an operation as callers see it.
type operation struct {
	ID, State, By, Filter, Queue string
	Found, Done, Skipped         int
	Answers                      []struct{ ID, Outcome string }
}

// runOperations runs the operations of the server until the test ends.
func (f *fixture) runOperations() {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); f.operations.Run(ctx) }()
	f.t.Cleanup(func() { cancel(); <-over })
}

// operate starts an operation and waits until it is done.
func (f *fixture) operate(body string, caller ...string) operation {
	f.t.Helper()
	f.runOperations()
	return f.awaitOperation(f.started(body, caller...).ID, "done")
}

// started starts an operation.
func (f *fixture) started(body string, caller ...string) (o operation) {
	f.t.Helper()
	a := f.send("POST", operationsPath, body, caller...)
	if err := json.Unmarshal([]byte(a.body), &o); err != nil || a.status != http.StatusOK {
		f.t.Fatalf("the start has the status %d: %s", a.status, a.body)
	}
	return o
}

func (f *fixture) awaitOperation(id, state string) (o operation) {
	f.t.Helper()
	eventually.True(f.t, "the operation is "+state, func() bool {
		a := f.send("GET", operationsPath+"/"+id, "")
		return json.Unmarshal([]byte(a.body), &o) == nil && o.State == state
	})
	return o
}

// bury makes n dead jobs in the queue mail.
func (f *fixture) bury(n int) {
	f.t.Helper()
	for range n {
		f.push("mail", "x")
		d, err := f.engine.Reserve(f.t.Context(), duly.ReserveParams{Queues: []string{"mail"}, Max: 1})
		if err != nil || len(d) != 1 {
			f.t.Fatal(len(d), err)
		}
		_, err = f.engine.Settle(f.t.Context(), "", []duly.SettleRequest{
			{Receipt: d[0].Receipt, As: duly.Bury, Error: "disk is full"},
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// C14.90: the routes start, list, show, pause, continue and stop an operation.
func TestRoutesOfOperations(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.bury(3)
	o := f.started(`{"kind":"requeue","queue":"mail","rate":100,"canary":{"jobs":1}}`, "admin")
	if o.State != "queued" || o.Queue != "mail" || o.By == "" || !strings.HasPrefix(o.Filter, "all dead jobs") {
		t.Errorf("it begins as %+v", o)
	}

	path := operationsPath + "/" + o.ID
	for _, step := range []struct {
		call, state string
		status      int
	}{
		{"pause", "paused", 204}, {"pause", "paused", 204}, {"continue", "queued", 204}, {"continue", "queued", 204},
		{"stop", "stopped", 204}, {"stop", "stopped", 204}, {"continue", "stopped", 409}, {"pause", "stopped", 409},
	} {
		a := f.send("POST", path+"/"+step.call, "", "admin")
		if now := f.send("GET", path, "", "admin").body; a.status != step.status ||
			!strings.Contains(now, `"state":"`+step.state+`"`) {
			t.Errorf("%s has the status %d, and then: %s", step.call, a.status, now)
		}
	}

	f.started(`{"kind":"purge","queue":"mail","state":"dead"}`, "admin")
	first := f.send("GET", operationsPath+"?limit=1", "", "admin")
	var page struct {
		Operations []operation
		Next       string
	}
	if err := json.Unmarshal([]byte(first.body), &page); err != nil || len(page.Operations) != 1 || page.Next == "" {
		t.Fatalf("the first page is %s", first.body)
	}
	second := f.send("GET", operationsPath+"?cursor="+page.Next, "", "admin").body
	if !strings.Contains(second, o.ID) || !strings.Contains(second, `"next":""`) {
		t.Errorf("the second page is %s", second)
	}
	f.runOperations()
	if o := f.awaitOperation(page.Operations[0].ID, "done"); o.Done != 3 || o.Found != 3 || len(o.Answers) != 3 {
		t.Errorf("the purge ends as %+v", o)
	}
}

// C14.102: a caller needs the right of the route for the same change, to start an operation and to change one. Another
// one may see its numbers, but no job.
func TestRightsOfOperations(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	all := []string{"none", "unknown", "produce", "consume", "admin", "operator", "reader", "foreign", "both"}
	secret, _, err := f.guard.Create(t.Context(),
		contract.Token{Namespace: "default", Rights: contract.RightProduce | contract.RightConsume})
	if err != nil {
		t.Fatal(err)
	}
	f.tokens["both"] = secret

	for _, tt := range []struct{ body, may string }{
		{`{"kind":"requeue","queue":"video"}`, "admin operator"},
		{`{"kind":"requeue","queue":"video","ids":["a"]}`, "admin operator"},
		{`{"kind":"purge","queue":"video","state":"dead"}`, "admin operator"},
		{`{"kind":"delete","queue":"video","ids":["a"]}`, "admin operator produce both"},
		{`{"kind":"delete","queue":"video","group":"0123456789ab"}`, "admin operator both"},
		{`{"kind":"promote","queue":"video","ids":["a"]}`, "admin operator produce both"},
		{`{"kind":"promote","queue":"video"}`, "admin operator both"},
	} {
		id := f.started(tt.body, "admin").ID
		for _, caller := range all {
			may := strings.Contains(" "+tt.may+" ", " "+caller+" ")
			for _, call := range []string{"", "/pause", "/continue", "/stop"} {
				path, body := operationsPath+"/"+id+call, ""
				if call == "" {
					path, body = operationsPath, tt.body
				}
				a := f.send("POST", path, body, caller)
				if refused := a.status == 401 || a.status == 403; refused == may || !refused && a.status > 204 {
					t.Errorf("%s with the token %s, %s: %d", tt.body, caller, path, a.status)
				}
				if call == "/stop" && may { // the next caller needs one that has not ended
					id = f.started(tt.body, "admin").ID
				}
			}
		}
	}

	// The engine of this fixture has no such job, so each answer names it as skipped.
	f.runOperations()
	for _, tt := range []struct{ body, see string }{
		{`{"kind":"purge","queue":"mail","state":"dead"}`, "consume admin reader both"},
		{`{"kind":"delete","queue":"mail","ids":["secret-id"]}`, "produce consume admin reader both"},
		{`{"kind":"requeue","queue":"mail","ids":["secret-id"]}`, "consume admin reader both"},
	} {
		f.bury(1)
		f.clock.Advance(1)
		id := f.awaitOperation(f.started(tt.body, "admin").ID, "done").ID
		for _, caller := range []string{"produce", "consume", "admin", "reader", "both"} {
			a := f.send("GET", operationsPath+"/"+id, "", caller)
			sees := strings.Contains(a.body, `"answers"`)
			if want := strings.Contains(" "+tt.see+" ", " "+caller+" "); a.status != 200 || sees != want ||
				!strings.Contains(a.body, `"taken":1`) {
				t.Errorf("%s with the token %s: %d %s", tt.body, caller, a.status, a.body)
			}
			if list := f.send("GET", operationsPath, "", caller).body; strings.Contains(list, "answers") {
				t.Errorf("the list of %s has %s", caller, list)
			}
		}
	}
}

// C14.90: a bad start is refused with the field and starts nothing.
func TestBadStartsOfOperations(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	for _, tt := range []struct {
		body, field string
		status      int
	}{
		{`{"kind":"destroy","queue":"mail"}`, "kind", 403}, // an unknown kind needs admin
		{`{"kind":"delete","queue":"a/b","ids":["a"]}`, "queue", 400},
		{`{"kind":"delete","queue":"mail","ids":["a b"]}`, "ids", 400},
		{`{"kind":"delete","queue":"mail","ids":["a"],"rate":-1}`, "rate", 400},
		{`{"kind":"delete","queue":"mail","ids":["a"],"state":"gone"}`, "state", 400},
		{`{"kind":"delete","queue":"mail","ids":["a"],"nonsense":1}`, "nonsense", 400},
		{`{"kind":"delete","queue":"mail","ids":[` + strings.Repeat(`"a",`, 1000) + `"a"]}`, "ids", 400},
		{`{"kind":"delete","queue":"` + strings.Repeat("x", 1<<20) + `"}`, "request", 413},
		{``, "", 400},
	} {
		a := f.send("POST", operationsPath, tt.body, "produce")
		if a.status != tt.status || tt.status == 400 && !strings.Contains(a.body, tt.field) || len(a.body) > 2000 {
			t.Errorf("%.80s: %d %.300s", tt.body, a.status, a.body)
		}
	}
	for _, id := range []string{"x", "..%5c..", "%00", strings.Repeat("x", 4000)} {
		a := f.send("GET", operationsPath+"/"+id, "")
		if a.status != 404 && a.status != 400 || len(a.body) > 1000 {
			t.Errorf("%.20s: %d %.300s", id, a.status, a.body)
		}
	}
	if a := f.send("GET", operationsPath, ""); a.body != `{"operations":[],"next":""}` {
		t.Errorf("the list has %s", a.body)
	}
	if a := f.send("GET", operationsPath+"?cursor=x&limit=0", ""); a.status != 400 {
		t.Errorf("a bad page has the status %d", a.status)
	}
}

// C14.103: the metrics count operations by state, and their jobs.
func TestMetricsOfOperations(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.bury(3)
	f.clock.Advance(1)
	first := f.started(`{"kind":"requeue","queue":"mail"}`)
	f.send("POST", operationsPath+"/"+f.started(`{"kind":"requeue","queue":"mail"}`).ID+"/pause", "")
	f.operate(`{"kind":"delete","queue":"mail","ids":["none"]}`)
	f.awaitOperation(first.ID, "done")
	text, _ := f.scrape()
	for _, want := range []string{
		`duly_operations{state="paused"} 1`, `duly_operations{state="done"} 2`, `duly_operations{state="failed"} 0`,
		`duly_operation_jobs_total{kind="requeue",outcome="done"} 3`,
		`duly_operation_jobs_total{kind="delete",outcome="skipped"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %s: %s", want, fmt.Sprint(text))
		}
	}
}

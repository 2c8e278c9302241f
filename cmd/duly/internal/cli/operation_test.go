package cli

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/open"
)

// fakeOperations is a server with operations.
type fakeOperations struct {
	started []contract.NewOperation
	changed []string
	// steps are the answers of Get, the last one repeated. An empty one is a server that does not answer.
	steps []contract.Operation
}

// operating is an engine with fakeOperations.
type operating struct {
	unclosable
	fake *fakeOperations
}

func (o operating) operations() operationStore { return o.fake }

func (f *fakeOperations) Start(_ context.Context, n contract.NewOperation) (contract.Operation, error) {
	f.started = append(f.started, n)
	return contract.Operation{ID: "OP", Kind: n.Kind, Queue: n.Queue, Filter: "all dead jobs", State: "queued"}, nil
}

func (f *fakeOperations) List(_ context.Context, p duly.PageParams) ([]contract.Operation, string, error) {
	if p.Cursor != "" {
		return nil, "", nil
	}
	return f.steps[:min(p.Limit, len(f.steps))], f.steps[0].ID, nil
}

func (f *fakeOperations) Get(_ context.Context, id string) (contract.Operation, error) {
	o := f.steps[0]
	if len(f.steps) > 1 {
		f.steps = f.steps[1:]
	}
	switch {
	case o.ID == "":
		return o, duly.ErrUnavailable
	case o.ID != id:
		return o, contract.Errorf(duly.CodeNotFound, "no operation %s", id)
	}
	return o, nil
}

func (f *fakeOperations) Pause(_ context.Context, id string) error { return f.change("pause", id) }
func (f *fakeOperations) Continue(_ context.Context, id string) error {
	return f.change("continue", id)
}
func (f *fakeOperations) Stop(_ context.Context, id string) error { return f.change("stop", id) }

func (f *fakeOperations) change(call, id string) error {
	f.changed = append(f.changed, call+" "+id)
	return nil
}

// newOperations returns fakeOperations with the queue emails and a function that runs commands with it.
func newOperations(t *testing.T) (*fakeOperations, *rig, func(args ...string) (code int, stdout, stderr string)) {
	r := newRig(t)
	r.clock = clock.NewFake()
	if _, err := r.engine.Push(t.Context(), []duly.Job{{Queue: "emails"}}); err != nil {
		t.Fatal(err)
	}
	f := &fakeOperations{}
	return f, r, func(args ...string) (int, string, string) {
		var out, errs logtest.Log
		env := r.env(&out, &errs, append([]string{"operation"}, args...)...)
		env.Clock = clock.System() // of a bubble, where a command follows an operation
		env.Open = func(context.Context, string, ...open.Option) (contract.Engine, error) {
			return operating{unclosable{r.engine}, f}, nil
		}
		code := Run(t.Context(), env)
		return code, out.String(), errs.String()
	}
}

// C15.90: operation start sends the arguments and flags. A deletion needs a confirmation, and the queue must exist.
func TestOperationStart(t *testing.T) {
	t.Parallel()
	f, _, run := newOperations(t)
	for _, tt := range []struct {
		args string
		want contract.NewOperation
	}{
		{"requeue emails", contract.NewOperation{Kind: "requeue", Queue: "emails"}},
		{"requeue emails --group c4e7bfbe4fea --rate 100/s --canary 10 --tries 3 --ttl 1h", contract.NewOperation{
			Kind: "requeue", Queue: "emails", Group: "c4e7bfbe4fea", Rate: 100, Tries: 3, TTL: time.Hour,
			Canary: &contract.OperationCanary{Jobs: 10},
		}},
		{"requeue emails a b --canary 5 --then continue --rate none", contract.NewOperation{
			Kind: "requeue", Queue: "emails", IDs: []string{"a", "b"}, Canary: &contract.OperationCanary{Jobs: 5, Then: "continue"},
		}},
		{"delete emails a --state dead --yes", contract.NewOperation{
			Kind: "delete", Queue: "emails", IDs: []string{"a"}, State: duly.StateDead,
		}},
		{"purge emails --state done --yes", contract.NewOperation{Kind: "purge", Queue: "emails", State: duly.StateDone}},
	} {
		f.started = nil
		code, out, errs := run(append([]string{"start"}, strings.Fields(tt.args)...)...)
		if tt.want.IDs == nil {
			tt.want.IDs = []string{}
		}
		if code != exitOK || out != "queued OP: "+string(tt.want.Kind)+" of emails, all dead jobs\n" {
			t.Errorf("%s: exit %d, %s%s", tt.args, code, out, errs)
		}
		if len(f.started) != 1 || !reflect.DeepEqual(f.started[0], tt.want) {
			t.Errorf("%s starts %+v, want %+v", tt.args, f.started, tt.want)
		}
	}

	f.started = nil
	for _, tt := range []struct{ args, want string }{
		{"purge emails --state dead", "this removes the dead jobs of emails permanently; add --yes"},
		{"delete emails a b", "this removes 2 jobs of emails permanently"},
		{"delete emails --group c4e7bfbe4fea", "the dead jobs of the group c4e7bfbe4fea of emails"},
		{"requeue emials", "emails"},
		{"requeue emails --group x", "--group is"},
		{"requeue emails a --group c4e7bfbe4fea", "both given"},
		{"requeue emails --then wait", "--then needs --canary"},
		{"purge emails --state gone", "state"},
		{"requeue", "QUEUE"},
	} {
		code, _, errs := run(append([]string{"start"}, strings.Fields(tt.args)...)...)
		if code == exitOK || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: exit %d, %s; want %s", tt.args, code, errs, tt.want)
		}
	}
	if len(f.started) != 0 {
		t.Errorf("bad commands start %+v", f.started)
	}
	if code, out, _ := run("start", "promote", "emails", "--json"); code != exitOK || !strings.Contains(out, `{"id":"OP"`) {
		t.Errorf("with --json: exit %d, %s", code, out)
	}
}

// step returns an operation of a requeue with a number of jobs taken.
func step(state contract.OperationState, taken int64) contract.Operation {
	return contract.Operation{
		ID: "OP", Kind: "requeue", Queue: "emails", Filter: "all dead jobs", By: "ada", State: state, Counted: true, Found: 200,
		Taken: taken, Done: taken, Started: clock.Epoch, Rate: 100, CurrentRate: 99.62,
		Answers: []contract.OperationAnswer{{At: clock.Epoch, ID: "a", Outcome: "done"}},
	}
}

// C15.91: operation list, get, pause, continue and stop.
func TestOperationCommands(t *testing.T) {
	t.Parallel()
	f, _, run := newOperations(t)
	f.steps = []contract.Operation{step("running", 50)}
	_, out, errs := run("list")
	for _, want := range []string{"OPERATION", "OP  ", "running", "requeue", "emails", "50", "200", "ada"} {
		if !strings.Contains(out, want) {
			t.Errorf("the list has no %q: %s", want, out)
		}
	}
	if !strings.Contains(errs, "operation list --cursor OP") {
		t.Errorf("the list says nothing about its next page: %s", errs)
	}
	_, out, _ = run("get", "OP")
	for _, want := range []string{"all dead jobs", "100 a second, now 99.62 a second", "50", "200"} {
		if !strings.Contains(out, want) {
			t.Errorf("an operation has no %q: %s", want, out)
		}
	}
	if strings.Contains(out, "done  a") {
		t.Errorf("an operation has its answers: %s", out)
	}
	if _, out, _ = run("get", "OP", "--answers"); !strings.Contains(out, "00:00:00  done  a") {
		t.Errorf("--answers prints %s", out)
	}
	if code, _, errs := run("get", "x"); code != exitFailed || !strings.Contains(errs, "operation list") {
		t.Errorf("an unknown operation: exit %d, %s", code, errs)
	}

	for _, use := range []string{"pause", "continue", "stop"} {
		if code, out, errs := run(use, "A", "B"); code != exitOK || strings.Count(out, "\n") != 2 {
			t.Errorf("%s: exit %d, %s%s", use, code, out, errs)
		}
	}
	if got := fmt.Sprint(f.changed); got != "[pause A pause B continue A continue B stop A stop B]" {
		t.Errorf("the changes are %s", got)
	}
}

// C15.92: operation get --follow shows a bar until the operation has ended or needs an operator. A restart of the server
// does not end it.
func TestOperationFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, r, run := newOperations(t)
		waiting := step("waiting", 10)
		waiting.Reason, waiting.Canary = "waits after the canary", &contract.OperationCanary{Jobs: 10, Then: "wait"}
		judged := step("waiting", 10)
		judged.Canary = &contract.OperationCanary{Jobs: 10, Then: "continue"}
		stopped := step("stopped", 30)
		stopped.Reason = "automatic stop"

		for _, tt := range []struct {
			steps []contract.Operation
			tty   bool
			code  int
			want  []string
		}{
			{[]contract.Operation{step("queued", 0), step("running", 50), {}, step("running", 150), step("done", 200)}, true,
				exitOK, []string{"state", "done", "\r", " 25%", " 75%"}},
			{[]contract.Operation{step("queued", 0), judged, step("running", 50), step("done", 200)}, false, exitOK,
				[]string{"queued: 0 of 200", "waiting: 10 of 200", "running: 50 of 200"}},
			{[]contract.Operation{waiting}, true, exitOK, []string{"waits after the canary", "operation continue OP"}},
			{[]contract.Operation{step("running", 20), stopped}, false, exitFailed, []string{"automatic stop"}},
		} {
			f.steps, r.tty = tt.steps, tt.tty
			code, out, errs := run("get", "OP", "--follow")
			for _, want := range tt.want {
				if code != tt.code || !strings.Contains(out+errs, want) {
					t.Errorf("exit %d, want %d with %q: %q %q", code, tt.code, want, out, errs)
				}
			}
		}

		f.steps, r.tty = []contract.Operation{step("running", 50), step("running", 50), step("done", 200)}, false
		code, out, errs := run("start", "requeue", "emails", "--follow", "--json")
		if code != exitOK || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"taken":50`) || errs != "" {
			t.Errorf("with --json: exit %d, %s%s", code, out, errs)
		}
	})
}

// C15.90: an engine without a server has no operations.
func TestOperationsNeedAServer(t *testing.T) {
	t.Parallel()
	code, _, errs := newRig(t).run("operation", "list")
	if code != exitFailed || !strings.Contains(errs, "unsupported") || !strings.Contains(errs, "--url") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

package otelduly_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/otelduly"
	"github.com/dulymq/duly/sqliteengine"
)

// The run of a tick continues the trace of its Fire. Each tick has a trace of its own.
func TestRunContinuesTraceOfItsTick(t *testing.T) {
	t.Parallel()
	r, c := newRecorder(t), clock.NewFake()
	e, err := sqliteengine.Open(t.Context(), sqliteengine.Config{
		Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Manual: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.ObserveFire(otelduly.Firing(otelduly.Provider(r)))
	s := duly.Schedule{Name: "s", Spec: "@every 10s", Overlap: duly.OverlapAllow, Catchup: duly.CatchupAll}
	if _, err := e.PutSchedule(t.Context(), duly.Q("mail"), s); err != nil {
		t.Fatal(err)
	}
	c.Advance(21 * time.Second)
	got, err := e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"mail"}, Max: 10})
	if err != nil || len(got) != 2 {
		t.Fatalf("%d runs, %v", len(got), err)
	}

	spans := r.spans.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("there are %d spans", len(spans))
	}
	traces := map[trace.TraceID]bool{}
	for i, span := range spans {
		id := span.SpanContext.TraceID()
		traces[id] = true
		if parent := got[i].Headers["traceparent"]; !strings.Contains(parent, id.String()) || span.Name != "fire mail" {
			t.Errorf("run %d has the traceparent %q, and %s the trace %s", i, parent, span.Name, id)
		}
		if v := value(span, "duly.late_ms").AsInt64(); v != int64(11000-10000*i) {
			t.Errorf("tick %d is late by %d ms", i, v)
		}
		if v := value(span, "duly.outcome").AsString(); v != "created" {
			t.Errorf("tick %d is %s", i, v)
		}
	}
	if len(traces) != 2 {
		t.Error("two ticks have one trace")
	}
}

// The span of a tick has what became of it. An item without a run has none.
func TestSpanOfTickHasItsOutcome(t *testing.T) {
	t.Parallel()
	for want, result := range map[string]contract.FireResult{
		"stale": {Status: contract.FireStale}, "merged": {Status: contract.FireFired, Run: duly.PushResult{Status: duly.Merged}},
		"full":  {Status: contract.FireFull, Err: duly.ErrFull},
		"fired": {Status: contract.FireFired, Run: duly.PushResult{Err: duly.ErrInvalid}},
	} {
		r := newRecorder(t)
		items := []contract.FireItem{{Name: "s", Tick: 1}, {Name: "s", Tick: 2, Job: &duly.Job{ID: "x", Queue: "q"}}}
		_, _, end := otelduly.Firing(otelduly.Provider(r))(t.Context(), duly.Q("q"), 5, items)
		end([]contract.FireResult{{Status: contract.FireFired}, result}, nil)
		spans := r.spans.GetSpans()
		if len(spans) != 1 || value(spans[0], "duly.outcome").AsString() != want {
			t.Errorf("%s: the spans are %+v", want, spans)
		}
		if failed := spans[0].Status.Code == codes.Error; failed != (result.Err != nil || result.Run.Err != nil) {
			t.Errorf("%s: the status is %+v", want, spans[0].Status)
		}
	}
	r := newRecorder(t)
	_, _, end := otelduly.Firing(otelduly.Provider(r))(t.Context(), duly.Q("q"), 5, []contract.FireItem{{Job: &duly.Job{}}})
	end(nil, errors.Join(duly.ErrUnavailable))
	if spans := r.spans.GetSpans(); len(spans) != 1 || spans[0].Status.Code != codes.Error {
		t.Errorf("after an error the spans are %+v", spans)
	}
}

// A run gets a trace only if it has room for one more header. The engine's items are not changed.
func TestTraceLeavesRoomForHeadersOfRun(t *testing.T) {
	t.Parallel()
	run := func(headers int) (before, after map[string]string) {
		job := &duly.Job{ID: "x", Queue: "q", Headers: map[string]string{}}
		for i := range headers {
			job.Headers[fmt.Sprint("h", i)] = "v"
		}
		r := newRecorder(t)
		_, items, end := otelduly.Firing(otelduly.Provider(r))(t.Context(), duly.Q("q"), 5, []contract.FireItem{{Job: job}})
		end(nil, nil)
		return job.Headers, items[0].Job.Headers
	}
	if before, after := run(duly.MaxHeaders - 2); len(before) != duly.MaxHeaders-2 || after["traceparent"] == "" {
		t.Errorf("with room for one: %d headers before, %d after", len(before), len(after))
	}
	if _, after := run(duly.MaxHeaders - 1); len(after) != duly.MaxHeaders-1 || after["traceparent"] != "" {
		t.Errorf("without room: %d headers", len(after))
	}
	job := &duly.Job{Headers: map[string]string{"TraceParent": "own"}}
	_, items, _ := otelduly.Firing(otelduly.Provider(newRecorder(t)))(t.Context(), duly.Q("q"), 5, []contract.FireItem{{Job: job}})
	if h := items[0].Job.Headers; len(h) != 1 || h["TraceParent"] != "own" {
		t.Errorf("a run with a trace has the headers %v", h)
	}
}

package otelduly_test

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/otelduly"
)

// C16.135: each try is one span, a child of the span of the job.
func TestTryIsASpanOfItsJob(t *testing.T) {
	r := newRecorder(t)
	store := &lastJob{}
	e := otelduly.Engine(store, otelduly.Provider(r))
	jobs := []duly.Job{{ID: "a", Queue: "orders"}}
	if _, err := e.Push(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	push := r.find(t, "push orders", trace.SpanKindProducer)
	d := &duly.Delivery{Job: store.job, Attempt: 2}

	headers, ended := otelduly.Tries(otelduly.Provider(r))(t.Context(), d, "https://hooks.example:443")
	ended(503, duly.Nack)
	try := r.find(t, "send orders", trace.SpanKindClient)
	if try.Parent.SpanID() != push.SpanContext.SpanID() || try.SpanContext.TraceID() != push.SpanContext.TraceID() {
		t.Errorf("the try is a child of %s, want %s", try.Parent.SpanID(), push.SpanContext.SpanID())
	}
	if !strings.Contains(headers["traceparent"], try.SpanContext.SpanID().String()) {
		t.Errorf("the request carries %v, want the span %s", headers, try.SpanContext.SpanID())
	}
	if try.Status.Code != codes.Error {
		t.Errorf("a failed try has the status %v", try.Status)
	}

	got := map[string]string{}
	for _, a := range try.Attributes {
		got[string(a.Key)] = a.Value.Emit()
	}
	for key, want := range map[string]string{
		"server.address": "https://hooks.example:443", "http.response.status_code": "503", "duly.settled": "nack",
		"duly.attempt": "2",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
}

// lastJob is an engine that stores the job of the last push.
type lastJob struct {
	contract.Engine
	job duly.Job
}

func (l *lastJob) Push(_ context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	l.job = jobs[0]
	return make([]duly.PushResult, len(jobs)), nil
}

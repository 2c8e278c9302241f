package otelduly_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/otelduly"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/traces"
	"github.com/dulymq/duly/worker"
)

// recorder is a provider that records its spans.
type recorder struct {
	*sdk.TracerProvider
	spans *tracetest.InMemoryExporter
}

func newRecorder(t *testing.T) recorder {
	spans := tracetest.NewInMemoryExporter()
	p := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return recorder{p, spans}
}

// find returns the only span of a name and kind.
func (r recorder) find(t *testing.T, name string, kind trace.SpanKind) tracetest.SpanStub {
	t.Helper()
	var found []tracetest.SpanStub
	for _, s := range r.spans.GetSpans() {
		if s.Name == name && s.SpanKind == kind {
			found = append(found, s)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d spans %s of kind %s among %v, want 1", len(found), name, kind, r.names())
	}
	return found[0]
}

func (r recorder) names() (names []string) {
	for _, s := range r.spans.GetSpans() {
		names = append(names, s.SpanKind.String()+" "+s.Name)
	}
	return names
}

func value(s tracetest.SpanStub, key string) attribute.Value {
	for _, a := range s.Attributes {
		if string(a.Key) == key {
			return a.Value
		}
	}
	return attribute.Value{}
}

// engine returns an engine in memory, on the machine's clock.
func engine(t *testing.T) *model.Engine {
	e := model.New(model.Config{})
	t.Cleanup(func() { e.Close() })
	return e
}

// work handles n jobs of the queue mail, and returns when they are settled.
func work(t *testing.T, e duly.Engine, r recorder, n int, handle worker.HandlerFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	settled := make(chan struct{}, n)
	w := worker.New(e, worker.Config{Logger: slog.New(slog.DiscardHandler), Observer: worker.Observer{
		Settled: func(*worker.Delivery, duly.Settlement, error) { settled <- struct{}{} },
	}})
	w.Use(otelduly.Middleware(otelduly.Provider(r)))
	w.Handle("mail", handle)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	for range n {
		<-settled
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// C2.9: the trace of a producer leads through a server and the queue to the handler.
func TestProducerServerAndWorkerAreOneTrace(t *testing.T) {
	t.Parallel()
	r, e := newRecorder(t), engine(t)
	s, err := server.New(server.Config{
		Engine: e, Store: server.Store{Registry: e, Watcher: e},
		Tracer: traces.New(r), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	served := httptest.NewServer(s.Handler())
	defer served.Close()
	token, _, err := s.Guard().Create(t.Context(), contract.Token{Namespace: "default", Rights: contract.RightAdmin})
	if err != nil {
		t.Fatal(err)
	}
	remote, err := httpengine.Open(t.Context(), httpengine.Config{
		URL: served.URL, Token: token, Client: &http.Client{Transport: otelduly.Transport(nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer remote.Close()
	client := duly.NewClient(otelduly.Engine(remote, otelduly.Provider(r)), duly.ClientConfig{})

	ctx, root := r.Tracer("shop").Start(t.Context(), "order")
	pushed, err := client.Push(ctx, "mail", []byte("CANARY"), duly.Header("x", "CANARY"))
	if err != nil {
		t.Fatal(err)
	}
	root.End()
	work(t, remote, r, 1, func(ctx context.Context, d *worker.Delivery) error {
		_, span := r.Tracer("shop").Start(ctx, "send the mail")
		defer span.End()
		if d.Headers["x"] != "CANARY" {
			t.Errorf("the headers are %v", d.Headers)
		}
		return nil
	})

	// The server makes no span of the push, because the job has a trace context already.
	push := r.find(t, "push mail", trace.SpanKindProducer)
	request := r.find(t, "POST /v1/{namespace}/push", trace.SpanKindServer)
	handled := r.find(t, "handle mail", trace.SpanKindConsumer)
	own := r.find(t, "send the mail", trace.SpanKindInternal)
	for _, edge := range []struct{ child, parent tracetest.SpanStub }{
		{push, r.find(t, "order", trace.SpanKindInternal)}, {request, push}, {handled, push}, {own, handled},
	} {
		if edge.child.Parent.SpanID() != edge.parent.SpanContext.SpanID() ||
			edge.child.SpanContext.TraceID() != root.SpanContext().TraceID() {
			t.Errorf("%s is not a child of %s", edge.child.Name, edge.parent.Name)
		}
	}
	for _, s := range []tracetest.SpanStub{push, handled} {
		if value(s, "messaging.message.id").AsString() != pushed.ID ||
			value(s, "messaging.destination.name").AsString() != "mail" ||
			value(s, "messaging.system").AsString() != "duly" {
			t.Errorf("%s has the attributes %v", s.Name, s.Attributes)
		}
	}
	if value(handled, "duly.settled").AsString() != "ack" || value(request, "http.response.status_code").AsInt64() != 200 {
		t.Errorf("%v, %v", handled.Attributes, request.Attributes)
	}
	checkSecrets(t, r, "CANARY", token)
}

// checkSecrets checks fault X7: no span has a secret or input of a caller.
func checkSecrets(t *testing.T, r recorder, secrets ...string) {
	t.Helper()
	for _, s := range r.spans.GetSpans() {
		texts := []string{s.Name, s.Status.Description}
		for _, a := range s.Attributes {
			texts = append(texts, a.Value.Emit())
		}
		for _, event := range s.Events {
			texts = append(texts, event.Name)
			for _, a := range event.Attributes {
				texts = append(texts, a.Value.Emit())
			}
		}
		for _, secret := range secrets {
			for _, text := range texts {
				if strings.Contains(text, secret) {
					t.Errorf("the span %s has %q", s.Name, text)
				}
			}
		}
	}
}

// The program traces only its requests, so the server makes the span of the push.
func TestServerContinuesTheTraceOfItsCaller(t *testing.T) {
	t.Parallel()
	r, e := newRecorder(t), engine(t)
	s, err := server.New(server.Config{
		Engine: e, Store: server.Store{Registry: e, Watcher: e},
		Tracer: traces.New(r), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := s.Guard().Create(t.Context(), contract.Token{Namespace: "default", Rights: contract.RightAdmin})
	if err != nil {
		t.Fatal(err)
	}
	const caller = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, path := range []string{"/v1/default/push", "/v1/default/push?token=CANARY", "/healthz"} {
		req := httptest.NewRequest("POST", path, strings.NewReader(`{"jobs":[{"queue":"mail"}]}`))
		if path == "/healthz" {
			req.Method = "GET"
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Traceparent", "00-"+caller+"-00f067aa0ba902b7-01")
		s.Handler().ServeHTTP(httptest.NewRecorder(), req)
	}
	checkSecrets(t, r, "CANARY", token)
	push := r.find(t, "push mail", trace.SpanKindProducer)
	// Two requests and the push have spans. /healthz has no span.
	if push.SpanContext.TraceID().String() != caller || len(r.spans.GetSpans()) != 3 {
		t.Errorf("the spans are %v", r.names())
	}

	work(t, e, r, 1, func(context.Context, *worker.Delivery) error { return nil })
	if h := r.find(t, "handle mail", trace.SpanKindConsumer); h.Parent.SpanID() != push.SpanContext.SpanID() {
		t.Error("the handler is not a child of the push")
	}
}

// The jobs of a batch have separate traces, each with a link to the push.
func TestJobsOfABatchAreLinked(t *testing.T) {
	t.Parallel()
	r, e := newRecorder(t), engine(t)
	traced := otelduly.Engine(e, otelduly.Provider(r))
	jobs := []duly.Job{{ID: "a", Queue: "mail"}, {ID: "b", Queue: "mail"}, {ID: "bad id", Queue: "mail"}}
	if _, err := traced.Push(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	if jobs[0].Headers != nil {
		t.Errorf("the caller's jobs were changed: %v", jobs[0])
	}
	work(t, e, r, 2, func(context.Context, *worker.Delivery) error { return nil })

	push, handled := r.find(t, "push mail", trace.SpanKindProducer), 0
	if value(push, "messaging.batch.message_count").AsInt64() != 3 || value(push, "duly.refused").AsInt64() != 1 ||
		push.Status.Code != codes.Error {
		t.Errorf("the push has %v and the status %v", push.Attributes, push.Status)
	}
	for _, s := range r.spans.GetSpans() {
		if s.SpanKind != trace.SpanKindConsumer {
			continue
		}
		handled++
		if s.Parent.IsValid() || s.SpanContext.TraceID() == push.SpanContext.TraceID() || len(s.Links) != 1 ||
			s.Links[0].SpanContext.SpanID() != push.SpanContext.SpanID() {
			t.Errorf("a handler has the parent %v and the links %v", s.Parent, s.Links)
		}
	}
	if handled != 2 {
		t.Errorf("%d jobs were handled, want 2", handled)
	}
}

// A panic is an error too.
func TestSpanHasTheOutcomeOfItsJob(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handle worker.HandlerFunc
		as     string
		status codes.Code
	}{
		"ack":     {func(context.Context, *worker.Delivery) error { return nil }, "ack", codes.Unset},
		"nack":    {func(context.Context, *worker.Delivery) error { return errors.New("CANARY") }, "nack", codes.Error},
		"bury":    {func(context.Context, *worker.Delivery) error { return worker.Bury(errors.New("CANARY")) }, "bury", codes.Error},
		"release": {func(context.Context, *worker.Delivery) error { return worker.Snooze(1 << 40) }, "release", codes.Unset},
		"panic":   {func(context.Context, *worker.Delivery) error { panic("CANARY") }, "nack", codes.Error},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, e := newRecorder(t), engine(t)
			// A push without a trace.
			if _, err := e.Push(t.Context(), []duly.Job{{Queue: "mail"}}); err != nil {
				t.Fatal(err)
			}

			work(t, e, r, 1, tt.handle)
			s := r.find(t, "handle mail", trace.SpanKindConsumer)
			if value(s, "duly.settled").AsString() != tt.as || s.Status.Code != tt.status || s.Parent.IsValid() ||
				len(s.Links) > 0 {
				t.Errorf("the span has %v and the status %v", s.Attributes, s.Status)
			}
			checkSecrets(t, r, "CANARY")
		})
	}
}

// C2.9: no job is refused because of its trace, and a job keeps the trace that it has.
func TestTraceExceedsNoBound(t *testing.T) {
	t.Parallel()
	r, e := newRecorder(t), engine(t)
	traced := otelduly.Engine(e, otelduly.Provider(r))
	many := map[string]string{}
	for i := range duly.MaxHeaders {
		many["h"+string(rune('a'+i%26))+string(rune('a'+i/26))] = "x"
	}
	for name, tt := range map[string]struct {
		headers map[string]string
		want    bool // whether the job must have the trace context of this push
	}{
		"none":     {nil, true},
		"room":     {map[string]string{"X": "y", "Tracestate": "old=1"}, true},
		"too many": {many, false},
		"too long": {map[string]string{"x": strings.Repeat("y", duly.MaxHeaderBytes-50)}, false},
		"in another trace": {
			map[string]string{"Traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, false,
		},
	} {
		id := strings.ReplaceAll(name, " ", "-")
		results, err := traced.Push(t.Context(), []duly.Job{{ID: id, Queue: "q", Headers: tt.headers}})
		if err != nil || results[0].Err != nil {
			t.Errorf("%s: %v, %v", name, results, err)
			continue
		}

		info, err := e.Get(t.Context(), duly.Q("q"), id)
		if err != nil {
			t.Fatal(err)
		}
		has := false
		for _, s := range r.spans.GetSpans() {
			has = has || strings.Contains(info.Headers["traceparent"], s.SpanContext.SpanID().String())
		}
		if has != tt.want || strings.Contains(info.Headers["tracestate"], "old") {
			t.Errorf("%s: the headers are %v", name, info.Headers)
		}
	}
}

// surveyEngine is an engine with a Survey.
type surveyEngine struct{ contract.Engine }

func (surveyEngine) Survey(context.Context, string, duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyPage{Next: "surveyed"}, nil
}

func TestTracedEnginePassesASurvey(t *testing.T) {
	t.Parallel()
	surveyor := contract.SurveyorOf(otelduly.Engine(surveyEngine{engine(t)}))
	page, err := surveyor.Survey(t.Context(), "default", duly.PageParams{})
	if err != nil || page.Next != "surveyed" {
		t.Errorf("the page is %+v, %v", page, err)
	}
}

func TestTracedEnginePassesAnExplain(t *testing.T) {
	t.Parallel()
	e := engine(t)
	if _, err := e.Push(t.Context(), []duly.Job{{Queue: "q", ID: "a"}, {Queue: "q", ID: "b"}}); err != nil {
		t.Fatal(err)
	}
	x, err := contract.ExplainerOf(otelduly.Engine(e)).Explain(t.Context(), duly.Q("q"), "b")
	if err != nil || len(x.Facts) != 1 || x.Facts[0].Code != contract.FactBehind {
		t.Errorf("the explanation is %+v, %v", x, err)
	}
	if _, err := contract.ExplainerOf(otelduly.Engine(surveyEngine{e})).Explain(t.Context(), duly.Q("q"), "b"); !errors.Is(
		err, duly.ErrUnsupported) {
		t.Errorf("an engine without Explain returns %v, want unsupported", err)
	}
}

func TestTracedEngineHasTopicsIfTheEngineHas(t *testing.T) {
	t.Parallel()
	e := model.New(model.Config{})
	traced, ok := otelduly.Engine(e).(contract.Topics)
	if !ok {
		t.Fatal("the traced engine has no topics")
	}
	if _, err := traced.CreateGroup(t.Context(), duly.Q("events@mailer"), duly.FromStart); err != nil {
		t.Error(err)
	}
	if names, err := e.Topics(t.Context(), "", duly.PageParams{}); err != nil || len(names.Names) != 1 {
		t.Errorf("%+v, %v", names, err)
	}
	if _, ok := otelduly.Engine(struct{ contract.Engine }{e}).(contract.Topics); ok {
		t.Error("the traced engine of an engine without topics has topics")
	}
}

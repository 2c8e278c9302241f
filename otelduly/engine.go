package otelduly

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Engine is an engine of which each push has a span, and whose jobs carry their
// place in the trace. It is the engine in everything else of the contract, and has its topics; what
// only some engines do beside it ([contract.Maintainer] and others) is asked of the
// engine itself.
func Engine(e contract.Engine, opts ...Option) contract.Engine {
	t := &traced{Engine: e, tracer: tracer(opts)}
	if topics, ok := e.(contract.Topics); ok {
		return &tracedTopics{t, topics}
	}
	return t
}

// topicMethods is embedded: contract.Topics would hide its own method Topics.
type topicMethods = contract.Topics

// tracedTopics is traced for an engine with topics.
type tracedTopics struct {
	*traced
	topicMethods
}

type traced struct {
	contract.Engine
	tracer trace.Tracer
}

// Push implements duly.Engine. The caller's jobs stay as they are.
func (t *traced) Push(ctx context.Context, jobs []duly.Job) (results []duly.PushResult, err error) {
	ctx, jobs, end := beginPush(ctx, t.tracer, jobs)
	// The span ends also if the engine panics.
	defer func() { end(results, err) }()
	return t.Engine.Push(ctx, jobs)
}

// Pushing returns the function that [Engine] calls before each push, for programs with a
// hook of their own, such as package server. The function begins the span of the push. It
// returns the context and the jobs for the push, and a function that ends the span.
func Pushing(opts ...Option) func(ctx context.Context, jobs []duly.Job) (
	context.Context, []duly.Job, func(results []duly.PushResult, err error),
) {
	tracer := tracer(opts)
	return func(ctx context.Context, jobs []duly.Job) (
		context.Context, []duly.Job, func(results []duly.PushResult, err error),
	) {
		return beginPush(ctx, tracer, jobs)
	}
}

// beginPush begins the span of a push. Jobs that are all in a trace need none.
func beginPush(ctx context.Context, tracer trace.Tracer, jobs []duly.Job) (
	context.Context, []duly.Job, func(results []duly.PushResult, err error),
) {
	if !slices.ContainsFunc(jobs, placeless) {
		return ctx, jobs, func([]duly.PushResult, error) {}
	}

	ctx, span := tracer.Start(ctx, "push "+destination(jobs),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(ofPush(jobs)...))
	return ctx, carrying(ctx, jobs), func(results []duly.PushResult, err error) {
		tellPush(span, results, err)
		span.End()
	}
}

// Namespace implements contract.Namespacer.
func (t *traced) Namespace() string { return duly.NamespaceOf(t.Engine) }

// WatchCancels implements contract.CancelWatcher, if the engine does.
func (t *traced) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if engine, ok := t.Engine.(contract.CancelWatcher); ok {
		return engine.WatchCancels(ctx, namespace, w)
	}
	return contract.Errorf(duly.CodeUnsupported, "the engine does not report canceled jobs")
}

// Pass implements contract.Passer.
func (t *traced) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(t.Engine).Pass(ctx, namespace, queues)
}

// Survey implements contract.Surveyor.
func (t *traced) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyorOf(t.Engine).Survey(ctx, namespace, p)
}

// placeless tells whether a job is in no trace yet.
func placeless(j duly.Job) bool {
	for name := range j.Headers {
		if strings.EqualFold(name, parentHeader) {
			return false
		}
	}
	return true
}

// destination is the queue, if it is one.
func destination(jobs []duly.Job) string {
	for i := range jobs {
		if jobs[i].Queue != jobs[0].Queue {
			return "(several)"
		}
	}
	return jobs[0].Queue
}

func ofPush(jobs []duly.Job) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("messaging.system", "duly"),
		attribute.String("messaging.operation.name", "push"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.destination.name", destination(jobs)),
		attribute.String("duly.namespace", contract.NamespaceOr(jobs[0].Namespace)),
	}
	if len(jobs) > 1 {
		return append(attrs, attribute.Int("messaging.batch.message_count", len(jobs)))
	}
	return append(attrs, attribute.String("messaging.message.id", jobs[0].ID), attribute.Int("messaging.message.body.size", len(jobs[0].Body)))
}

// tellPush says how it went. Of a batch the number of jobs that were refused.
func tellPush(span trace.Span, results []duly.PushResult, err error) {
	refused := 0
	for i := range results {
		if results[i].Err != nil {
			refused++
			err = results[i].Err
		}
	}
	if len(results) == 1 && err == nil {
		span.SetAttributes(attribute.String("duly.outcome", results[0].Status.String()))
	}
	if refused > 0 && len(results) > 1 {
		span.SetAttributes(attribute.Int("duly.refused", refused))
	}
	if err != nil {
		span.SetAttributes(attribute.String("error.type", string(duly.CodeOf(err))))
		span.SetStatus(codes.Error, string(duly.CodeOf(err))) // the code: a message may hold what somebody has sent
	}
}

// carrying is the jobs with their place in the trace, those that have none yet
// and have room for it.
func carrying(ctx context.Context, jobs []duly.Job) []duly.Job {
	place := propagation.MapCarrier{}
	w3c.Inject(ctx, place)
	if len(place) == 0 {
		return jobs
	}
	if len(jobs) > 1 {
		place[howHeader] = howLink
	}
	with := slices.Clone(jobs)
	for i := range with {
		if placeless(with[i]) {
			with[i].Headers = adding(place, with[i].Headers)
		}
	}
	return with
}

// adding is the headers with the place among them, if it has room. A tracestate
// that is there means nothing without its traceparent.
func adding(place, headers map[string]string) map[string]string {
	all := make(map[string]string, len(headers)+len(place))
	for name, value := range headers {
		if _, ours := place[strings.ToLower(name)]; !ours && !strings.EqualFold(name, stateHeader) {
			all[name] = value
		}
	}
	maps.Copy(all, place)
	size := 0
	for name, value := range all {
		size += len(name) + len(value)
	}
	if len(all) > duly.MaxHeaders || size > duly.MaxHeaderBytes {
		return headers
	}
	return all
}

// Transport carries the place in the trace in each request, so that a server's
// spans join it. nil stands on http.DefaultTransport.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return carrier{base}
}

type carrier struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(req.Context()).IsValid() {
		req = req.Clone(req.Context()) // a round tripper leaves its request as it is
		w3c.Inject(req.Context(), propagation.HeaderCarrier(req.Header))
	}
	return c.base.RoundTrip(req)
}

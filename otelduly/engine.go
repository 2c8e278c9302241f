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

// Engine returns an engine that makes a span for each push, and whose jobs carry the span's
// context. It passes everything else of the contract to e, and has topics if e has them.
// Call e itself for other optional interfaces, such as [contract.Maintainer].
func Engine(e contract.Engine, opts ...Option) contract.Engine {
	t := &tracedEngine{Engine: e, tracer: tracer(opts)}
	if topics, ok := e.(contract.Topics); ok {
		return &tracedTopics{t, topics}
	}
	return t
}

// topicMethods is embedded, because contract.Topics would hide its own method Topics.
type topicMethods = contract.Topics

// tracedTopics is a tracedEngine with topics.
type tracedTopics struct {
	*tracedEngine
	topicMethods
}

// tracedEngine implements Engine.
type tracedEngine struct {
	contract.Engine
	tracer trace.Tracer
}

// Push implements duly.Engine. It does not modify the caller's jobs.
func (t *tracedEngine) Push(ctx context.Context, jobs []duly.Job) (results []duly.PushResult, err error) {
	ctx, jobs, end := startPush(ctx, t.tracer, jobs)
	// The span ends also if the engine panics.
	defer func() { end(results, err) }()
	return t.Engine.Push(ctx, jobs)
}

// Pushing returns the function that [Engine] calls before each push, for programs with their own
// hook, such as package server. The function starts the span of the push. It returns the context
// and the jobs for the push, and a function that ends the span.
func Pushing(opts ...Option) func(ctx context.Context, jobs []duly.Job) (
	context.Context, []duly.Job, func(results []duly.PushResult, err error),
) {
	tracer := tracer(opts)
	return func(ctx context.Context, jobs []duly.Job) (
		context.Context, []duly.Job, func(results []duly.PushResult, err error),
	) {
		return startPush(ctx, tracer, jobs)
	}
}

// startPush starts the span of a push. A push whose jobs all have a trace context needs no
// span.
func startPush(ctx context.Context, tracer trace.Tracer, jobs []duly.Job) (
	context.Context, []duly.Job, func(results []duly.PushResult, err error),
) {
	if !slices.ContainsFunc(jobs, isUntraced) {
		return ctx, jobs, func([]duly.PushResult, error) {}
	}

	ctx, span := tracer.Start(ctx, "push "+destination(jobs),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(pushAttributes(jobs)...))
	return ctx, withTrace(ctx, jobs), func(results []duly.PushResult, err error) {
		recordPush(span, results, err)
		span.End()
	}
}

// Namespace implements contract.Namespacer.
func (t *tracedEngine) Namespace() string { return duly.NamespaceOf(t.Engine) }

// WatchCancels implements contract.CancelWatcher, if the engine does.
func (t *tracedEngine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if engine, ok := t.Engine.(contract.CancelWatcher); ok {
		return engine.WatchCancels(ctx, namespace, w)
	}
	return contract.Errorf(duly.CodeUnsupported, "the engine does not report canceled jobs")
}

// Pass implements contract.Passer.
func (t *tracedEngine) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(t.Engine).Pass(ctx, namespace, queues)
}

// Survey implements contract.Surveyor.
func (t *tracedEngine) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	return contract.SurveyorOf(t.Engine).Survey(ctx, namespace, p)
}

// Find implements contract.Finder.
func (t *tracedEngine) Find(ctx context.Context, namespace, id string) (contract.Found, error) {
	return contract.FinderOf(t.Engine).Find(ctx, namespace, id)
}

// Explain implements contract.Explainer.
func (t *tracedEngine) Explain(ctx context.Context, q duly.QueueRef, id string) (contract.Explanation, error) {
	return contract.ExplainerOf(t.Engine).Explain(ctx, q, id)
}

// Keys implements contract.KeyLister, if the engine does.
func (t *tracedEngine) Keys(ctx context.Context, q duly.QueueRef, p contract.KeysParams) (contract.KeyPage, error) {
	return contract.KeyListerOf(t.Engine).Keys(ctx, q, p)
}

// Holder implements contract.KeyLister, if the engine does.
func (t *tracedEngine) Holder(ctx context.Context, q duly.QueueRef, key string) (contract.KeyInfo, error) {
	return contract.KeyListerOf(t.Engine).Holder(ctx, q, key)
}

// isUntraced reports whether a job has no trace context.
func isUntraced(j duly.Job) bool {
	for name := range j.Headers {
		if strings.EqualFold(name, parentHeader) {
			return false
		}
	}
	return true
}

// destination returns the queue of the jobs, or "(several)".
func destination(jobs []duly.Job) string {
	for i := range jobs {
		if jobs[i].Queue != jobs[0].Queue {
			return "(several)"
		}
	}
	return jobs[0].Queue
}

// pushAttributes returns the attributes of the span of a push.
func pushAttributes(jobs []duly.Job) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("messaging.system", "duly"),
		attribute.String("messaging.operation.name", "push"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.destination.name", destination(jobs)),
		attribute.String("duly.namespace", contract.NamespaceOr(jobs[0].Namespace)),
	}
	// A batch has no single ID and no single size.
	if len(jobs) > 1 {
		return append(attrs, attribute.Int("messaging.batch.message_count", len(jobs)))
	}
	return append(attrs, attribute.String("messaging.message.id", jobs[0].ID),
		attribute.Int("messaging.message.body.size", len(jobs[0].Body)))
}

// recordPush records the result of a push. For a batch that is the number of refused jobs.
func recordPush(span trace.Span, results []duly.PushResult, err error) {
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
		// Only the code, because a message may repeat input of the caller.
		code := string(duly.CodeOf(err))
		span.SetAttributes(attribute.String("error.type", code))
		span.SetStatus(codes.Error, code)
	}
}

// withTrace returns the jobs with the trace context of ctx. Jobs that already have a trace context,
// or have no room for it, are not changed.
func withTrace(ctx context.Context, jobs []duly.Job) []duly.Job {
	headers := propagation.MapCarrier{}
	w3c.Inject(ctx, headers)
	if len(headers) == 0 {
		return jobs
	}
	// The handlers of a batch run independently, so each of their spans has a link to the batch's
	// span.
	if len(jobs) > 1 {
		headers[relationHeader] = relationLink
	}

	// The engine gets copies, because the jobs are the caller's.
	copies := slices.Clone(jobs)
	for i := range copies {
		if isUntraced(copies[i]) {
			copies[i].Headers = mergeHeaders(headers, copies[i].Headers)
		}
	}
	return copies
}

// mergeHeaders returns the headers with the trace context, or without it if they would
// exceed the bounds of a job. It drops a tracestate without its traceparent, which has no
// meaning.
func mergeHeaders(traceContext, headers map[string]string) map[string]string {
	all := make(map[string]string, len(headers)+len(traceContext))
	for name, value := range headers {
		_, replaced := traceContext[strings.ToLower(name)]
		if !replaced && !strings.EqualFold(name, stateHeader) {
			all[name] = value
		}
	}
	maps.Copy(all, traceContext)

	size := 0
	for name, value := range all {
		size += len(name) + len(value)
	}
	// A push without a trace is better than a push that is refused because of its headers.
	if len(all) > duly.MaxHeaders || size > duly.MaxHeaderBytes {
		return headers
	}
	return all
}

// Transport returns a round tripper that adds the trace context to each request, so that
// the spans of a server join the trace. The default of base is http.DefaultTransport.
func Transport(base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base}
}

// transport implements Transport.
type transport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(req.Context()).IsValid() {
		// A round tripper must not change its request.
		req = req.Clone(req.Context())
		w3c.Inject(req.Context(), propagation.HeaderCarrier(req.Header))
	}
	return t.base.RoundTrip(req)
}

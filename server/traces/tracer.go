package traces

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/otelduly"
	"github.com/dulymq/duly/server/observe"
	"github.com/dulymq/duly/server/route"
)

// Tracer implements server.Tracer.
type Tracer struct {
	tracer trace.Tracer
	push   observe.Pushing
	fire   contract.Firing
}

// New returns a Tracer that records spans with a provider.
func New(p trace.TracerProvider) *Tracer {
	return &Tracer{
		p.Tracer("github.com/dulymq/duly/server/traces"), otelduly.Pushing(otelduly.Provider(p)),
		otelduly.Firing(otelduly.Provider(p)),
	}
}

// Pushing implements server.Tracer. It gives the jobs the trace of the caller's request.
func (t *Tracer) Pushing(ctx context.Context, jobs []duly.Job) (
	context.Context, []duly.Job, func(results []duly.PushResult, err error),
) {
	return t.push(ctx, jobs)
}

// Firing implements server.Tracer: the run of a tick carries the trace of its Fire.
func (t *Tracer) Firing(ctx context.Context, q duly.QueueRef, now int64, items []contract.FireItem) (
	context.Context, []contract.FireItem, func(results []contract.FireResult, err error),
) {
	return t.fire(ctx, q, now, items)
}

// Begin implements route.Tracer.
func (t *Tracer) Begin(r *http.Request, pattern string) (context.Context, func(status int)) {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))

	method := route.Method(r.Method)
	ctx, span := t.tracer.Start(ctx, method+" "+pattern, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", pattern),
	))

	return ctx, func(status int) {
		if status > 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", status))
		}
		if status == 0 || status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

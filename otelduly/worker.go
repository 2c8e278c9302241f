package otelduly

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/worker"
)

// Middleware makes a span for each call to a handler, which continues the trace of the job.
// Use it as the outermost middleware, so that the span includes the others.
func Middleware(opts ...Option) worker.Middleware {
	t := tracer(opts)
	return func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, d *worker.Delivery) (err error) {
			ctx, span := start(ctx, t, &d.Delivery, "handle", trace.SpanKindConsumer)
			returned := false
			defer func() {
				as := duly.Nack // the settlement after a panic, which the worker logs
				if returned {
					as = worker.Settling(ctx, err)
				}
				recordOutcome(span, as)
				span.End()
			}()

			err = next(ctx, d)
			returned = true
			return err
		}
	}
}

// start starts the span of a delivery: as a child of the push of its job, or with a link to
// it.
func start(
	ctx context.Context, t trace.Tracer, d *duly.Delivery, operation string, kind trace.SpanKind,
) (context.Context, trace.Span) {
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(kind), trace.WithAttributes(deliveryAttributes(d, operation)...),
	}
	pushCtx := w3c.Extract(ctx, propagation.MapCarrier(d.Headers))
	switch push := trace.SpanContextFromContext(pushCtx); {
	// Without a trace context in the job, Extract returns the span that ctx already has.
	case d.Headers[parentHeader] == "" || !push.IsValid():
	// A job of a batch begins a trace of its own, and the link names the push.
	case d.Headers[relationHeader] == relationLink:
		opts = append(opts, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: push}))
	default:
		ctx = pushCtx
	}
	return t.Start(ctx, operation+" "+d.Queue, opts...)
}

// deliveryAttributes returns the attributes of the span of a delivery.
func deliveryAttributes(d *duly.Delivery, operation string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "duly"),
		attribute.String("messaging.operation.name", operation),
		attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.destination.name", d.Queue),
		attribute.String("messaging.message.id", d.ID),
		attribute.Int("messaging.message.body.size", len(d.Body)),
		attribute.String("duly.namespace", contract.NamespaceOr(d.Namespace)),
		attribute.Int("duly.attempt", d.Attempt),
		attribute.Int("duly.stalls", d.Stalls),
		attribute.Int64("duly.late_ms", d.Now.Sub(d.Due).Milliseconds()),
	}
}

// recordOutcome records how the delivery is settled. It leaves out the text of an error, which may
// repeat the job's body. The log and the job have the text.
func recordOutcome(span trace.Span, as duly.Settlement) {
	span.SetAttributes(attribute.String("duly.settled", as.String()))
	if as == duly.Nack || as == duly.Bury {
		span.SetAttributes(attribute.String("error.type", as.String()))
		span.SetStatus(codes.Error, as.String())
	}
}

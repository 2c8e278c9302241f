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

// Middleware gives each call of a handler a span that goes on with the trace of
// its job. Use it as the outermost, so that what other middleware does is in it.
func Middleware(opts ...Option) worker.Middleware {
	t := tracer(opts)
	return func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, d *worker.Delivery) (err error) {
			ctx, span := begin(ctx, t, &d.Delivery, "handle", trace.SpanKindConsumer)
			returned := false
			defer func() {
				if returned {
					tellHandled(span, worker.Settling(ctx, err))
				} else {
					tellHandled(span, duly.Nack) // a panic: the worker tells what of
				}
				span.End()
			}()
			err = next(ctx, d)
			returned = true
			return err
		}
	}
}

// begin begins the span of a delivery: below the push of its job, or with a link to it.
func begin(ctx context.Context, t trace.Tracer, d *duly.Delivery, does string, kind trace.SpanKind) (context.Context, trace.Span) {
	opts := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(ofDelivery(d, does)...)}
	pushed := w3c.Extract(ctx, propagation.MapCarrier(d.Headers))
	switch place := trace.SpanContextFromContext(pushed); {
	case d.Headers[parentHeader] == "" || !place.IsValid():
	case d.Headers[howHeader] == howLink:
		opts = append(opts, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: place}))
	default:
		ctx = pushed
	}
	return t.Start(ctx, does+" "+d.Queue, opts...)
}

func ofDelivery(d *duly.Delivery, does string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "duly"),
		attribute.String("messaging.operation.name", does),
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

// tellHandled says how the delivery is settled. An error's text may be about what
// is in the job, so it is left to the log and to the job's own record.
func tellHandled(span trace.Span, as duly.Settlement) {
	span.SetAttributes(attribute.String("duly.settled", as.String()))
	if as == duly.Nack || as == duly.Bury {
		span.SetAttributes(attribute.String("error.type", as.String()))
		span.SetStatus(codes.Error, as.String())
	}
}

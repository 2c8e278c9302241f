package otelduly

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
)

// Tries gives each try of a push job a span of kind CLIENT, which goes on with the trace
// of the job. It returns what package dispatch takes as Config.Trace: a function that
// begins a span and returns the headers of the request, and what ends the span. The span
// has the host, the status and how the job is settled; never a path, a header or a body.
func Tries(opts ...Option) func(ctx context.Context, d *duly.Delivery, host string) (map[string]string, func(status int, as duly.Settlement)) {
	t := tracer(opts)
	return func(ctx context.Context, d *duly.Delivery, host string) (map[string]string, func(status int, as duly.Settlement)) {
		ctx, span := begin(ctx, t, d, "send", trace.SpanKindClient)
		span.SetAttributes(attribute.String("server.address", host))
		headers := map[string]string{}
		w3c.Inject(ctx, propagation.MapCarrier(headers))
		return headers, func(status int, as duly.Settlement) {
			if status > 0 {
				span.SetAttributes(attribute.Int("http.response.status_code", status))
			}
			tellHandled(span, as)
			span.End()
		}
	}
}

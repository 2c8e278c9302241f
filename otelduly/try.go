package otelduly

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
)

// Tries makes a span of kind CLIENT for each try of a push job, which continues the trace of
// the job. It returns a function for Config.Trace of package dispatch. That function starts
// a span and returns the headers of the request, and a function that ends the span. The
// span has the host, the status and the outcome. It never has a path, a header or a body.
func Tries(opts ...Option) func(
	ctx context.Context, d *duly.Delivery, host string,
) (headers map[string]string, end func(status int, as duly.Settlement)) {
	t := tracer(opts)
	return func(
		ctx context.Context, d *duly.Delivery, host string,
	) (map[string]string, func(status int, as duly.Settlement)) {
		ctx, span := start(ctx, t, d, "send", trace.SpanKindClient)
		span.SetAttributes(attribute.String("server.address", host))
		headers := map[string]string{}
		w3c.Inject(ctx, propagation.MapCarrier(headers))

		return headers, func(status int, as duly.Settlement) {
			// 0 means that no answer came.
			if status > 0 {
				span.SetAttributes(attribute.Int("http.response.status_code", status))
			}
			recordOutcome(span, as)
			span.End()
		}
	}
}

package otelduly

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Option changes how spans are made.
type Option func(*options)

type options struct {
	provider trace.TracerProvider
}

// Provider sets the tracer provider that makes the spans. Default: the global one,
// otel.GetTracerProvider.
func Provider(p trace.TracerProvider) Option { return func(o *options) { o.provider = p } }

// name is the name of the instrumentation, which every span has.
const name = "github.com/dulymq/duly/otelduly"

func tracer(opts []Option) trace.Tracer {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.provider == nil {
		o.provider = otel.GetTracerProvider()
	}
	return o.provider.Tracer(name)
}

// w3c encodes a trace context. The contract requires the format of the W3C, whatever a
// program uses elsewhere, because workers may use another language.
var w3c = propagation.TraceContext{}

// The headers of a trace context. relationHeader says how a handler's span relates to the push: as
// a child, or by a link.
const (
	parentHeader   = "traceparent"
	stateHeader    = "tracestate"
	relationHeader = "duly-trace"
	relationLink   = "link"
)

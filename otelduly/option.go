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

// Provider makes the spans. Default: the global one, otel.GetTracerProvider.
func Provider(p trace.TracerProvider) Option { return func(o *options) { o.provider = p } }

// name is that of the instrumentation, by which spans are told apart from others.
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

// w3c is how a place in a trace is written. It is always that of the W3C,
// whatever a program uses elsewhere: the contract says so, and workers may be
// written in another language.
var w3c = propagation.TraceContext{}

// The headers that it is written in, and ours.
const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
	howHeader    = "duly-trace"
	howLink      = "link"
)

package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/otlp"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/otelduly"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/route"
	"github.com/dulymq/duly/server/traces"
)

// observed is what watches over a server.
type observed struct {
	counts *metrics.Metrics
	spans  *sdk.TracerProvider // nil: there are no traces
}

// observe begins to count, and to trace where OpenTelemetry's variables name a
// collector.
func (a *app) observe(ctx context.Context, log *slog.Logger) (*observed, error) {
	see := &observed{counts: metrics.New(metrics.Config{Version: a.version().Version})}
	cfg, err := otlp.FromEnv(a.env.Getenv)
	if err != nil || cfg == nil {
		return see, err
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "duly"), attribute.String("service.version", a.version().Version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, duly.Invalid("OTEL_RESOURCE_ATTRIBUTES", "can't be read")
	}
	otel.SetErrorHandler(tracesLost(log, a.env.Clock))
	see.spans = sdk.NewTracerProvider(sdk.WithBatcher(otlp.New(*cfg)), sdk.WithResource(about))
	return see, nil
}

// tracesLost tells the log that spans are not sent, once a minute at most.
func tracesLost(log *slog.Logger, c clock.Clock) otel.ErrorHandlerFunc {
	var mu sync.Mutex
	next := c.Mono()
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := c.Mono(); now >= next {
			next = now + time.Minute
			log.Warn("traces are lost", "error", route.Fault(err))
		}
	}
}

// put lets a server's requests and jobs be in traces.
func (o *observed) put(c *server.Config) {
	c.Metrics = o.counts
	if o.spans != nil {
		c.Tracer = traces.New(o.spans)
		c.Engine = otelduly.Engine(c.Engine, otelduly.Provider(o.spans))
	}
}

// end sends what is left.
func (o *observed) end() {
	if o.spans == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = o.spans.Shutdown(ctx) // told to the handler of errors
}

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

	"github.com/dulymq/duly/cmd/duly/internal/otlp"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/route"
	"github.com/dulymq/duly/server/traces"
)

// telemetry holds the metrics and traces of a server.
type telemetry struct {
	metrics *metrics.Metrics
	spans   *sdk.TracerProvider // nil if traces are off
}

// newTelemetry returns metrics, and traces if OpenTelemetry's variables name a collector.
func (a *app) newTelemetry(ctx context.Context, log *slog.Logger) (*telemetry, error) {
	version := a.version().Version
	t := &telemetry{metrics: metrics.New(metrics.Config{Version: version})}
	cfg, err := otlp.FromEnv(a.env.Getenv)
	// Without a collector no provider is made, so that tracing costs nothing.
	if err != nil || cfg == nil {
		return t, err
	}

	about, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "duly"), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, contract.Invalid("OTEL_RESOURCE_ATTRIBUTES", "must be like name=value,name=value")
	}

	// The SDK's default handler writes to standard error and ignores the log format.
	otel.SetErrorHandler(logLostTraces(log, a.env.Clock))
	t.spans = sdk.NewTracerProvider(sdk.WithBatcher(otlp.New(*cfg)), sdk.WithResource(about))
	return t, nil
}

// logLostTraces returns an error handler that logs that spans are lost, at most once per
// minute.
func logLostTraces(log *slog.Logger, c clock.Clock) otel.ErrorHandlerFunc {
	var mu sync.Mutex
	next := c.Mono()
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()

		// A collector that is down fails every batch. One line per minute is enough.
		if now := c.Mono(); now >= next {
			next = now + time.Minute
			log.Warn("traces are lost", "error", route.Fault(err))
		}
	}
}

// addTo adds metrics and traces to a server's configuration.
func (t *telemetry) addTo(c *server.Config) {
	c.Metrics = t.metrics
	if t.spans != nil {
		c.Tracer = traces.New(t.spans)
	}
}

// shutdown sends the remaining spans.
func (t *telemetry) shutdown() {
	if t.spans == nil {
		return
	}

	// The context of the command may have ended. The bound keeps a dead collector from delaying the exit.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = t.spans.Shutdown(ctx) // the error handler logs the error
}

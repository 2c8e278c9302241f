package otelduly

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Firing returns a function for [contract.FireObserver]. It makes a span for each tick that this process
// fires, and the run of the tick continues its trace. A tick without a run has no span.
func Firing(opts ...Option) contract.Firing {
	tracer := tracer(opts)
	return func(ctx context.Context, q duly.QueueRef, now int64, items []contract.FireItem) (
		context.Context, []contract.FireItem, func([]contract.FireResult, error),
	) {
		// Each run is a tree of its own, because runs have nothing in common but the moment.
		spans := make([]trace.Span, len(items))
		copies := slices.Clone(items)
		for i := range copies {
			if copies[i].Job == nil {
				continue
			}
			var own context.Context
			own, spans[i] = tracer.Start(ctx, "fire "+q.Name, trace.WithNewRoot(),
				trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(fireAttributes(q, now, &copies[i])...))
			copies[i].Job = tracedRun(own, copies[i].Job)
		}

		return ctx, copies, func(results []contract.FireResult, err error) {
			for i, span := range spans {
				if span == nil {
					continue
				}
				// An engine that panics has no results.
				if i < len(results) {
					recordFire(span, &results[i], err)
				} else {
					recordFire(span, &contract.FireResult{}, err)
				}
				span.End()
			}
		}
	}
}

func fireAttributes(q duly.QueueRef, now int64, item *contract.FireItem) []attribute.KeyValue {
	late := time.Duration(now-item.Tick) * time.Millisecond
	return []attribute.KeyValue{
		attribute.String("messaging.system", "duly"),
		attribute.String("messaging.operation.name", "fire"),
		attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.destination.name", q.Name),
		attribute.String("messaging.message.id", item.Job.ID),
		attribute.String("duly.namespace", contract.NamespaceOr(q.Namespace)),
		attribute.String("duly.schedule", item.Name),
		attribute.String("duly.tick", contract.TickText(item.Tick)),
		attribute.Int64("duly.late_ms", late.Milliseconds()),
	}
}

// recordFire records what became of a tick.
func recordFire(span trace.Span, result *contract.FireResult, err error) {
	outcome := result.Status.String()
	if result.Status == contract.FireFired {
		if err = result.Run.Err; err == nil {
			outcome = result.Run.Status.String()
		}
	}
	if err == nil {
		err = result.Err
	}
	span.SetAttributes(attribute.String("duly.outcome", outcome))
	if err != nil {
		// Only the code, because a message may repeat input of the caller.
		code := string(duly.CodeOf(err))
		span.SetAttributes(attribute.String("error.type", code))
		span.SetStatus(codes.Error, code)
	}
}

// tracedRun returns a run with the trace context of ctx. It leaves out a run that has one already, or no
// room for it.
func tracedRun(ctx context.Context, run *duly.Job) *duly.Job {
	traceContext := propagation.MapCarrier{}
	w3c.Inject(ctx, traceContext)
	if len(traceContext) == 0 || !isUntraced(*run) {
		return run
	}

	// Fire adds the header of the previous run, so there must be room for it.
	headers := maps.Clone(run.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[duly.HeaderPrevious] = contract.TickText(0)
	job := *run
	job.Headers = maps.Clone(mergeHeaders(traceContext, headers))
	maps.DeleteFunc(job.Headers, func(name, _ string) bool { return strings.EqualFold(name, duly.HeaderPrevious) })
	return &job
}

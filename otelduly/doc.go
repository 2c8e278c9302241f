// Package otelduly puts jobs into OpenTelemetry traces: from the program that
// pushes a job, through the queue, to the handler that works on it, however much
// later and on whatever machine.
//
//	engine = otelduly.Engine(engine)                       // where jobs are pushed
//	w.Use(otelduly.Middleware())                           // where they are handled
//	http.Client{Transport: otelduly.Transport(nil)}        // between httpengine and a server
//
// # How a trace goes on
//
// A push begins a span of kind PRODUCER, and its place in the trace travels in
// the job's headers, as W3C trace context (traceparent and tracestate). The
// handler's span, of kind CONSUMER, goes on from there. A job that has the
// headers already, because somebody else has put it into a trace, keeps them.
//
// One push of one job and its handler are parent and child. The jobs of a push of
// several would make one trace of a thousand handlers, so their headers say
// duly-trace: link, and each handler begins a trace of its own with a link to the
// push. A job that is delivered again has a span for each delivery, with its
// attempt.
//
// Headers that would take a job over its bounds (64 of them, 8 KiB) are left out:
// a trace is never the reason why a job is refused.
//
// # What is told
//
// Spans are named "push QUEUE" and "handle QUEUE" and have the attributes of
// OpenTelemetry's conventions for messaging. They hold the queue, the job's ID, sizes
// and counts; never a body, a header, a receipt or a URL. What a handler returns is
// an error of the span unless it gives the job back (release, snooze).
//
// Only this package and server/traces import OpenTelemetry; programs that import
// neither do not link it.
package otelduly

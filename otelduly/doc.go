// Package otelduly adds jobs to OpenTelemetry traces. A trace leads from the program that
// pushes a job, through the queue, to the handler, at any later time and on any machine.
//
//	engine = otelduly.Engine(engine)                       // where jobs are pushed
//	w.Use(otelduly.Middleware())                           // where they are handled
//	http.Client{Transport: otelduly.Transport(nil)}        // between httpengine and a server
//
// # How a trace continues
//
// A push starts a span of kind PRODUCER. The job's headers carry the span's context, as W3C
// trace context (traceparent and tracestate). The handler's span, of kind CONSUMER,
// continues the trace. A job that has these headers already keeps them.
//
// The push of one job is the parent of its handler. The jobs of a larger push would make one
// trace of a thousand handlers. So their headers have duly-trace: link, and each handler
// starts a trace of its own with a link to the push. A job that is delivered again has a
// span for each delivery, with its attempt.
//
// Headers that would exceed the bounds of a job (64 headers, 8 KiB) are left out: no job is
// refused because of its trace.
//
// # Names and attributes
//
// Spans have the names "push QUEUE" and "handle QUEUE", and the attributes of OpenTelemetry's
// conventions for messaging: the queue, the job's ID, sizes and counts. They never have a
// body, a header, a receipt or a URL. The error of a handler is an error of the span, unless
// it releases the job (Release, Snooze, Overloaded).
//
// Only this package and server/traces import OpenTelemetry. A program that imports neither
// does not link it.
package otelduly

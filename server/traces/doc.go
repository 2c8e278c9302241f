// Package traces records an OpenTelemetry span for each request of a server, and for each push, so
// that the jobs of a traced caller carry the trace.
//
// The span of a request continues the trace of the caller's traceparent header. Its name is the
// pattern of the route, and it holds the method and the status. The span never has a path, a query,
// a header or an address, because each of these may contain a token or other data of a caller.
//
// Package server does not import this package. A program sets server.Config.Tracer.
package traces

// Package traces gives the requests of a server spans of OpenTelemetry, which go
// on with the trace of the caller's traceparent header. A span is named by the
// route's pattern and holds its method and status; never a path, a query, a header
// or an address, for each of them may hold a token or what somebody has sent.
//
// The package server does not import it: who puts a program together gives it to
// the server (server.Config.Tracer), together with an engine of package otelduly,
// which lets the jobs of callers that are traced carry the trace on.
package traces

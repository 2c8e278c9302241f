// Package otlp sends spans to a collector with OTLP over HTTP, in its JSON encoding.
// Every collector accepts it at its port for OTLP over HTTP (4318).
//
// [FromEnv] reads the address from the standard variables of OpenTelemetry. A
// request that fails is retried a few times if the collector's status allows it.
// Then its spans are dropped, so that traces never use more than a bounded amount
// of memory. No error contains an address or a header, because both may hold secrets.
//
// The package does not use OpenTelemetry's own exporter, which links gRPC for every
// protocol.
package otlp

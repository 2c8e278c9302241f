// Package otlp sends spans to a collector, by OTLP over HTTP in its JSON form,
// which every collector takes at the port of OTLP over HTTP (4318).
//
// [FromEnv] reads where to from the standard variables of OpenTelemetry. What
// can't be sent is repeated a few times where the collector says that this may
// help, and then dropped: a trace is never worth the memory that it would wait in.
// No error repeats an address or a header, which may hold secrets.
//
// OpenTelemetry's own exporter is not used because it links gRPC, whatever it
// speaks.
package otlp

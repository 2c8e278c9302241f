// Package wire is the JSON of the native HTTP API. The server, the remote engine and the
// documents share it.
//
// # Forms
//
// A form is a method of fields that names each field of a JSON object once: its name, its
// kind, its place in a Go value, its bounds and its meaning. The same method writes the
// object, reads it, and describes it for the OpenAPI document. Reflection is not used, so
// a push of one small job is read in about a microsecond.
//
// # Readers
//
// A request is read strictly (strict). An unknown or doubled field, a wrong type, text
// that is not UTF-8, half of a surrogate pair, or more text after the value is
// [duly.ErrInvalid] for the whole request.
//
// An answer is read leniently (lenient). Unknown fields are skipped, so that a newer
// server can add some.
//
// # Errors
//
// A fault of the envelope refuses the request. A fault of a value in an item of a batch,
// such as a number beyond its range, is the error of that item alone.
//
// # Values
//
// Durations are text ("1h30m"), times RFC 3339 with milliseconds. "none" is [duly.None].
// Bytes are a string if they are UTF-8 without NUL. Otherwise they are base64, in a field
// with "_base64" behind its name. Null is the same as absent.
package wire

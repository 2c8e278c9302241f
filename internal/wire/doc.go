// Package wire is the JSON of the native HTTP API. The server, the remote engine and the
// documents share it.
//
// # Forms
//
// A form is a method of fields that lists the fields of a JSON object, each with its name,
// kind, place in a Go value, limits and description. The same method writes the
// object, reads it, and describes it for the OpenAPI document. Reflection is not used, so
// a push of one small job is read in about a microsecond.
//
// # Readers
//
// A request is read strictly (strict). An unknown or repeated field, a wrong type, text
// that is not UTF-8, half of a surrogate pair, or more text after the value is
// [duly.ErrInvalid] for the whole request.
//
// An answer is read leniently (lenient). Unknown fields are skipped, so that a newer
// server can add some.
//
// # Errors
//
// An error in the request itself refuses the whole request. An error in a value of one item of a
// batch, such as a number that is out of range, is the error of that item only.
//
// # Values
//
// Durations are text ("1h30m"), times RFC 3339 with milliseconds. "none" is [duly.None].
// Bytes are a string if they are UTF-8 without NUL. Otherwise they are base64, in a field
// whose name has "_base64" added. Null means the same as an absent field.
package wire

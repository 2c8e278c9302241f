// Package wire is the JSON of the native HTTP API, shared by the server and by
// the remote engine: for every request and response one function that writes
// it from the root package's types and one that reads it back into them.
//
// Nothing here goes through reflection. A push of one small job is read and
// answered in about a microsecond, which leaves the time to the store; and the
// reader can be as strict as a server has to be.
//
// # Two readers
//
// A request is read strictly ([Strict]): an unknown or a doubled field, a wrong
// type, text that is not UTF-8, half of a surrogate pair, or anything behind
// the value is [duly.ErrInvalid] for the request as a whole. No field that is
// known nests deeper than three levels, so a request that does is refused at
// the first bracket too many.
//
// A response is read leniently ([Lenient]): a field that this version does not
// know is skipped, so that a newer server can say more.
//
// # Whose error it is
//
// What breaks the envelope refuses the request. What is wrong with the value
// of one item (a duration that is none, a number beyond its range) is that
// item's own error, and its neighbours go on: the readers of batches answer
// the items, and for each of them nil or an error.
//
// # Forms
//
// Durations are text ("1h30m"), times RFC 3339 with milliseconds, "none" is
// [duly.None]. Bytes are a string where they are UTF-8 without NUL, else they
// stand under the same name with "_base64" behind it. Null is the same as
// absent. Names are the ones that the contract gives.
package wire

// Package outcome decides what the answer of a receiver means for a job.
//
// [Decide] finds the first matching row of a table and returns a [Decision]: the
// settlement of the job, the health of the host, and whether its gate closes. The
// table is data (see rows). Rules C16.62 to C16.72 of docs/contract.md are the same
// table in words.
//
// # What decides
//
// The status line decides, with two headers: Retry-After ([RetryAfter]) and
// duly-no-retry. The body of an answer never changes a decision. It becomes the
// result of a job with Retain, or a part of the error text.
//
// A status outside 200 to 599 does not end an HTTP exchange, so it counts as no
// answer of a broken host.
//
// # The error text
//
// A failed try stores a text in the job, which every reader of the queue can see:
// the status or the kind of failure, the host, the duration, and the beginning of
// the body. Because a receiver may echo the request in its error page, Decide first
// removes every text of [Try.Private] from the body.
//
// # Clock
//
// The package has no clock. The caller passes the wall time of the answer, for a
// Retry-After with a date.
package outcome

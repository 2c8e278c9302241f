// Package outcome decides what the answer of a receiver means for a job.
//
// [Decide] looks for the first matching row of a table and returns a
// [Decision]: how the job's delivery ends, how the host did, and whether its
// gate closes. The table is data (see rows), and rule C16.62 to C16.72 of
// docs/contract.md is the same table in words.
//
// # What decides
//
// The status line decides, with two headers: Retry-After ([RetryAfter]) and
// duly-no-retry. The body of an answer never changes a decision. It becomes the
// result of a job with Retain, or a part of the error text.
//
// A status outside 200 to 599 is no answer. Such a status ends no HTTP
// exchange, so the host is broken.
//
// # The error text
//
// A failed try leaves a text in the job, which every reader of the queue sees.
// The text holds the status or the kind of failure, the host, the duration, and
// the beginning of the body. A receiver may echo the request in its error page.
// Decide therefore removes every text of [Try.Private] from the body first.
//
// # Clock
//
// The package reads no clock. The caller passes the wall time at which the
// answer arrived, which only a Retry-After with a date needs.
package outcome

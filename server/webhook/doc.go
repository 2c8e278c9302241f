// Package webhook sends jobs to receivers by HTTP request.
//
// [Sender.Send] makes one try: it asks the host's gate for a place (package
// gate), builds and signs the request (package sign), sends it through the guard
// (package guard), and decides what the answer means (package outcome). It knows
// no engine and no queue. Its caller settles the job by the [outcome.Decision].
//
// # One try
//
// A try is one request. The connection under it may be a kept one that the
// receiver has closed meanwhile. If it breaks before the first byte of the answer,
// Send repeats the request once, on a new connection. net/http repeats none that
// it has sent: it can't rewind these bodies, and doesn't see a job's header
// Idempotency-Key, which would permit it.
//
// # Headers
//
// The request has the job's headers, the target's, and those of duly. For the
// same name the later source wins. [CheckJobHeaders] and [CheckTargetHeaders]
// refuse the names that would not arrive.
//
// # Time
//
// The timeout covers the whole try, with name, connection and body. It runs on
// the injected clock. The header webhook-timestamp is the wall time at which the
// request is built.
//
// # What happens on each failure
//
//   - The gate is closed or full: release until the job's turn. Nothing is sent.
//   - The caller's context ends (the lease is lost, the server stops): the
//     request is aborted and the job released. It says nothing about the host.
//   - The request can't be signed: release. No request is sent unsigned.
//   - Everything else is a row of package outcome.
package webhook

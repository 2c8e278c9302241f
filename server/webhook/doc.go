// Package webhook sends jobs to receivers by HTTP request.
//
// [Sender.Send] makes one try: it asks the host's gate for a permit (package
// gate), builds and signs the request (package sign), sends it through the guard
// (package guard), and decides what the answer means (package outcome). It has
// no engine and no queue. Its caller settles the job by the [outcome.Decision].
//
// # One try
//
// A try is one request. It may use an idle connection that the receiver has
// closed meanwhile. If a used connection breaks before the first byte of the
// answer, Send repeats the request once, on a new connection. net/http itself
// repeats no request that it has sent: it can't rewind these bodies, and doesn't
// see a job's header Idempotency-Key, which would permit it.
//
// # Headers
//
// The request has the job's headers, the target's, and those of duly. For the
// same name the later source wins. [contract.CheckDelivery] and [CheckTargetHeaders]
// refuse the names that would not be sent.
//
// # Time
//
// The timeout covers the whole try: name lookup, connection and body. It uses
// the injected clock. The header webhook-timestamp is the wall time at which the
// request is built.
//
// # What happens on each failure
//
//   - The gate is closed or full: release until the job's turn, without a request.
//   - The caller's context ends (the lease is lost, the server stops): the
//     request is aborted and the job released. The gate ignores this try.
//   - The request can't be signed: release. No request is sent unsigned.
//   - Every other failure is a row of package outcome.
package webhook

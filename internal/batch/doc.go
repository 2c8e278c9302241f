// Package batch joins concurrent calls into batches. While a batch is in flight,
// the next calls queue. They are sent as one batch when it has returned. There is
// no timer: a single call is sent at once, and under load the batches grow with
// the duration of a batch.
//
// # Parts
//
//   - [Queue] holds waiting values and returns as many as fit into a batch. Its
//     owner has its own goroutine, such as the writer of a database.
//   - [Batcher] has a queue and starts senders when there are calls. It suits a
//     client of a server.
//   - [Call] is one caller's part of a batch. Callers embed it in a struct with
//     the input and the result.
//
// # States of a call
//
// A caller may leave at any time, because its context ends. So a call has a state,
// which decides who uses the result:
//
//	queued → sent → answered   the caller takes the result, however late
//	queued → left              the call is never sent; Wait returns the context's error
//	sent → left                the call may have happened; Wait returns contract.Unanswered
//
// The sender moves a call to sent when it leaves the queue, and to answered when
// there is a result. [Call.Claim] does the latter early: a sender that distributes
// leased jobs calls it before it gives a job to a caller. If Claim returns false,
// the job goes to another caller or is released.
//
// After Wait has returned, the caller may reuse the values that it passed in, even
// if it left before the answer. So a call that a caller can leave must hold copies.
//
// # Order and size
//
// Calls are sent in the order in which they were queued. A batch has at least one call,
// and no more than [Limits] allow. [Batcher.Together] keeps calls apart that
// can't share a batch. Later calls that can do not wait for them.
//
// With one batch in flight at a time, callers and server would take turns, and one
// of them would always be idle. A Batcher with several in flight therefore sends
// the callers that come back together from one batch as two halves.
//
// # Errors
//
// The error of [Batcher.Send] is the error of each call in the batch. If calls fail
// for different reasons, the sender sets [Call.Err] of each instead. A panic in a
// sender is an internal error of its batch. This package retries nothing: only the
// sender knows whether a failed batch may have been executed.
package batch

// Package batch joins concurrent calls into batches. While a batch is in flight,
// the next calls queue. They go out as one batch when it has returned. No timer
// takes part: a lone call is sent at once, and under load the batches grow with
// the time that one takes.
//
// # Parts
//
//   - [Queue] holds what waits and takes off as much as fits into a batch. Its
//     owner has a goroutine of its own, such as the writer of a database.
//   - [Batcher] has a queue and starts senders when calls come. It suits a client
//     that talks to a server.
//   - [Call] is one caller's part of a batch. Callers embed it in a struct with
//     the input and the result.
//
// # States of a call
//
// A caller may leave at any moment, because its context ends. A call so has a
// state that decides who acts on the result:
//
//	queued → sent → answered   the caller takes the result, however late
//	queued → left              the call is never sent; Wait returns the context's error
//	sent → left                the call may have happened; Wait returns contract.Unanswered
//
// The sender moves a call to sent when it is taken off the queue, and to answered
// when there is a result. [Call.Claim] does the latter early: a sender that deals
// out leased jobs calls it before it decides to whom a job goes. If Claim returns
// false, the job goes to another caller or is released.
//
// What a caller passed in belongs to the caller again after Wait has returned, also
// when it left. A call that can be left must hold copies.
//
// # Order and size
//
// Calls are sent in the order in which they came. A batch has at least one call,
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
// sender is an internal error of its batch. This package sends nothing again: only the
// sender knows whether a failed batch may have happened.
package batch

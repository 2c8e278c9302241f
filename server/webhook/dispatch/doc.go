// Package dispatch sends the jobs of push queues to their receivers.
//
// A [Dispatcher] reserves jobs of all push queues, makes one try for each (package
// webhook), and settles the job by the answer. Every server runs one. A program can run
// one too. Dispatchers share the work and have no leader: an engine hands each job to
// one of them.
//
// # From a queue to a request
//
// The worker runtime (package worker) has the slots, extends leases, settles in batches
// and drains. Its engine is the feed, which reserves jobs of many queues in many namespaces.
// A poller of the feed waits for up to 100 queues of one namespace. Pollers that have jobs
// take turns, and so do the queues of a poller.
//
// [Queues] lists the push queues and reports changes. [Resolver] finds the destination of
// a job when it is sent, so a changed setting applies to old jobs too.
//
// # Jobs that cannot be sent now
//
// A job never waits in a slot for its host. Its gate estimates when the job can be sent,
// and the job is released until then. A job of a disabled target, or
// of a secret that cannot be read, is released for 5 s, which doubles each time up to
// 5 min. No release uses a try.
//
// A body waits in its slot for memory: the bodies in flight share Config.Memory. While
// a body waits, the feed reserves no jobs.
//
// # Notices
//
// A notice reports that a job has ended. It is a job of the same queue, with the ID
// done:NUMBER or dead:NUMBER:
//
//	push the notice, due in a minute → settle the job → promote the notice
//
// Before a notice is sent, the dispatcher reads the job's state. A notice waits while the
// job is alive, and is dropped if the job has ended in the other way. So no notice is
// false, and none is lost, at whatever step the dispatcher dies.
//
// # What happens on each failure
//
//   - The engine is lost: the worker and each poller retry. A lost pool delays only its
//     own namespaces.
//   - The lease is lost: the request is aborted. Another dispatcher has the job.
//   - The process dies: other dispatchers send its jobs when their leases end. Each job
//     has one more stall.
//   - A notice cannot be stored: its job is released for the backoff of its next try, and
//     sent again.
//   - The clocks of this process and of the engine differ by more than a minute: the log
//     and the metrics report it, because receivers compare timestamps.
//
// # Clock
//
// Timeouts, gates and pauses use the monotonic time of the injected clock. The header
// webhook-timestamp has its wall time. Due times are the engine's.
package dispatch

// Package worker is the runtime for programs that handle jobs.
//
// A [Worker] takes jobs from queues, runs a handler for each, and settles it
// by what the handler returns:
//
//	w := worker.New(engine, worker.Config{Concurrency: 64})
//	w.Handle("mail", worker.JSON(func(ctx context.Context, job *worker.Job[Mail]) error {
//		return send(ctx, job.Value)
//	}))
//	err := w.Run(ctx) // until ctx ends; then drains
//
// # How a handler steers
//
//	nil                  ack: the job is done
//	an error             nack: a failed try, again after the job's backoff
//	RetryAfter(d, err)   nack, again after d
//	Bury(err)            dead now
//	Snooze(d)            back until d has passed, no try used
//	Release()            back to its old place, no try used
//	Overloaded(d, err)   as Snooze, and an overload for Config.Limiter
//	a panic              nack with the value and the stack, cut at 4 KiB
//
// [JSON] buries a job whose body it cannot decode. Jobs are delivered at least
// once: a handler may see a job again after it has done its work, when the
// answer to that was lost. The job's ID is the same each time.
//
// # Kinds
//
// A queue can carry several kinds of jobs, each with a handler of its own type. See
// [HandleKind] and [duly.PushKind]:
//
//	worker.HandleKind(w, "mail", func(ctx context.Context, job *worker.Job[SendMail]) error { … })
//	worker.HandleKind(w, "mail", func(ctx context.Context, job *worker.Job[SendSMS]) error { … })
//
// # Batches
//
// [Worker.HandleBatch] hands several deliveries of a queue or a group to one call, for
// example to write them to a database in one transaction. It returns an error for
// each, so one bad job fails no other:
//
//	w.HandleBatch("events@warehouse", 500, 100*time.Millisecond, func(ds []*worker.Delivery) []error {
//		return insertAll(ds)
//	})
//
// # Groups
//
// A group of a topic is handled as a queue, under the name TOPIC@GROUP. With [From]
// the worker creates the group, and creates it again if it is gone:
//
//	w.Handle("events@mailer", sendMail, worker.From("start"))
//
// Without From the worker waits until somebody creates the group. Every worker
// handles messages of every shard, so nothing is assigned and nothing rebalances.
//
// # Slots, Reserve and Settle
//
// A worker has Config.Concurrency slots. One loop reserves as many jobs in one
// call as there are free slots, never more: no job is leased that could not
// start at once. While that call is under way slots gather for the next. On a
// backlog a worker of many slots has two calls under way, for half of them
// each: while the store works on one, the handlers work on what the other has
// brought. When the queues are empty the loop blocks in one Wait, so an idle
// worker costs nothing. Another loop settles: while one Settle is under way the next
// outcomes gather and go out as one call. A slot is free as soon as its
// handler has returned, and the next Reserve runs beside the Settle; what is
// not settled yet never exceeds twice the slots, so a slow store slows the
// worker down.
//
// Queues with a backlog share the slots by [Weight], which is 1 by default, so
// none of them starves. With Config.StrictOrder a queue is served only when the
// queues before it are empty. A Config.Limiter such as [AIMD] lowers the number of slots
// in use while the service that the handlers call is overloaded. The example
// examples/adaptivelimit follows the latency of a service with a library.
//
// # Who decides when a lease is lost
//
// The engine, by its clock. The worker only guesses, and always too early: it
// trusts a lease for its length, counted from before the Reserve or Extend
// that gave it was sent, less a margin (Config.Margin). It measures that by
// monotonic time, and by the wall clock too, which alone notices that a
// machine was asleep; the one that is further decides.
//
// One goroutine with one timer keeps all leases. Each is extended when a third
// of its length has passed, those that are near to it in the same call. An
// extension that fails is tried again until the lease is over. Then the
// handler's context ends with [ErrLeaseLost], before the engine may hand the
// job to somebody else. It ends so at once when the engine itself says that
// the lease is lost.
//
// When a job is deleted, purged or destroyed while its handler runs, an engine
// that is a [contract.CancelWatcher] (SQLite, Redis, HTTP) reports it. The worker asks
// about the lease at once, and the handler's context ends with
// [duly.ErrCanceled] within 100 ms. The report may be lost, and other engines
// make none: then the next extension finds the lease lost, and the cause is
// ErrLeaseLost.
//
// A lease is extended for Config.MaxHold at most: then the handler's context
// ends with [ErrMaxHold]. A handler with a [Timeout] that has passed loses its
// context with [ErrTimeout]. In both cases the lease is not extended any more,
// so that a handler that does not heed its context can't keep the job for
// ever: the engine takes it back, as a stall.
//
// # What happens on each failure
//
//   - A handler that returns an error after its context has ended with
//     ErrLeaseLost or [ErrStopping]: release, for it was not the job's fault.
//     After ErrTimeout or ErrMaxHold: nack. One that returns nil has done its
//     work, and is acked; the engine knows whether that still counts.
//   - The answer to a Reserve is lost: what it carried comes back when its
//     leases end, as a stall. It is never sent twice.
//   - The answer to a Settle is lost, or the store is: it is sent again, with
//     growing pauses, until the store answers; running handlers go on. An
//     outcome that is answered with lease_lost is never sent again, and
//     nothing is undone because of it: the first try may have settled it.
//   - The store is lost: said once (log and Observer), as is its return,
//     whatever calls fail meanwhile. The worker keeps trying, with pauses that
//     grow to a second and are drawn by lot within a factor of two.
//   - An error that will not pass (a bad token, a closed engine): the worker
//     drains and Run returns it.
//   - The process dies: its leases end, and each of its jobs comes back as a
//     stall, which uses no try.
//   - The process stands still for longer than a lease: when it goes on the
//     handlers are cancelled at once, and what they settle is refused by the
//     engine, because the receipt is not current any more.
//
// # Stopping
//
// When Run's context ends nothing more is reserved and a Reserve under way is
// given back. Handlers may go on for Config.Drain, and their leases are kept.
// Then they are cancelled with ErrStopping and have a moment to return; what
// is still running after it is released although its handler runs. [Kill] does
// so at once: it is what a second signal calls.
package worker

// Package worker is the runtime for programs that handle jobs.
//
// A [Worker] reserves jobs from queues, runs a handler for each job, and settles the job
// by the handler's error:
//
//	w := worker.New(engine, worker.Config{Concurrency: 64})
//	w.Handle("mail", worker.JSON(func(ctx context.Context, job *worker.Job[Mail]) error {
//		return send(ctx, job.Value)
//	}))
//	err := w.Run(ctx) // until ctx ends; then drains
//
// # Results of a handler
//
//	nil                  ack: the job is done
//	an error             nack: a failed try, repeated after the job's backoff
//	RetryAfter(d, err)   nack, repeated after d
//	Bury(err)            dead at once
//	Snooze(d)            released until d has passed, no try used
//	Release()            released to its old place, no try used
//	Overloaded(d, err)   as Release, and the queue is closed for d
//	a panic              nack with the value and the stack, cut at 4 KiB
//
// [JSON] buries a job whose body it cannot decode. Jobs are delivered at least once. If
// the answer to a settlement is lost, a handler may see a job again after it has done the
// work. The job's ID is the same each time.
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
// [Worker.HandleBatch] passes several deliveries of a queue or a group to one call, for
// example to write them to a database in one transaction. The handler returns an error for
// each delivery, so one bad job does not fail the others:
//
//	w.HandleBatch("events@warehouse", 500, 100*time.Millisecond, func(ds []*worker.Delivery) []error {
//		return insertAll(ds)
//	})
//
// # Groups
//
// A group of a topic is handled like a queue, under the name TOPIC@GROUP. With [From] the
// worker creates the group, and creates it again if it disappears:
//
//	w.Handle("events@mailer", sendMail, worker.From("start"))
//
// Without From, the worker waits until another program creates the group. Every worker
// handles messages of every shard, so there are no assignments and no rebalancing.
//
// # Slots, Reserve and Settle
//
// A worker has Config.Concurrency slots. One loop reserves at most as many jobs as there
// are free slots, so every leased job starts at once. While a Reserve is in flight, slots
// become free for the next one. A worker of many slots with a backlog has two Reserves in
// flight, each for half of the slots: the store works on one while the handlers work on the
// jobs of the other. When the queues are empty, the loop blocks in one Wait, so an idle
// worker costs nothing.
//
// Another loop settles. While one Settle is in flight, the next outcomes queue up and go
// out in one call. A slot is free when its handler has returned, so the next Reserve runs
// concurrently with the Settle. At most twice as many outcomes as slots are unsettled, so a
// slow store slows the worker down.
//
// Queues with a backlog share the slots by [Weight], which is 1 by default, so no queue
// starves. With Config.StrictOrder, a queue is served only while the queues before it are
// empty. A Config.Limiter such as [AIMD] lowers the number of slots in use while the service
// that the handlers call is overloaded. The example examples/adaptivelimit follows the
// latency of a service with a library.
//
// # When a lease is lost
//
// The engine decides, by its clock. The worker only estimates, and always too early. It
// trusts a lease for its length less a margin (Config.Margin), counted from before it sent
// the Reserve or Extend. It measures this time by the monotonic clock and by the wall
// clock, and the later one counts: the monotonic clock does not notice that a machine
// slept, and the wall clock may be set back.
//
// One goroutine with one timer renews all leases. It extends each lease after a third of
// its length, together with the leases that are due soon. It repeats a failed extension
// until the lease is over. Then it ends the handler's context with [ErrLeaseLost], before
// the engine may deliver the job again. It also does so when the engine answers that the
// lease is lost.
//
// An engine that is a [contract.CancelWatcher] (SQLite, Redis, HTTP) reports jobs that are
// deleted, purged or destroyed while their handlers run. The worker verifies the lease at
// once, and ends the handler's context with [duly.ErrCanceled] within 100 ms. If the report
// is lost, or the engine makes none, the next extension finds the lease lost, and the cause
// is ErrLeaseLost.
//
// The worker extends a lease for Config.MaxHold at most. Then it ends the handler's context
// with [ErrMaxHold]. After a [Timeout] it ends the context with [ErrTimeout]. In both cases
// it stops extending the lease. So a handler that ignores its context cannot hold the job
// without end: the engine takes the job back, as a stall.
//
// # What happens on each failure
//
//   - A handler returns an error after its context has ended with ErrLeaseLost or
//     [ErrStopping]: release, because the job did not fail. After ErrTimeout or ErrMaxHold:
//     nack. A handler that returns nil has done its work, so its job is acked, and the
//     engine decides whether the ack still counts.
//   - The answer to a Reserve is lost: its jobs come back when their leases end, as stalls.
//     The worker never repeats the call.
//   - The answer to a Settle is lost, or the store is: the worker repeats the call with
//     growing pauses until the store answers. Running handlers continue. The worker never
//     repeats an outcome that is answered with lease_lost, because the first call may have
//     settled it.
//   - The store is lost: the log and the Observer report it once, and its return once,
//     whichever calls fail meanwhile. The worker retries with pauses that grow to a second.
//     Half of each pause is random.
//   - An error that a retry cannot fix, such as a bad token or a closed engine: the worker
//     drains, and Run returns the error.
//   - The process dies: its leases end, and each of its jobs comes back as a stall, which
//     uses no try.
//   - The process stops for longer than a lease: when it continues, it cancels the handlers
//     at once. The engine refuses their outcomes, because the receipts are no longer current.
//
// # Stopping
//
// When Run's context ends, the worker reserves nothing more, and releases the jobs of a
// Reserve in flight. Handlers may continue for Config.Drain, and the worker still renews
// their leases. Then it cancels them with ErrStopping, and they have 400 ms to return. It
// releases the jobs of handlers that still run. [Worker.Kill] skips the wait: a program
// calls it on a second signal.
package worker

// Package sqliteengine is the embedded engine. It stores everything in one SQLite file on
// this machine and has one shard per queue.
//
// # One writer
//
// One goroutine, the writer, owns the only connection that writes. A call that changes
// something is an operation (type op): it is put into the inbox, and its caller waits. The
// writer takes all operations that have gathered during the last commit. It runs them one
// after the other in one transaction, commits, and answers them (package batch). So many
// callers share one sync, and no timer is needed to gather them. An answered call is durable.
//
// All operations of a transaction are called before any of them is answered, so their order is
// free. Pushes run first, then Deletes, then all others, then Reserves. Within a kind they run
// in the order of arrival. The operations of a kind share statements: pushes of jobs without
// keys (push_batch.go), Deletes of leased jobs (delete.go), and Reserves from one queue
// (ready.go). Shared statements run before an operation of another kind.
//
// If a joint transaction fails, it is rolled back. Each operation then runs in a transaction
// of its own, so that only the faulty one fails.
//
// Reads run concurrently with the writer on connections of their own. Each read transaction
// sees one commit. Pages of lists and surveys give way to callers that write, so a page
// consists of several transactions (longread.go). A checkpoint may block new reads for a
// moment, because reads can prevent the write-ahead log from restarting (gate.go,
// checkpoint.go).
//
// # State in memory
//
// The writer knows of each queue (type queue) its configuration, its sizes and counters, and
// the earliest time at which something becomes due, expires, stalls or must be dropped. A
// transaction changes drafts of the queues. A commit applies the drafts, and a rollback
// discards them. Sizes and counters are written once per transaction and queue. The earliest
// times are lower bounds: before the engine acts on one that has passed, it reads the index.
//
// # Types
//
//   - Engine embeds one type for each group of the contract's methods (engine.go). These
//     share a store, the open file.
//   - tx is a write transaction. It finds and creates queues and holds the waiting shared
//     statements.
//   - queue finds jobs (queue_jobs.go), steps (step.go) and counts deliverable jobs for polls
//     (poll.go). topicQueue and groupQueue are the two special kinds.
//   - job has all state changes (job_state.go). They end in put (job_store.go), which writes
//     the row, its entries in other tables, sizes and earliest times. Nothing else writes to
//     these tables, except shared statements and checks.
//   - notifier wakes waiters after commits and at times (notifier.go, wait.go).
//   - readTx and checkTx are the transactions of the inspector and of checks.
//
// # Topics and groups
//
// A topic is a queue of kind kindTopic with a log (type topicLog). A group is a queue of kind
// kindGroup with a cursor (type groupState). The jobs of a group are pointers into the log, or
// copies of dead messages (job_message.go). So steps, settles, lists, limits and checks of
// queues work for groups. A Publish shares statements like a push, and Reserves share new
// messages like ready jobs (group_reserve.go). Only the beginning of a log is ever deleted
// (topic_retention.go).
//
// # Schedules
//
// A schedule is a row of table schedules. Its next tick is one of the earliest times of its
// queue (eventTimes). A pass fires due ticks in rounds (schedule.Firing): a read of due schedules
// (DueSchedules), and one transaction that pushes their runs and sets their next ticks (Fire).
// The timer starts passes, with or without waiters (notifier_schedules.go). A manual engine fires
// ticks in Reserve and Step, and a due tick wakes one waiter. Ticks that cannot fire now, because
// the queue is full or the zone is unknown, are left alone until a moment (queueView.tickHold).
//
// # How to write an operation
//
//		err := e.change(ctx, func(t *tx) error {
//			q := t.queue(ref.Normal()) // the draft, nil for an unknown queue
//			if q == nil {
//				return contract.NotFound(ref, id)
//			}
//			j, err := q.findJob(t, id) // nil if it does not exist or has expired
//			…
//			j.Priority = 5
//			return j.reschedule(t, false)
//		})
//
//	  - The function may run twice, because a joint transaction may fail. So it resets the
//	    results outside of it first.
//	  - It checks first and writes then. A contract error (duly.Error) refuses only this
//	    operation, and means that nothing was changed. Any other error rolls back the whole
//	    transaction. Errors of statements are returned as they are.
//	  - The time is t.time, or t.now in milliseconds. It is constant during the operation.
//	  - A job's fields are changed first and then written by a method of job_state.go. j.Body is
//	    set only if j.hasBody. putBody writes a changed body.
//	  - These methods count Expired, Dead, Acked, Dropped, and Merged of a returning job. The
//	    operation counts the rest in q.counters, such as Deleted and Requeued.
//	  - A change of the configuration in q.cfg sets q.cfgDirty.
//	  - Wake-ups need no code: the notifier looks at all changed queues after the commit.
//
// A read is e.read(ctx, func(c *conn) error { … c.stmt("name") … }), or onSnapshot for a
// queue. A read of many rows is e.readLong. Its function calls readSlice.timeUp after each row
// and remembers where to continue.
//
// The statements are in sql/*.sql, each under a name. A statement that ends before its last
// row must be Reset.
package sqliteengine

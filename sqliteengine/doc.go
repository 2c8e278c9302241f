// Package sqliteengine is the embedded engine: one file on this machine, and
// everything of the contract with one shard.
//
// # One writer
//
// One goroutine, the writer, owns the one connection that writes. A call that
// changes something is an operation: it is put into the inbox and its caller
// waits. The writer takes everything that has gathered while it was at the
// last commit, runs it in one transaction, one operation after the other, and
// commits; then all are answered (package batch). So many callers share one sync, and
// no timer is needed to bring them together. What is durable is what was answered.
//
// Those that meet in one transaction were all called before any of them is
// answered, so their order is free. Pushes go first, then Deletes, then all
// others, then Reserves, each kind in the order in which it came; pushes of jobs
// without keys, Deletes of running jobs, and Reserves of a queue share their
// statements (join.go, push_simple.go, removal.go, supply.go). An operation of another
// kind never runs while such statements are outstanding.
//
// If a joint transaction fails it is rolled back and its operations are tried
// one by one, each in a transaction of its own, so that one which can't be
// done fails alone.
//
// Reads run beside the writer on connections of their own, each in a
// transaction that sees one commit. Pages of lists and surveys give way to
// callers that write (longread.go): a page then consists of several transactions.
// A checkpoint that reads keep from restarting the log lets new reads wait for a
// moment (gate.go, checkpoint.go).
//
// # What stands in memory
//
// The writer knows of every queue its configuration, its sizes and counters,
// and the first moment at which something becomes due, expires, stalls or is
// old enough to be dropped (type queue). A transaction works on a copy of each
// queue that it touches; the copies become the truth when it was committed and
// are dropped when it was not. Sizes and counters are written once per
// transaction and touched queue. Moments are lower bounds: one that has passed
// is read anew from its index before anything is done about it.
//
// # Topics and groups
//
// A topic is a queue of kind kindTopic with a log (type topicLog), a group a queue of
// kind kindGroup with a cursor (type groupState). A group's jobs are pointers into the
// log or copies (topic_held.go), so steps, settles, lists, limits and checks of queues
// serve it. Statements of a Publish are shared as those of pushes are, and new messages
// of a group as its ready ones (topic_reserve.go). What is deleted from a log is always
// its beginning (topic_keep.go).
//
// # How an operation is written
//
//		err := e.change(ctx, func(t *tx) error {
//			q := t.queue(ref.Normal())      // this transaction's copy; nil: unknown
//			if q == nil { return contract.NotFound(ref, id) }
//			j, err := t.find(q, id)         // alive by the clock, or nil
//			…
//			j.Priority = 5
//			return t.replan(j, false)
//		})
//
//	  - It may run twice, for a joint transaction can fail: begin by forgetting
//	    what an earlier run has put into results outside of it.
//	  - It checks first and changes then. An error of the contract (duly.Error)
//	    refuses this operation alone and promises that nothing was changed; any
//	    other error rolls the whole transaction back. Errors of statements are
//	    handed on as they are.
//	  - Time is t.now (ms) and t.t, one moment for the whole operation.
//	  - A job is read by t.find, t.byNumber, t.one or t.collect, changed in its
//	    fields, and written by one of the steps of life.go, which all end in
//	    t.put: that writes the row, brings alias, expiry and merge key in line
//	    with the state, moves the sizes and notes the moments. Nothing else writes
//	    to these tables. j.Body is there only if j.hasBody; t.putBody writes a
//	    changed one.
//	  - Steps: t.enter (new, or alive again: delayed, ready or blocked by its
//	    due), t.promote (delayed to ready or blocked), t.replan (waiting, with
//	    fields changed), t.gone (removed, keys given up), t.expire, t.die (dead;
//	    set lastError before), t.finish, t.comeBack. t.freeKey passes an order
//	    key to the next blocked job; t.readyOrBlocked takes it if it is free;
//	    t.merger is the other job that holds j's merge key.
//	  - The step counts Expired, Dead, Acked, Merged (of a job that came back)
//	    and Dropped; what else an operation is counts itself, in q.counters
//	    (Deleted, Requeued, …).
//	  - A queue's configuration is changed in q.cfg with q.cfgDirty set.
//	  - Wake-ups need no note: after the commit whoever waits for a touched queue
//	    is told what became deliverable.
//
// A read: e.read(ctx, func(c *conn) error { … c.stmt("name") … }), rows by
// job.scanJob with a queue of which ref and id are set. A read of many rows:
// e.readLong, whose function asks slice.over after each row and remembers where
// to go on.
//
// Statements stand in sql/*.sql under a name; a statement that is left before
// its last row is Reset.
package sqliteengine

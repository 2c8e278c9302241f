// Package jobs pushes, reserves, settles and deletes jobs.
//
// # Batches
//
// While a push, a reserve, a settle or a delete of a shard is in flight, the next calls wait and
// go out as one script call (internal/batch). If the reply of such a call is lost, each of its
// callers gets "unavailable". A call that may have run is never sent again.
//
// A batched reserve asks for as many jobs as all its callers want. It distributes them in the
// order in which the callers came. Each gets what its own call would have got after the caller
// before it. Jobs that were leased for a caller that left go to the others, or are released.
// Reserves of more than a hundred jobs, and Reserves that already have jobs, are sent alone.
//
// # The path of a push
//
//	duly            client.go       Push
//	jobs            push.go         Push: groups the jobs by queue and shard
//	                push_plan.go    plans each job with the queue's defaults
//	catalog         call.go         With: the cached configuration, with a retry if it was stale
//	codec           push.go         packs numbers, records and shared properties
//	jobs            batched.go      joins the calls of many callers
//	internal/batch  batcher.go      the queue of calls, and the senders
//	                call.go         the caller waits here
//	store           work.go         the sender's goroutine
//	jobs            push.go         sends the batch, and reads the answers
//	catalog         call.go         Write: clock and version come first
//	link            durable.go, run.go, script.go   the command, retries, durability
//
// # A node that is down
//
// In a cluster the other shards continue. A Reserve asks each shard once and returns what the
// others have. While it has nothing, it asks the unreachable shards again, with growing pauses.
//
// # Files
//
// Each file uses only files named before it:
//
//	spread.go, consumers.go   the shard of a push, and stored names of consumers
//	batched.go                the calls of many callers as one
//	push_plan.go, push.go     Push
//	settle.go, delete.go      Settle, Extend and Delete
//	reserve.go                Reserve
//	group.go                  the batches of groups
//	jobs.go                   New
package jobs

// Package jobs pushes, reserves, settles and deletes jobs.
//
// # Batches
//
// While a push, a reserve, a settle or a delete of a shard is in flight, the next ones
// queue and go out as one script call (internal/batch). A lost reply of such a call is
// "unavailable" to each of its callers. Nothing that may have run is sent again.
//
// A batched reserve asks for as many jobs as all its callers want. It deals them out
// in the order in which the callers came. Each gets what a call of its own would have
// got behind the caller before it. What was leased for a caller that left goes to the
// others, or is released. Reserves of more than a hundred jobs, and Reserves that have
// something already, are sent alone.
//
// # The path of a push
//
//	duly            client.go       Push
//	jobs            push.go         Push: groups the jobs by queue and shard
//	                push_plan.go    plans each job with the queue's defaults
//	catalog         call.go         With: the cached configuration, and again if it was stale
//	codec           push.go         packs numbers, records and what jobs have in common
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
// In a cluster the other shards go on. A Reserve asks each shard once and takes what
// the others have. Only while it has nothing does it ask again what was not reached,
// round after round with growing pauses.
//
// # Files
//
// Each file uses only files named before it:
//
//	spread.go, consumers.go   the shard of a push, and stored names of consumers
//	batched.go                the calls of many callers as one
//	push_plan.go, push.go     Push
//	settle.go                 Settle, Extend and Delete
//	reserve.go                Reserve
//	group.go                  the batches of groups
//	jobs.go                   New
package jobs

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
// # A node that is down
//
// In a cluster the other shards go on. A Reserve asks each shard once and takes what
// the others have. Only while it has nothing does it ask again what was not reached,
// round after round with growing pauses.
package jobs

// Package wait lets callers wait for queues, and wakes them.
//
// # Markers
//
// A waiter leases nothing. Per node (in a cluster, per shard) one blocking BZPOPMIN
// waits for a marker, for all waiters of this process. A script that leaves
// deliverable jobs behind sets the marker "now" with their number. The process that
// takes it wakes as many waiters, and the Reserve of each says again what it has left.
// A script that brings the next due moment nearer sets "later". The process that takes
// it keeps that moment on its own timer and then looks.
//
// # Lost wake-ups
//
//   - A process that took a marker and has no waiter puts it back.
//   - Where a woken waiter does not reserve within a tenth of a second, the process
//     that woke it looks itself (internal/waiters).
//   - A marker that is lost with its process or its connection is found by the look
//     that every waiting process makes every two seconds.
//
// A queue that nobody has created is watched by the names that its markers will have.
//
// # Looks
//
// A look asks the shards what a Reserve would find. A waiter looks before it sleeps,
// except just after a Reserve that has left nothing: whatever came later has set a
// marker. A busy worker therefore causes no marker traffic.
//
// In a cluster a node may be down. A Wait sleeps as long as one shard can be looked
// at, and the two-second look handles each answer as it comes.
//
// # Files
//
// Each file uses only files named before it:
//
//	activity.go, hub.go   what is under way, and the state that the rest shares
//	look.go               what a Reserve would find in shards
//	wake.go               what follows from a look: wake-ups, due timers, expiry
//	watch.go              blocking calls on markers, and the look of every two seconds
//	wait.go               Wait, and the queues that somebody waits for
//	lease.go, probe.go    timers of leases, and what tests may ask
package wait

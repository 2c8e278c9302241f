// Package wait makes callers wait for queues, and wakes them.
//
// # Markers
//
// Waiting leases no jobs. Per node (in a cluster, per shard) one blocking BZPOPMIN waits for a
// marker, for all waiters of this process. A script that leaves deliverable jobs sets the marker
// "now" with their number. The process that takes it wakes that many waiters, and each one's
// Reserve sets a marker again for the jobs that it leaves. A script that makes the next due time
// earlier sets "later". The process that takes it sets a timer for that time and then polls.
//
// # Lost wake-ups
//
//   - A process that took a marker and has no waiter puts it back.
//   - If a woken waiter does not reserve within a tenth of a second, the process that
//     woke it polls itself (internal/waiters).
//   - A marker that is lost with its process or its connection is replaced by the poll
//     that every waiting process makes every two seconds.
//
// For a queue that does not exist yet, the process watches the markers that it will have.
//
// # Looks
//
// A look polls the shards for what a Reserve would find. A waiter looks before it sleeps, except
// just after a Reserve that left no job: any job that came later has set a marker. A busy worker
// therefore causes no marker traffic.
//
// In a cluster a node may be down. A Wait sleeps as long as one shard can be polled, and the
// two-second look handles each answer as it arrives.
//
// # Files
//
// Each file uses only files named before it:
//
//	activity.go, hub.go   running activities, and the state that the rest shares
//	look.go               polls of shards
//	wake.go               what follows a poll: wake-ups, due timers, expiry
//	watch.go              blocking calls on markers, and the look every two seconds
//	wait.go               Wait, and the queues with waiters
//	lease.go, probe.go    timers of leases, and hooks for tests
package wait

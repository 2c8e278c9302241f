// Package schedules stores schedules and fires their ticks.
//
// # Storage
//
// A shard has its schedules in a hash, and the order of their ticks in a sorted set. A
// Put, a Pause and a Resume read the record, compute the new one here, and write it if the
// stored one is still the same.
//
// # Firing
//
// Any process fires a tick: it reads the due schedules of a shard, computes the items, and
// calls the script schedule_fire. The script compares version and next tick with the
// stored ones, so a tick has one run, however many processes fire it. It pushes the run
// with the code of push.
//
// [Passes] decide when this process fires. A look, a Reserve, a Step or a sweep reports a
// due tick. A server also keeps a timer for the first tick of each shard that its sweep has
// found. The marker "later" announces ticks to processes with waiters, as it does due jobs.
//
// # Failures
//
//   - The answer of a Fire is lost: the repeat is stale.
//   - A process dies between its read and its Fire: the tick stays due. A process with
//     waiters finds it by its look every two seconds, and a server finds it by its sweep.
//   - A record cannot be read: the read of the due schedules moves it aside, so that it
//     holds up no other schedule.
package schedules

// Package waiters tracks the callers that wait for a queue, and those that were woken and have not
// reserved yet. Several engines use it.
//
// # Protocol
//
// A Wait adds a [Waiter] under the keys of its queues and blocks. When a queue gets deliverable
// jobs, the engine calls [Registry.Wake] with their number. Wake wakes the oldest waiters. A woken
// waiter leaves all its queues, and its wake-up is outstanding until its Reserve:
//
//	waiting → woken → arrived   it has called Reserve: Arrive
//	                → left      its caller has left: Leave, then the engine wakes another
//	                → expired   no Reserve within Life: Expire
//
// Wake counts the outstanding wake-ups, so that a number of jobs wakes as many callers and not
// more. It does not matter which caller reserves first: any Reserve for the key takes the oldest
// outstanding wake-up.
//
// A wake-up has a tag, which names a part of the queue, such as a shard. Wake-ups of one tag do not
// count for another tag.
//
// A woken caller may find no message, because the filter of a group skips them all. An engine
// records that with [Registry.Vain], and delays the next wake-up of the key by [Registry.Pause].
// The first wake-up of an idle key is never delayed.
//
// # Clock and lock
//
// All times are readings of a monotonic clock ([clock.Clock.Mono]) that the engine passes in. The
// registry sets no timers: the engine asks for the next expiry.
//
// A Registry is protected by its engine's lock, because an engine changes the state of a queue and
// its waiters in one step. Only [Waiter.Wait] is called without the lock.
package waiters

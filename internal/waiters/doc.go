// Package waiters keeps track of the callers that wait for a queue, and of those
// that were woken and have not reserved yet. Engines share it.
//
// # Protocol
//
// A Wait adds a [Waiter] under the keys of its queues and blocks. When a queue gets
// deliverable jobs, the engine calls [Registry.Wake] with their number. Wake wakes
// the oldest waiters. A woken waiter leaves all its queues, and a wake-up is
// outstanding for it until its Reserve comes:
//
//	waiting → woken → arrived   its Reserve came: Arrive
//	                → left      its caller has gone: Leave, then the engine wakes another
//	                → expired   no Reserve came within Life: Expire
//
// Wake counts the outstanding wake-ups, so that a number of jobs wakes as many
// callers and not more. It does not matter which caller's Reserve comes first: any
// Reserve for the key takes the oldest outstanding wake-up.
//
// A wake-up has a tag, which says what part of the queue it was for, such as a
// shard. Wake-ups of one tag do not count for another.
//
// A wake-up may be in vain, because a filter of a group passes over the messages. An engine
// notes that with [Registry.Vain], and delays the next wake-up of the key by
// [Registry.Pause]. The first wake-up of an idle key is never delayed.
//
// # Clock and lock
//
// All times are readings of a monotonic clock ([clock.Clock.Mono]) that the engine
// passes in. The registry sets no timers: the engine asks for the next expiry.
//
// A Registry is guarded by its engine's lock, because an engine changes what it
// knows of a queue and who waits for it in one step. Only [Waiter.Wait] is called
// without the lock.
package waiters

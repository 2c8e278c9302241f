// Package schedule has the part of schedules that needs no store. It decides which ticks fire and
// what the job of a tick is. Every engine uses it, so a tick has the same run everywhere.
//
//   - [Put], [Pause] and [Resume] make the record that an engine stores.
//   - [Timing] reads the expression, the zone and the bounds of a stored schedule.
//   - [Fold] turns a due schedule into the items of a Fire call.
//   - [Run] makes the job of one tick: its ID, its due time, its headers and the keys of
//     the overlap policy.
//   - [TimingHash] and [ContentHash] decide what a Put changes.
//
// Package contract has the rest that engines share: the validation, the shard, and
// [contract.FireItem] with the checks of Fire.
//
// # Missed ticks
//
// A record has one next tick, however long no process fires it. After an absence, Fold finds the
// latest tick from the expression, without a walk over the missed ones:
//
//	expected                        latest   now   following
//	   |----x----x----x----x----x------x------|--------x
//	        missed, 1000 at most       |               |
//	                                   catchup one     the new next
//
// With catchup all, each tick of the window fires, in calls of at most 1000 items. The process
// repeats the call until the schedule is no longer due.
//
// # Clock
//
// Fold decides by the engine's clock. A record and that time always make the same items, so two
// processes that fire one tick disagree only if their zones do.
package schedule

// Package bench measures an engine: how many jobs per second it stores, delivers and settles, and
// how late deliveries are.
//
// A [Phase] is one way to load the engine. [Run] runs the chosen phases, each several times, and
// returns a [Report]. The figures follow these rules:
//
//   - A run is limited by a number of jobs and by time, whichever comes first,
//     and is divided by the time that it took. After the time limit no new call
//     is made. A call in flight is waited for and counted.
//   - Preparation is not measured. A run that takes jobs takes those of an
//     earlier run. Missing jobs are loaded before it.
//   - Names of queues begin with [Prefix]. The queues are destroyed at the end,
//     also after an error or an interruption, and not before, because an engine
//     may still be removing jobs after Destroy has returned. A killed process
//     leaves its queues.
//   - With a [Backlog], push, single, take and work use the queue with the
//     backlog. Both and lateness, which measure the age of jobs at delivery, use
//     another queue.
//   - Life, the kinds of Memory, and Spread use other queues, too. Life and
//     Spread measure everything once per round, because only ratios are reliable
//     on a machine with other work.
//   - A phase's rate is the median of its runs. Its latencies are those of all
//     its runs together.
//
// # Lateness
//
// A job's lateness is the time at which its handler starts minus its due time, on the engine's
// clock. The engine may be on another machine, so the clocks are compared first: jobs are pushed
// and reserved at once, and each delivery has the engine's time between two readings of this
// process's clock. If one clock explains all readings, the offset is zero. Otherwise it is the
// middle of the possible range, and half the range is the error of a lateness.
//
// The run of a tick is due when it is pushed, at the earliest. Its lateness is that of its tick.
//
// A job is early if the engine reports a delivery time before the due time, or if its handler
// started before it by more than the clocks' error.
//
// # Cost of measuring
//
// Per job, measuring costs an ID, which every caller needs, a reading of the clock, and an
// addition to a [Histogram], which is an array. Jobs don't pass through channels.
package bench

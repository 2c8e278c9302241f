// Package bench measures an engine: how many jobs a second it takes, hands out
// and ends, and how late it is.
//
// A [Phase] is one way to load the engine; [Run] goes through the chosen ones,
// each several times, and answers a [Report]. What the figures mean rests on a
// few rules:
//
//   - A run is bounded by a number of jobs and by time, whichever comes first,
//     and is divided by the time that it really took. The bound in time only
//     keeps new calls from being made: a call in flight is waited for and
//     counted, because an answer that was not waited for is not a result.
//   - Preparing is not measured. A run that takes jobs takes those that an
//     earlier run has pushed; what is missing is loaded before it.
//   - Queues have names that begin with [Prefix] and are destroyed at the end,
//     also when a run fails or is interrupted; not before, for an engine may go
//     on removing jobs after Destroy has answered. A killed process leaves its
//     queues behind under that name.
//   - With a [Backlog], push, single, take and work go through the very queue
//     that holds it. Both and lateness, which tell how old jobs are when they
//     are handed out, use a queue of their own beside it.
//   - Life, Memory's kinds and Spread use queues of their own too. Life and Spread
//     measure everything once per round, because only ratios hold on a machine
//     that others use.
//   - A phase's rate is the median of its runs; its latencies are those of all
//     its runs together.
//
// # Lateness
//
// A job's lateness is the moment at which its handler is entered minus its due
// moment, on the engine's clock. The engine may stand on another machine, so
// its clock is compared with ours first: jobs are pushed and taken at once, and
// each tells the engine's time of a moment that lay between two readings of
// ours. Where one clock would explain everything that was seen, it is one
// clock; else the middle of what is possible is taken, and its half width is
// how far a lateness may be wrong.
//
// A job is early if the engine handed it out at a moment (its own word) before
// the due moment, or if its handler was entered before it by more than the
// clocks may differ.
//
// # Cost of measuring
//
// Per job the measuring side pays what every caller of duly pays, an ID, and
// beside that a reading of the clock and an addition to a [Histogram], which
// is an array. No job goes through a channel.
package bench

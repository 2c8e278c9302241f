// Package clock is the only package in duly that reads the time.
//
// Every package takes a [Clock] and so can be run by a [Fake] in tests: a
// delay of a week then passes in a microsecond. A clock has two kinds of time,
// which drift apart when the machine's time is set:
//
//   - Now is wall time. A job's due time is compared with it. It may step
//     forwards and backwards.
//   - Timers run on monotonic time: they measure durations, and a step of the
//     wall clock does not affect them.
//
// So a timer that was set for a wall time may fire before it (the wall clock
// stepped back) or long after it (the wall clock stepped forward). Code that
// sets such a timer must check Now again when it fires, and must not sleep
// longer than the delay that it can accept. [Fake.Advance] moves both kinds of
// time, [Fake.Step] only the wall clock.
package clock

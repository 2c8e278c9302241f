// Package clock is the only place in duly that reads the time.
//
// Every package takes a [Clock] and so can be run by a [Fake] in tests: a
// delay of a week then passes in a microsecond. A clock tells two things that
// a computer keeps apart and that drift apart when somebody sets the time:
//
//   - Now is wall time: what a job's due moment is compared with. It may step
//     forwards and backwards.
//   - Timers run on monotonic time: they measure how long something lasts and
//     do not notice a step of the wall.
//
// So a timer that was set for a wall moment may fire before it (the wall
// stepped back) or long after it (the wall stepped forward). Whoever sets one
// looks at Now again when it fires, and does not sleep longer than it can
// afford to be wrong. [Fake.Advance] moves both, [Fake.Step] the wall alone.
package clock

// Package adaptive is the adaptive limit of one shard of a queue. It decides which share
// of the configured limits the shard enforces, only from the outcomes of its deliveries.
//
// It protects the tries of the jobs and the service that the handlers call:
//
//   - An overload, or a block of outcomes with more failures than successes, halves the
//     factor, down to the floor.
//   - Successes raise it while the limits are in use: fast up to 90 % of the last factor
//     that worked, and by 5 % per second from there.
//   - After 20 failures in a row the shard is in probing. It hands out one delivery at a
//     time, with pauses of up to 30 s, until one succeeds.
//
// # States
//
//	         20 failures in a row             the closing ends
//	open ------------------------> closed ----------------------> probe out
//	  ^                              ^                              |  |
//	  |                              +---- every other end ---------+  |
//	  +---------------------------------- ack -------------------------+
//
// An overload with a duration closes an open shard too, without probing.
//
// # Clock
//
// A [State] reads no clock. Its methods take the engine's clock in ms, and do the same for
// the same calls. A clock that steps back neither blocks a decrease nor raises the factor,
// and a closing never counts for more than an hour.
//
// # Constants
//
// The tests simulate a queue of 100 deliveries per second with 64 in flight, and services
// that fail, that refuse calls above their capacity, and that recover. The figures are:
// an outage of 10 minutes uses at most 100 tries and those of the probes. One minute after
// it, and after a rise of the capacity, the rate is 90 %. After a fall of the capacity to
// a fifth, 70 % of it succeed, and less than 5 % of the answers are overloads. An hour at
// a tenth of the limit raises nothing.
//
// The first design missed two of them, so the simulation has changed these points:
//
//   - increasePause is new. Without it, the successes between the refusals doubled the
//     factor as often as the refusals halved it. The factor stayed far above the capacity,
//     and half of all answers were overloads.
//   - doublingSuccesses is new. At few outcomes per second, one success doubled the
//     factor, so the next good block never came, and no decrease learned the capacity.
//   - An overload starts a new block. An overload soon after a decrease otherwise spoils
//     the block that could be good.
//   - A window has windowDeliveries deliveries, where it had the time of two. It measures
//     leased jobs by their mean over the window. With random arrivals, or with a limit of
//     one leased job, a tenth of the limit looked like half of it.
//   - A good probe starts a new window, and a closed time belongs to no window. The shard
//     otherwise takes the outage for a lack of jobs, and does not climb.
//
// Blocks of 20, streaks of 20, halving, 5 % per second and closings of up to 30 s hold.
//
// Two bounds remain. A shard of less than one delivery per second at the floor needs more
// than a minute to climb. And if calls from before an outage still succeed while others
// fail, the streak begins after the last of them: with latencies of 0.3 s to 1 s and no
// limit of leased jobs, an outage used 118 tries.
//
// # Other limiters
//
// Package aimd limits calls in flight, and learns from their latency. A queue mixes kinds
// and sizes of jobs, so latency says little here, and the limit is a rate as well. The two
// share their convention for time and the pause between two decreases, but no code.
package adaptive

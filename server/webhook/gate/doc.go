// Package gate decides which host gets a request now, and when a job that gets
// none is tried again. It combines an adaptive concurrency limit (package aimd)
// with a circuit breaker, for each host, in one process.
//
//	pass, wait := gates.Enter(host, bounds, returning)
//	if pass == nil {
//		// release the job for wait; no try is used
//	}
//	// send the request
//	pass.Done(result)
//
// # States of a gate
//
//	state    | admits                  | ends
//	open     | tries up to the limit   | closes, see below
//	closed   | nothing                 | after the closure: probing
//	probing  | one try, the probe      | a good answer opens the gate, a bad one closes it
//
// An open gate closes when the host is throttling (429, or 503 with Retry-After),
// when at least 10 tries ended within 10 s and at least nine of ten were bad, or
// when the last 5 tries were bad and all of them began after the last good
// answer. The ten seconds are counted in slots of half a second.
//
// A closure by Retry-After lasts as long as that says. Any other closure lasts
// 5 s, and twice as long each time, up to 5 minutes. A good answer of a probe
// resets that. While a gate is closed, another Retry-After can make the closure
// longer. Nothing makes it shorter.
//
// A try that began before the gate closed says nothing about the host after it.
// Such a try opens no gate, and closes none that has opened since.
//
// A probe that ends without a verdict (the server stops, the lease is lost) is
// replaced: the next job is the probe.
//
// # Bounds
//
// The limit never exceeds the target's concurrency, 64 by default. The target's
// rate is a token bucket. Of the slots of the dispatcher, a host gets a quarter,
// and up to a half while a quarter of all slots stays free for others.
//
// # The line
//
// A job that is held back waits in the engine, and a gate remembers only how
// many do: its line. The line shortens at the rate at which the host answers. A
// closure begins a new line, which every held job joins when it comes back. A held
// job is due again when its turn is likely: its place in the line divided
// by the rate, at least 50 ms, at most 5 minutes after the moment at which the
// gate can open. Jobs that come back go before new ones, as long as some come.
//
// Before the first answer of a host the rate is a guess. While such a gate is open, a
// turn comes after 200 ms at most, and a job can join the line several times. When the
// rate is known, a new line begins.
//
// A job that is held while the gate probes waits until the next closure would be
// over. So every job is touched once per closure at most.
//
// # Usual latency and window
//
// Package aimd defines both. A window lasts a second at most.
//
// # Clock
//
// All times are of monotonic time, by the injected clock. The package sets no
// timers and draws no random numbers: the same calls at the same times have the
// same results.
//
// # Memory
//
// Gates remembers 10 000 hosts, with about 1 KiB each. Then it forgets the host that
// has been idle longest, with its closure.
package gate

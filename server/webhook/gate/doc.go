// Package gate decides whether a host gets a request now, and when a job that is
// held back is tried again. It combines an adaptive concurrency limit (package
// aimd) with a circuit breaker, for each host, in one process.
//
//	permit, wait := gates.Admit(host, bounds, returning)
//	if permit == nil {
//		// release the job for wait; this uses no try
//	}
//	// send the request
//	permit.Done(result)
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
// A closure by Retry-After lasts for that time. Any other closure lasts 5 s, and
// twice as long each time, up to 5 minutes. A good answer to a probe resets that.
// While a gate is closed, another Retry-After can make the closure longer, but
// never shorter.
//
// A try that began before the last closure is out of date. It does not open the
// gate, and it does not close a gate that has opened since.
//
// If a probe is aborted (the server stops, the lease is lost), the next job is
// the probe.
//
// # Bounds
//
// The limit never exceeds the target's concurrency, 64 by default. The target's
// rate is a token bucket. Of the slots of the dispatcher, a host gets a quarter,
// and up to a half while a quarter of all slots stays free for others.
//
// # The line
//
// A job that is held back waits in the engine. A gate has only the number of such
// jobs: its line. The line shortens at the rate of the host's answers. A closure
// starts a new line, which every job joins when it comes back. A job is due again
// at its estimated turn: its position in the line divided by the rate, at least
// 50 ms, and at most 5 minutes after the time at which the gate can open. Jobs that
// come back go before new ones, as long as some come.
//
// Before the first answer of a host the rate is a guess. While such a gate is open,
// a job comes back after at most 200 ms, and it can join the line several times.
// When the rate is known, a new line starts.
//
// A job that is held back while the gate probes waits for the length of the next
// closure. So every job is released at most once per closure.
//
// # Usual latency and window
//
// Package aimd defines both. A window lasts at most a second.
//
// # Clock
//
// All times are monotonic times of the injected clock. The package has no timers
// and no random numbers: the same calls at the same times have the same results.
//
// # Memory
//
// Gates has at most 10 000 hosts, with about 1 KiB each. Then it removes the host
// that has been idle longest, with its closure.
package gate

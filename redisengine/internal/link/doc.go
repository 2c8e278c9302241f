// Package link carries the Redis engine's calls to the right node: a single
// server, the primary that Sentinels name, or the node of a cluster that owns
// the keys. It knows nothing of jobs.
//
// # Connections
//
// Per node one connection carries every ordinary call, pipelined. Two kinds of call
// would hold the others up and have connections of their own: a blocking pop
// ([Link.Block]), one per group of keys that one call may have, and a call that waits
// for its durability ([Link.RunDurable]). A subscription has one as well
// ([Link.Subscribe]).
//
// # Retries
//
// The client library repeats nothing by itself except redirects of a cluster (MOVED,
// ASK). [verdictOf] decides everything else, in three classes:
//
//   - The call did not run: the server said so (TRYAGAIN, CLUSTERDOWN, LOADING, BUSY,
//     READONLY, NOSCRIPT …), or there was no connection, so that nothing was sent
//     ([unsent]). It is repeated with growing pauses until the context's deadline, or
//     for Options.Retry without one. If the server does not know the function or
//     script, its text is sent at once. A caller that can ask other nodes meanwhile
//     sets Call.Once and repeats the whole round with [Link.Backoff].
//   - It may have run: the connection broke, timed out or was closed while the call was
//     in flight. Reads are repeated. Anything else ends as [duly.ErrUnavailable],
//     because a second run would not be the same as one.
//   - The server refused it for good: OOM, NOPERM, WRONGTYPE … Each has its code.
//
// A new connection notes when the first call after its greeting is written ([conn]).
// One that was lost before that refuses all later writes. So it is certain that nothing
// was sent.
//
// A closed connection shows that a server is gone. A vanished host is detected by
// unacknowledged data ([vanished]), or by the ping that the client library sends
// every 10 s on an idle connection. A server that hangs for less loses no
// connection, unless it was replaced meanwhile: when a call has no answer for a
// while, [watchdog] asks the other servers.
//
// # Functions
//
// A script with a [Library] is called as a Redis function. [Link.Provide] loads
// the libraries when the engine opens. A node that lacks a function refuses the
// call; the link then sends FUNCTION LOAD and EVAL of the script's text in one
// pipeline. So the call runs even if the library can't be loaded, as while the
// server's memory is full. The link logs that once.
//
// # Rights
//
// The server's user needs, beside what the scripts call, EVAL, EVALSHA,
// EVAL_RO, EVALSHA_RO, FCALL, FCALL_RO and FUNCTION LOAD (without the last three
// scripts are sent by EVAL), BZPOPMIN, CLIENT ID, CLIENT UNBLOCK and UNLINK; SET and
// WAIT or WAITAOF for the durability option; ROLE behind Sentinels, CLUSTER SLOTS (and
// from Redis 8 on CLUSTER SHARDS) in a cluster. Open names the rights that are
// missing. INFO is optional. All keys begin with the prefix, and so do
// the channels, which need PUBLISH, SUBSCRIBE, SPUBLISH and
// SSUBSCRIBE on &PREFIX:*.
//
// # Contexts
//
// A deadline ends the caller's waiting, not a call in flight: calls run on
// without their caller, and their answer is then dropped. So a call whose answer
// must not be dropped (it hands out leases) is made with a context that has no
// end, by a goroutine that outlives its caller.
//
// # Files
//
// Each file uses only files named before it:
//
//	script.go             scripts, libraries, and a call as a command
//	options.go, url.go    what a URL says
//	vanish_*.go, dial.go  connections
//	errors.go             what a reply or a lost connection means
//	core.go, fault.go     what all calls share, and their errors
//	run.go                calls with retries
//	durable.go, block.go, pubsub.go   calls on connections of their own
//	check.go, functions.go, replaced.go   servers: fitness, libraries, hangs
//	link.go               Open, Close
package link

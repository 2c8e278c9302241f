// Package link sends the Redis engine's calls to the right node: a single server, the primary
// that Sentinels name, or the node of a cluster that owns the keys. It knows nothing of jobs.
//
// # Connections
//
// One connection per node carries every ordinary call, pipelined. Two kinds of call would delay
// the others, so they use other connections: a blocking pop ([Link.Block]), one per group of
// keys, and a call that waits for its durability ([Link.RunDurable]). A subscription has one as
// well ([Link.Subscribe]).
//
// # Retries
//
// The client library retries nothing except redirects of a cluster (MOVED, ASK). [verdictOf]
// decides everything else, in three classes:
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
// A new connection records when the first call after its greeting is written ([conn]). A
// connection that was lost before that rejects all later writes. It is then certain that no call
// was sent.
//
// A closed connection shows that a server is gone. A vanished host is detected by unacknowledged
// data ([vanished]), or by the ping that the client library sends every 10 s on an idle
// connection. A server that hangs for less loses no connection, unless it was replaced meanwhile.
// When a call has no answer for a while, [watchdog] asks the other servers.
//
// # Functions
//
// A script with a [Library] is called as a Redis function. [Link.Provide] loads the libraries that
// every process calls, when the engine opens. A node without the function rejects the call. The link then sends
// FUNCTION LOAD and EVAL of the script's text in one pipeline. The call runs even if the library
// can't be loaded, for example while the server's memory is full. The link logs that once.
//
// # Rights
//
// In addition to the commands of the scripts, the server's user needs EVAL, EVALSHA, EVAL_RO,
// EVALSHA_RO, FCALL, FCALL_RO and FUNCTION LOAD (without the last three, scripts are sent by
// EVAL), BZPOPMIN, CLIENT ID, CLIENT UNBLOCK and UNLINK; SET and WAIT or WAITAOF for the
// durability option; ROLE behind Sentinels, CLUSTER SLOTS (and from Redis 8 on CLUSTER SHARDS) in
// a cluster. Open names the missing rights. INFO is optional. All keys begin with the prefix, and
// so do the channels, which need PUBLISH, SUBSCRIBE, SPUBLISH and SSUBSCRIBE on &PREFIX:*.
//
// # Contexts
//
// A deadline ends the caller's waiting, not a call in flight: the call runs on without its
// caller, and its answer is dropped. A call whose answer must not be dropped, because it contains
// leases, is made with a context without an end, by a goroutine that outlives its caller.
//
// # Files
//
// Each file uses only files named before it:
//
//	script.go             scripts, libraries, and a call as a command
//	options.go, url.go    the options in a URL
//	vanish_*.go, dial.go  connections
//	errors.go             the meaning of a reply or a lost connection
//	core.go, fault.go     the state that all calls share, and their errors
//	run.go                calls with retries
//	durable.go, block.go, pubsub.go   calls on other connections
//	check.go, functions.go, replaced.go   servers: checks, libraries, hangs
//	link.go               Open, Close
package link

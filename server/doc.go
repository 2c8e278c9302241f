// Package server puts an engine on the network: it composes the native API, the
// lmstfy-compatible one, the admin API, health and the documents into two
// listeners, and keeps the engine's upkeep.
//
// # Two addresses
//
// Producers and workers use the API's address. What looks into the store as a
// whole is on the admin address, on the loopback by default. Both serve
// /healthz (the process lives) and /readyz (the engine answers, and the server
// does not drain), open to all; the API's also /openapi.json and /docs, which
// tell what is in this repository anyway. Everything else needs a token, but
// for what lmstfy's clients and scripts ask for without one: two sizes, and the
// admin routes from the same machine, see package lmstfy. Its paths are below
// /api/ on the one address and are none of the native API's on the other.
//
// # The start
//
// [Server.Listen] binds both addresses before it does anything else, so that a
// second server on them changes nothing. With a loopback address it sees to a
// first token and leaves it, and the two URLs, in the data folder for the
// command line of the same user. An address that others can reach is refused
// while nobody could be told from a thief there: the API's while the engine
// knows no token, the admin address while there is neither a token with the
// right admin for all namespaces nor an account.
//
// # Who comes in
//
// Package auth judges every request by what its route declares. While
// [Server.Serve] runs, the engine tells it of every token that was revoked or
// changed, on whatever server, and what waits with such a token ends.
//
// # What a request costs
//
// What the server itself does for a request,
// without net/http and the engine, is measured by BenchmarkRequest.
//
// # What it tells of itself
//
// /metrics on the admin address (package metrics), a line of the log for each
// request that fails or, with an access log, for every one; and events: jobs that
// became dead, a store that is lost or back, tokens that were made, limited or
// revoked. Traces are somebody's who asks for them (Config.Tracer).
//
// # The end
//
// When the context of [Server.Serve] ends, /readyz turns red and every answer
// asks its caller to close the connection; for [Config.DrainDelay] the server
// works on like that, so that a balancer notices and callers leave one by one.
// Then both listeners close, long polls end with an empty answer, and requests
// that are under way are finished within the drain limit; what is left then is
// cut off. A connection that is idle at that moment is closed, and a request
// that crosses with it on the wire fails before anybody has read it: a client
// repeats that once, over a new connection, which another server takes. The
// engine is its owner's to close, after Serve has returned.
package server

// Package server serves an engine over HTTP: the native API, the lmstfy-compatible API, the
// admin API, health and the documents, on two listeners. It also sweeps the engine.
//
// # Addresses
//
// Producers and workers use the API's address. The admin address is for what concerns the
// whole store; it is on the loopback by default. Both serve /healthz (the process lives) and
// /readyz (the engine answers, and the server does not stop), without a token. The API's
// address also serves /openapi.json and /docs without one. Everything else needs a token,
// with two exceptions for lmstfy's clients: two sizes, and the admin routes from the same
// machine, see package lmstfy. Its paths begin with /api/ on the API's address. On the admin
// address they differ from those of the native API.
//
// # Start
//
// [Server.Listen] binds both addresses first, so that a second server on them changes
// nothing. With loopback addresses it creates a first token. It writes the token and both
// URLs to the data folder, for the command line of the same user. It refuses an address that
// other machines reach while no caller could authenticate there: the API's while the engine
// has no token, and the admin address while there is no account and no token with the right
// admin for all namespaces.
//
// # Authentication
//
// Package auth checks every request against the right that its route declares. While
// [Server.Serve] runs, the engine reports every token that any server revokes or changes.
// Long polls with that token end.
//
// # Cost
//
// BenchmarkRequest measures the cost of a request without net/http and the engine.
//
// # Observability
//
// /metrics on the admin address has the metrics (package metrics). The log has a line for
// each request that fails, or for every request with an access log. It also has events: dead
// jobs, a store that is lost or back, and changes of tokens. [Config.Tracer] traces requests.
//
// # Stop
//
// When the context of [Server.Serve] ends, /readyz turns red and every answer asks its caller
// to close the connection. The server works on for [Config.DrainDelay], so that a balancer
// notices and callers leave one by one. Then both listeners close, long polls end with an
// empty answer, and running requests may finish within the drain limit. The rest is cut off.
//
// A connection that is idle at that moment is closed. A request that crosses with the close
// fails unread, and the client repeats it once over a new connection to another server. The
// owner of the engine closes it after Serve has returned.
package server

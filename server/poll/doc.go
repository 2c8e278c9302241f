// Package poll reserves jobs for callers that wait for them. The native API and the
// lmstfy-compatible API share it.
//
// A poll reserves, then waits, and reserves again each time that the engine reports that a job may
// be ready. Nothing is leased while it waits, so a caller that disappears takes no job with it.
// Before the poll writes an answer, it checks the connection. If the caller has hung up, or the
// kernel does not accept the whole answer, the poll releases every delivery at once, which uses no
// try. Only a caller that disappears while the answer is on the wire keeps its jobs until their
// leases end.
//
// A server that drains ends every poll with an empty answer. A changed token also ends a poll with
// an empty answer. A revoked token ends the poll with the error of an unknown token.
//
// The size of a reserve's result is not known in advance. So a poll reserves memory for the largest
// possible result before the call, and for the actual result after it. While it waits, it reserves
// no memory.
package poll

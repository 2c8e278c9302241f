// Package poll is the way of jobs from an engine to a caller that waits for
// them. The native API and the lmstfy-compatible one share it.
//
// A poll asks the engine first, then waits, and asks again each time that the
// engine says that there may be something. While it waits nothing is leased,
// so a caller that disappears takes nothing with it. Before what was reserved
// is written, the connection is looked at; if the caller has hung up, or the
// kernel does not take the whole answer, every delivery is released at once,
// which uses no try. Only a caller that vanishes while the answer is on the
// wire holds its jobs until their leases end.
//
// A server that wants to stop ends every poll with an empty answer. So does a
// token that has changed; one that was revoked ends it as a token that is not
// known.
//
// What an engine may bring is not known before it is called, so a poll asks
// for memory for the most that it could be; when the jobs are there, for what
// they are. While it waits it holds none.
package poll

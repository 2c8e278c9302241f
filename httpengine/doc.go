// Package httpengine is an engine over the HTTP API of a duly server. It needs a URL and a
// token. It passes the same conformance suite as the engine behind the server, and an error is
// the same on both sides of the wire.
//
//	https://TOKEN@HOST/NAMESPACE
//
// An engine serves only the namespace of its URL, which is its default namespace. An item or
// a call with another namespace is [duly.ErrForbidden] and never sent.
//
// # Requests
//
// Every operation is one request, and the engine waits for its answer. The engine repeats a
// request only if no byte of it has left, as when a kept connection turns out to be closed.
// net/http may also repeat a GET, which changes nothing. The caller repeats what was lost,
// because it knows whether that is safe (see the contract, §13):
//
//   - A server that is not reached, an answer that does not come or breaks off, or a server
//     that shuts down is [duly.ErrUnavailable]. The operation may have happened. The chain
//     has the cause.
//   - An answer that no duly server gives, such as that of a proxy or a web site, is
//     [duly.ErrUnavailable] too, unless its status has a meaning (401, 403, 413, 429).
//   - Anything else is the error of the server.
//
// The engine follows no redirects, because they could carry the token elsewhere.
//
// # Contexts and timeouts
//
// The end of a context ends the caller's wait, and not the request. A request that changes
// something runs on, so that the connection is not closed because of a lost answer. If the
// caller of a Reserve has gone when the answer arrives, the engine releases its jobs at once.
// Reads and Wait change nothing, so they are cut off.
//
// The engine gives a request up after [Config.Timeout] without a byte sent or received. So a
// slow upload succeeds, and a dead server is noticed. A Wait is several requests of at most
// [Config.Poll], so that no proxy considers it dead.
//
// WatchCancels is one long poll, however many watchers there are. It continues from the cursor
// of the last answer, so a lost connection loses no report. If the server has lost some, as
// after a restart, the engine calls the watchers' Ready. It repeats a failed poll after a
// pause that grows up to 5 s. An error that a repeat does not fix ends the watch.
//
// # Batches
//
// Concurrent calls to Push share requests, and so do those of Settle (package batch). Each
// caller sees only the results of its own items. If the server refuses a whole request, which
// changes nothing, the engine sends its calls one by one. So no caller pays for the mistake of
// another.
//
// # Topics
//
// The engine has the methods of [contract.Topics]. They return [duly.ErrUnsupported] if the engine
// behind the server has no topics. Concurrent calls to Publish share requests if they are for
// one topic. A caller that repeats a Publish after [duly.ErrUnavailable] may add its messages
// twice, unless the topic has [duly.TopicConfig.Dedupe] and the messages have IDs. Read makes
// several requests, as Wait does.
package httpengine

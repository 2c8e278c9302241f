// Package httpengine is the contract over a duly server's HTTP API: an engine
// for everybody who has a URL and a token. The same conformance suite passes
// through it as through the engine behind the server, and an error is the same
// error on both sides of the wire.
//
//	https://TOKEN@HOST/NAMESPACE
//
// An engine serves the namespace of its URL alone, which is its default one;
// an item or a call that names another is [duly.ErrForbidden] and never sent.
//
// # What is sent, and how often
//
// Every operation is one request, whose answer is waited for. The engine sends
// nothing twice by itself, but for a request of which certainly not a byte has
// left, as when a kept connection turns out to be closed; net/http may also
// repeat a GET, which changes nothing. So what is lost on the way is the
// caller's to repeat, who knows whether it may (see the contract, §13):
//
//   - not reached, no answer, an answer cut off, a server that shuts down:
//     [duly.ErrUnavailable], which says that it may have happened, with the
//     cause in its chain;
//   - an answer that no duly server gives, as from a proxy or a web site on
//     that address: [duly.ErrUnavailable] as well, with a question worth
//     asking, unless its status alone says more (401, 403, 413, 429);
//   - anything else is the server's own error, rebuilt.
//
// Redirects are not followed, for they could carry the token elsewhere.
//
// # Who waits, and for how long
//
// A context's end ends its caller's waiting, not the request: what changes
// something runs on without its caller, so that a connection need not be torn
// down to forget an answer. A Reserve whose caller has gone when its answer
// arrives gives back what that brought, at once. Reading and Wait, which
// change nothing, are cut off instead.
//
// A request is given up when for [Config.Timeout] nothing was heard of it: no
// byte left and none arrived. So a slow upload succeeds and a dead server is
// noticed. A Wait is asked in slices of [Config.Poll], so that no proxy takes
// it for dead.
//
// WatchCancels is one long poll, however many watchers there are. It goes on from
// the cursor of the last answer, so a lost connection loses no report. Where the
// server has lost some, as after a restart, the watchers' Ready is called. A failed
// poll is repeated after a growing pause of at most 5 s; an error that a repeat does
// not mend ends the watch.
//
// # Batches
//
// Concurrent calls of Push share requests, as do those of Settle (package batch).
// Each caller sees the results of its own items alone. If the server refuses a
// request as a whole, which changed nothing, the engine sends its calls one by one.
// So no caller pays for the mistake of another.
//
// # Topics
//
// The engine has the methods of [contract.Topics]. If the engine behind the server has
// no topics, they return [duly.ErrUnsupported]. Concurrent calls of Publish share
// requests if they are of one topic. A Publish is sent once, as everything else is.
// A caller that repeats one after [duly.ErrUnavailable] may add its messages twice,
// unless the topic has [duly.TopicConfig.Dedupe] and the messages have IDs. Read asks in slices, as Wait does.
package httpengine

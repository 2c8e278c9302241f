// Package route is the common part of all routes: it checks the caller's right, reads the
// request within bounds, and answers with JSON or a problem document.
//
// # Order
//
// [Router.Mount] puts the routes of a table onto one mux. For every request the router, in
// this order:
//
//  1. refuses a path with a second spelling, and a URL that is too long. It never redirects;
//  2. finds the route, or answers 404 or 405;
//  3. asks the guard, before it reads the body;
//  4. refuses query parameters that the route does not declare, so that a token or a
//     misspelled name in the URL is noticed;
//  5. counts the call, if the route counts under a limit of its token;
//  6. runs the handler, which reads the body and answers through its [Call].
//
// An error of the handler becomes a problem document. A panic becomes 500 internal, and the
// process continues. The log has one line for each request, at debug level if it succeeded. The
// line has the route's pattern and never a body, a query or a token.
//
// An API with a [Dialect] finds its routes itself ([Router.Handle]). It replaces steps 3 and
// 4, and has its own errors.
//
// # Time
//
// After a grace of 10 s, a body must arrive at 1 KiB a second, and the caller must read an
// answer as fast. Both are deadlines on the connection that move with every read and write. So
// a slow upload succeeds. A long poll neither reads nor writes while it waits, so it has no
// deadline.
//
// The answer to a request with an unread body closes the connection. Before that, the router
// reads and drops up to 16 MiB of the rest within 2 s, so that a client that writes its whole
// request first can read the answer.
//
// # Memory
//
// Requests share one budget of memory ([Router.Memory]), answers another
// ([Router.AnswerMemory]). A body or an answer of up to 64 KiB counts under neither. So the
// limit of the process is both budgets, one call beyond each, and 64 KiB per connection.
//
// A call reserves memory for what has arrived and not for what it announces. Each chunk of
// 32 KiB that a body begins counts three times, for the text and the values that are read from
// it. An answer first reserves what the engine may return ([Call.ReserveMemory]), then its
// text. While the caller reads the answer, the call holds that text. A long poll that waits
// for a job holds nothing ([Call.ReleaseMemory]).
//
// The memory of a call belongs to an owner: a token, in its namespace. A token
// for all namespaces has one owner for each namespace that it is used for. An owner
// takes at most three times the memory that it leaves free. So one namespace takes
// at most three quarters of a budget, and one token three quarters of that.
// Another namespace always finds memory at once.
//
// A call that finds none waits, in order of arrival among the calls of its
// owner. Other owners' calls do not wait for it. One waiting call at a time is
// served beyond the budget, that of the owner with the most room. So requests
// that have arrived in part never block each other for good.
// A call that has waited for the grace fails with unavailable and Retry-After.
//
// While a call waits, slow ones are cut one after the other: requests that took
// more than 2 s for a chunk, and answers that were not read within the grace.
// The call beyond the budget is cut first. Then comes the owner with the least
// room, and of its calls the one that has been slow for longest. An owner with
// more room than all that wait loses no call. Without a waiting call, no slow
// one is cut. A request that was cut is answered unavailable with Retry-After.
package route

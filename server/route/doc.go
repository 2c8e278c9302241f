// Package route is what every route of a server has in common: it declares the
// right that it needs, reads its request within bounds, and answers JSON or a
// problem document.
//
// # A request's way
//
// [Host.Mount] puts the routes of a table onto one mux. For every request it
// then, in this order:
//
//  1. refuses a path that is not clean and a URL that is too long: nothing is
//     ever redirected, and nothing is looked at twice in two spellings;
//  2. finds the route, else answers 404 or 405;
//  3. asks the guard, before a byte of the body is read;
//  4. refuses query parameters that the route does not declare, so that a
//     token or a misspelled name in the URL is seen;
//  5. counts the call, where the route spends what its token may;
//  6. runs the handler, which reads the body and answers through its [Call].
//
// An error that the handler returns becomes a problem document; a panic is 500
// internal, and the process lives. One line of the log tells about each
// request: at debug level where it went well. It holds the route's pattern and
// never a body, a query or a token.
//
// A route of an API with a [Dialect] is found in that API's own way
// ([Host.Handle]), which also does what 3 and 4 are for, and words its errors.
//
// # Time
//
// A body must arrive at 1 KiB a second after a grace of 10 s, an answer must
// be taken at the same rate; both are deadlines on the connection that move
// with every piece, so an honest slow upload succeeds, and a long poll, which
// neither reads nor writes while it waits, is not touched.
//
// The answer to a request whose body was not read closes the connection. Up to
// 16 MiB of the rest are read and dropped within 2 s before that, so that a
// client that writes its whole request first can read the answer.
//
// # Memory
//
// Requests share one budget of memory ([Host.Memory]), answers another
// ([Host.AnswerMemory]). A body or an answer of up to 64 KiB counts under
// neither. So the documented limit of the process is both budgets, one call
// beyond each, and 64 KiB per connection.
//
// A call reserves memory for what has arrived and not for what it announces:
// each piece of 32 KiB that a body begins counts three times, for the text and
// what is made of it. An answer reserves what the engine may bring before the
// engine is called ([Call.Hold]), then the text. While the caller takes the
// answer, that text is what is held. A long poll that waits for a job holds
// nothing ([Call.Release]).
//
// The memory of a call belongs to an owner: a token, in its namespace. A token
// for all namespaces has an owner for each of those that it is used for. At every
// level an owner takes at most three times what it leaves free to its
// neighbours. So one namespace takes at most three quarters of a budget, and one
// token three quarters of that. Another namespace always finds memory at once.
//
// A call that finds none waits, in order of arrival among the calls of its
// owner. Other owners' calls do not wait for it. One waiting call at a time is
// served beyond the budget, that of the owner with the most room. So requests
// that have arrived in part never block each other for good.
// A call that has waited for the grace fails with unavailable and Retry-After.
//
// While a call waits, slow ones are cut one after the other: requests that took
// more than 2 s for a piece, and answers that were not taken within the grace.
// The call beyond the budget is cut first. Then comes the owner with the least
// room, and of its calls the one that has been slow for longest. An owner with
// more room than all that wait loses no call. Without a waiting call, no slow
// one is cut. A request that was cut is answered unavailable with Retry-After.
package route

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
// # Time and memory
//
// A body must arrive at 1 KiB a second after a grace of 10 s, an answer must
// be taken at the same rate; both are deadlines on the connection that move
// with every piece, so an honest slow upload succeeds, and a long poll, which
// neither reads nor writes while it waits, is not touched.
//
// Bodies of more than 64 KiB share one budget of memory and wait for their part
// of it. So do answers, with a budget of their own: a handler asks for the most
// that the engine may bring before it calls it ([Call.Hold]), and for the text
// that is made of it before that is written; while the caller takes the answer
// that text is what is held. A long poll that waits for a job holds nothing
// ([Call.Release]). A call that has waited for memory as long as the grace is
// refused with unavailable and Retry-After. A caller who is slower than the
// grace keeps the memory of its answer as long as nobody waits for it; else it
// is cut off.
package route

// Package tokens is the registry of tokens and placements on Redis.
//
// All its keys carry one hash tag, {tokens}. A script that changes a token also
// publishes the number of changes, which stays behind in a key. So a watcher that
// missed a message notices it (Subscribe of package link). A call is counted in one script
// by the server's clock, with the arithmetic of contract.LimitWindow: all processes count
// together. Without a limit nothing is counted.
package tokens

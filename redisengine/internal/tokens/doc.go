// Package tokens is the registry of tokens and placements on Redis.
//
// All its keys have one hash tag, {tokens}. A script that changes a token also publishes the
// number of changes, and stores it in a key. A watcher that missed a message therefore notices it
// (Subscribe of package link). One script counts a call by the server's clock, with the
// arithmetic of contract.LimitWindow, so all processes count together. Without a limit nothing is
// counted.
package tokens

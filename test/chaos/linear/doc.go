// Package linear checks whether the operations on a job are linearizable.
//
// Client processes call servers over HTTP while the test kills clients, servers
// and Redis. Each client writes a line before it sends a call and another one
// when the answer arrives. The checker then looks, for every job, for an order of
// the calls in which each answer is right: one that respects real time and the
// specification in spec_test.go. A call without an answer may take effect at any
// later moment, or never.
//
// The load runs in slices of time. Every slice has its own queue and its own few
// IDs, so the history of an ID stays short: the search is exponential in its
// length.
package linear

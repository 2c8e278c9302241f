// Package memnet is an in-memory network for tests of clients and servers in a bubble of
// testing/synctest. Over a real connection, the bubble could not see whether data is still in
// flight, so its time would not advance correctly.
package memnet

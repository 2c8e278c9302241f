// Package memnet is a network in memory, for tests of clients and servers in a
// bubble of testing/synctest: there a connection of the kernel's would keep
// time from standing still, and hide from the bubble whether something is
// still on its way.
package memnet

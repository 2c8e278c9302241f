// Package chaos tests the crash behaviour of real processes. It kills them, breaks their disks
// and networks, and compares the stored data with what the clients wrote down before. DULY_LONG=1
// (make chaos) runs the tests with their full counts. DULY_LEDGER=10m sets how long the order
// ledger runs, and DULY_SOAK=24h how long the soak test runs.
//
// Real processes use the real clock, so these tests sleep: for the length of a fault, between two
// faults, to slow down a client, or between two checks of a condition that has a deadline. No
// test sleeps merely in the hope that something is over.
package chaos

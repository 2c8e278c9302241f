// Package history keeps what the queues of a namespace did in the last days, for the charts of the dashboard.
//
// # Which namespaces
//
// A namespace has a history from the first page that a session opens until 30 days after the last one. It is looked at
// every 10 s meanwhile. Without a session the package makes no call.
//
// # Memory
//
// Three rings have steps of 10 s, 1 min and 10 min (ring.go). A queue takes memory only for the time in which it had
// events or ready jobs, about 27 KB if it is always busy. Beyond the bound, the least active queues lose their series.
//
// # Time
//
// The events between two looks belong to the time between them, which the monotonic clock measures. The moment is that
// of the wall clock. If that clock steps back, the steps after its new time are removed, because they will happen
// again. A step in either direction has a mark. After a restart, a failure or a pause of more than a minute, the first look
// only notes the counters, so the time without looks stays a gap.
//
// # The file
//
// The history is written to a file every minute and at the end (file.go). A file that cannot be read is left out with a
// warning.
package history

// Package inspect reads queues and jobs, and changes nothing.
//
// A survey of a namespace's queues asks a hundred shards per call for their counters,
// which is all there is to say of shards without jobs. The other shards are asked for
// their stats, fifty at a time. A node that does not answer is asked once.
package inspect

// Package inspect reads queues and jobs. It changes nothing.
//
// A survey of a namespace's queues reads the counters of a hundred shards per call. They describe
// a shard without jobs, rate and adaptive limits completely. The other shards are asked for their
// stats, fifty at a time. A node that does not answer is asked once.
package inspect

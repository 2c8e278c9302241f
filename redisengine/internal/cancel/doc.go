// Package cancel reports removed jobs to the workers that run them.
//
// After Delete, Purge of leased jobs and Destroy the process publishes on a shard
// channel of the namespace which jobs are gone. It does not wait for the answer, and
// reports of 25 ms go together. A process that watches a namespace has one
// subscription for it, which sends nothing. Reports may be lost: after a gap the
// watcher's Ready is called, and a worker asks about all its leases.
package cancel

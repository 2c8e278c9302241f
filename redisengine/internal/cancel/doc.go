// Package cancel reports removed jobs to the workers that run them.
//
// After Delete, Purge of leased jobs and Destroy, the process publishes the removed jobs on a
// shard channel of the namespace. It does not wait for the answer, and reports of 25 ms share a
// message. A process that watches a namespace has one subscription for it and sends nothing.
// Reports may be lost. After a gap the watcher's Ready is called, and the worker asks about all
// its leases.
package cancel

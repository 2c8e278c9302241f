// Package duly is a job queue that delivers every job at its time, at least
// once, and never early.
//
// # The model in one page
//
// A [Job] is a body with its schedule and its rules. It is pushed into a
// queue, a named line of jobs inside a namespace, and is in exactly one
// [State] at any moment:
//
//	delayed   waits for its due moment
//	ready     may be delivered now
//	blocked   is due, but another job holds its order key
//	leased    a delivery holds it until its lease runs out
//	dead      used up its tries or stalls, or was buried
//	done      acked, and kept to be looked at for a while
//
// Reserve hands a job out as a [Delivery] with a [Receipt]: the handle of that
// delivery alone. Whoever holds it settles the job (ack, nack, release, bury)
// or extends the lease. A receipt whose delivery has ended is refused with
// [ErrLeaseLost] and changes nothing, so nothing that a stale worker does can
// touch the job's later life. A lease that runs out may be taken back from
// then on (a stall), never sooner.
//
// One clock decides: the engine's. Clients send durations, engines answer with
// times on their own clock, in milliseconds.
//
// # Contract and engines
//
// The contract stands in docs/contract.md and is held by engines, which differ
// in where the jobs live: package sqliteengine keeps them in one file on this
// machine, package redisengine in Redis or Valkey, and package httpengine talks
// to a duly server. Package enginetest proves that an engine holds it. Package
// open chooses an engine by a URL.
//
// [Client] pushes jobs, and package worker is the runtime that handles them. Both work with
// an [Engine], the calls of producers and workers. An engine that package open returns also
// reads and changes queues: it is an Engine of package contract, which has the interfaces
// and rules for authors of engines.
//
// # Zero and none
//
// In a [Job], a zero field means "the queue's default, taken when the job is
// pushed", and [None] (−1) means "explicitly none".
package duly

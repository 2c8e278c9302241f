// Package duly is a job queue that delivers every job at its time, at least
// once, and never early.
//
// # The model in one page
//
// A [Job] is a body with its schedule and its rules. A program pushes it into a
// queue, a named line of jobs inside a namespace. It is in exactly one [State]
// at any time:
//
//	delayed   waits for its due time
//	ready     may be delivered now
//	blocked   is due, but another job holds its order key
//	leased    a delivery holds it until its lease ends
//	dead      used up its tries or stalls, or was buried
//	done      acked, and kept for a while so that people can look at it
//
// Reserve returns a job as a [Delivery] with a [Receipt], the handle of that
// delivery alone. The holder of the receipt settles the job (ack, nack, release,
// bury) or extends the lease. An engine refuses the receipt of an ended delivery
// with [ErrLeaseLost] and changes nothing. So a stale worker cannot change the
// later life of the job. The engine takes a lease back when it has run out, which
// is a stall, and never sooner.
//
// One clock decides: the engine's. Clients send durations. Engines return times
// of their own clock, in milliseconds.
//
// # Engines
//
// [Client] pushes jobs, and package worker handles them. Both work with an
// [Engine]. Engines differ in where they store jobs: package sqliteengine stores
// them in one file on this machine, package redisengine in Redis or Valkey, and
// package httpengine calls a duly server. Package open chooses an engine by a URL.
//
// An engine that package open returns also reads and changes queues. It is an
// Engine of package contract, which has the interfaces and the rules for authors
// of engines. Every engine follows docs/contract.md, and package enginetest tests
// that.
//
// # Zero and none
//
// In a [Job], a zero field means the queue's default, which the job takes when it
// is pushed. [None] (−1) means explicitly none.
package duly

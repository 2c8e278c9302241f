// Package lmstfy serves the HTTP API of bitleak/lmstfy, so that its clients work unchanged. It
// translates every call to the contract and has no queues of its own. docs/lmstfy.md lists the
// intended differences with their reasons.
//
// # Publish
//
// A published job has an ID in lmstfy's form (a ULID, see newID), the given tries, no stall limit,
// so that every lease that runs out uses a try, and no backoff. Attributes are headers. A publish
// creates the queue if it does not exist, without a bound on dead letters: lmstfy keeps them until
// a caller respawns or deletes them. It does not change a queue that was configured, or pushed to
// over the native API.
//
// # Ack
//
// lmstfy acks by ID, in any state of the job, which is Delete. This API has no receipts, so a late
// ack also ends a later delivery. A program that needs the fence uses the native API. The jobs are
// the same in both.
//
// # Pools
//
// The text of a token may name a pool: the pool of its namespace, or one that the namespace was in
// before. So a namespace keeps its tokens when it moves. A token without a pool is for every pool.
//
// # Failures
//
// Publish is like Push: after a lost answer the job may exist. A push that ends as unavailable or
// not_durable is repeated with the same ID, so it stays one job. Republish pushes first and deletes
// then. If the server dies in between, both jobs exist, never none. Bulk checks all jobs before it
// stores one, and is one push (several beyond 8 MiB). If the engine refuses a part, bulk deletes
// the rest again.
//
// Consume leases no job while a caller waits, see package poll.
//
// # Clocks
//
// A consume returns times of the engine. A peek computes the rest of a TTL by this server's clock,
// because the contract does not return the engine's time with a job.
package lmstfy

// Package lmstfy speaks the HTTP API of bitleak/lmstfy, so that its clients
// work as they are: a pure translation onto the contract, with no queue of its
// own. docs/lmstfy.md tells where it differs on purpose, and why.
//
// # What becomes of a publish
//
// A job is pushed with an ID in lmstfy's form (a ULID, see newID), the tries
// that were given, no stall limit (so every lease that runs out uses a try),
// and no backoff. Attributes are its headers. A queue that does not exist yet
// is made first, with dead letters unbounded: lmstfy keeps them until somebody
// respawns or deletes them. A queue that somebody has configured, or pushed to
// natively, stays as it is.
//
// # What an ack is
//
// lmstfy acks by ID, in whatever state the job is: that is Delete. Receipts
// don't travel over this API, so a late ack ends the job for everybody; a
// program that wants the fence uses the native API. Jobs are the same on both.
//
// # Pools
//
// A token's text may name a pool. That is the one that its namespace is in, or
// was in before it was moved: a namespace keeps its tokens. Without one the
// token is for wherever its namespace is.
//
// # Which failure leaves what
//
// Publish: as Push, an answer that was lost leaves the job. A push that ends
// as unavailable or not_durable is repeated with the same ID, so it stays one
// job. Republish pushes first and deletes then: whoever dies in between leaves
// both jobs, never none. Bulk is judged whole before anything is stored, and
// is one push (beyond 8 MiB, several); what of it was stored is taken back
// when the rest is refused.
//
// Consume: see package poll. Nothing is leased while a caller waits.
//
// # Clocks
//
// A consume tells the engine's times. A peek tells the rest of a TTL by this
// server's clock, for the contract's looks don't say when they were.
package lmstfy

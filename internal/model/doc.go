// Package model is the sequential reference model of duly's contract: an engine in memory that is
// written to be read.
//
// One mutex guards everything and every set is a sorted list. The only optimizations are those that
// 100 000 jobs need. The model has three uses. The random test of package enginetest compares real
// engines with it step by step. Package dulytest offers it to users' own tests. And readers find in
// it each rule of the contract as a few lines of Go.
//
// A queue consists of independent shards. Most of this package is about one shard; methods over all
// shards are on the type queue.
//
// Every change of a job's state goes through shard.move, which compares it with the table of the
// root package (contract.Next) and counts it. A change that the table does not have is a bug in the
// model, and panics.
//
// A group of a topic is a queue whose jobs are the messages that it holds. Its shards have a
// reader, which has the log and the cursor (group.go). The log itself is in log.go, the deletion of
// its messages in retention.go.
//
// A shard has the records of its schedules. Due ticks fire in fire.go, by the same code as in every
// engine: Fold makes the items, and fire processes them.
//
// For "by the clock" in the contract, see shard.stateNow. settle.go ends deliveries, step.go moves
// time forward, and wait.go wakes waiting calls.
package model

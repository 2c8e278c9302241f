// Package model is the sequential reference model of duly's contract: an
// engine in memory that is written to be read.
//
// One mutex stands around everything, every set is a sorted list, and nothing
// is done for speed alone but what makes 100 000 jobs bearable. It serves three
// ends: the random test of package enginetest compares real engines with it
// step by step, package dulytest offers it to users' own tests, and whoever
// wonders what a line of the contract means finds it here in a few lines of Go.
//
// A queue is its shards, which know nothing of each other; most of this package
// is about one of them. What spans them stands on the type queue.
//
// Every change of a job's state goes through shard.move, which compares it
// with the table of the root package (duly.Next) and counts it. A change that
// the table does not have is a bug in the model, and panics.
//
// A group of a topic is a queue whose jobs are the messages that it holds. Its
// shards have a reader, which knows the log and the cursor (group.go). The log
// itself is in log.go, what deletes its messages in retention.go.
//
// Where the contract says "by the clock", look at shard.stateNow; how a
// delivery ends stands in settle.go; what moves time forward in step.go; who
// is woken, and when, in wait.go.
package model

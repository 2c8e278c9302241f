// Package store is an engine's connection to the servers. It has the scripts, the key names, the
// clocks, and the tasks of the engine.
//
// # One script, one step
//
// Every change of state is one Lua script (package lua), which the server runs as a whole or not
// at all. A script names every key that it accesses. All keys of a shard have one hash tag:
// {namespace/queue/shard}. The same scripts therefore run on one server and on a cluster.
// docs/redis-layout.md describes every key and every script.
//
// The scripts are functions of five libraries (Redis Functions). Each process loads them when it
// opens, and again when a call finds a function missing. Their names contain a hash of their
// text, so several versions of duly work concurrently. If functions can't be used, the same
// scripts are sent by EVAL.
//
// # Clocks
//
// The servers' clocks decide all times of jobs. This process's clock is used for timers, and for
// an estimate of a server's clock that the scripts check.
//
// # Close
//
// [Tasks] counts the goroutines that outlive their callers. Close waits for them.
package store

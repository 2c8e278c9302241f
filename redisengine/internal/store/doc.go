// Package store is an engine's connection to the servers: its scripts, its key
// names, its clocks and its life.
//
// # One script, one step
//
// Every change of state is one Lua script (package lua), which the server runs as a
// whole or not at all. A script names every key that it touches. All keys of a shard
// carry one hash tag: {namespace/queue/shard}. So the same scripts run on one server
// and on a cluster. docs/redis-layout.md describes every key and every script.
//
// The scripts are functions of four libraries (Redis Functions). Each process loads
// them when it opens, and again when a call finds none. Their names carry a hash of
// their text, so several versions of duly work side by side. Where functions can't be
// used, the same scripts are sent by EVAL.
//
// # Clocks
//
// The servers' clocks decide when anything happens to a job. The clock of this process
// is for timers, and for an estimate of a server's clock that the scripts check.
//
// # Close
//
// [Tasks] counts the goroutines that outlive their callers. Close waits for them.
package store

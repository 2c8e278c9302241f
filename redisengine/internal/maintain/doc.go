// Package maintain sweeps, checks and repairs the store.
//
// # Sweep
//
// A server looks at every queue every half minute. One read-only call says of some
// hundred shards which of them hold jobs. A second one says which of those have
// something overdue, and these are stepped. In a cluster, where a call is about one
// shard, the second question is asked at once. A sweep also drops what idle queues
// keep in memory, notices lost namespaces, and removes libraries of Redis Functions
// that no process has used for a week.
//
// # Check
//
// A check walks over everything that a shard holds, some fifty entries per read-only
// script call. What is suspect is judged again by itself and, if the caller asks for
// it, repaired in the same script call. Others therefore work on, and a job that moves
// is no fault. A repair does what the job's holder would have seen anyway: a job in no
// set comes back as after a stall, an unreadable one becomes a dead letter, and an
// entry without a job goes. What is removed counts as dropped and is logged.
//
// Where a script fails on what it finds in a shard, a reserve or a sweep has that
// shard checked and repaired in the background ([Repairer]).
//
// # Files
//
// Each file uses only files named before it:
//
//	faults.go        a check under way, and what it finds
//	check_shard.go   the check of a shard
//	repair.go        repairs in the background
//	libraries.go     libraries of Redis Functions that no process uses
//	sweep.go         Step and Sweep
//	check_list.go    the check of a namespace's list
//	check.go         Check
package maintain

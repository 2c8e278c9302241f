// Package maintain sweeps, checks and repairs the store.
//
// # Sweep
//
// A server looks at every queue every half minute. One read-only call per some hundred shards
// returns which of them have jobs. A second call returns which of those have overdue work, and
// these are stepped. In a cluster each call covers one shard, so the second question is asked at
// once. A sweep also drops the memory of idle queues, detects lost namespaces, and removes
// libraries of Redis Functions that no process has used for a week.
//
// # Check
//
// A check reads all entries of a shard, some fifty per read-only script call. Each suspect entry
// is checked again on its own and, if the caller wants that, repaired in the same script call.
// Other callers therefore continue working, and Check does not report a job that they move. A repair
// does what callers would have seen anyway: a job in no set becomes ready as after a stall, an
// unreadable one becomes a dead letter, and an entry without a job is removed. A removed job counts
// as dropped and is logged.
//
// If a script fails on a shard's data, a reserve or a sweep has that shard checked and repaired
// in the background ([Repairer]).
//
// # Files
//
// Each file uses only files named before it:
//
//	faults.go        a check in progress, and its faults
//	check_shard.go   the check of a shard
//	repair.go        repairs in the background
//	libraries.go     libraries of Redis Functions that no process uses
//	sweep.go         Step and Sweep
//	check_list.go    the check of a namespace's list
//	check.go         Check
package maintain

// Package redisengine is the engine for teams and fleets: everything of the
// contract on Redis (7.0 and later) or Valkey (7.2 and later), single, behind
// Sentinels or as a cluster. Any number of processes share the servers; none of
// them leads.
//
// # One script, one step
//
// Every change of state is one Lua script (package lua), which the server runs
// as a whole or not at all. A script names every key that it touches, and all
// keys of a shard carry one hash tag: {namespace/queue/shard}. So the same
// scripts run on one server and on a cluster. Time is the server's, read in the
// script. docs/redis-layout.md describes every key and every script.
//
// The scripts are functions of three libraries (Redis Functions), which every
// process loads when it opens, and again with a call that finds none. Their names
// carry a hash of their text, so that several versions of duly work side by side.
// What no process has used for a week is removed (libraryCare). Where functions
// can't be used the same scripts are sent by EVAL.
//
// What a job has beyond the contract's defaults stands in its record: flags say
// which parts there are. What many jobs have in common, such as tries and lease,
// is a policy, which the shard keeps once and the record names by a byte. So a
// script that reads a record knows all of the job, and a bare job costs a field
// of the records and a member of one set.
//
// The writes of a call wait in the script (lua/include/pending.lua) and go out
// together: one command for each key and kind of write, however many jobs there
// are. What the jobs of a call may have to ask of others, such as who holds their
// keys, is read ahead in the same way.
//
// # Who knows a queue
//
// The truth about a queue's configuration is its entry in the namespace's list;
// each shard has a copy, and each process remembers one. A configuration begins
// with a version. A call carries the version that it was computed with, and a
// shard that has another one changes nothing and says so; then the process
// reads the list again, tells the shard what it has missed if it was the shard
// that was behind, and repeats the call (Engine.with, Engine.agree). So whoever
// changes a configuration may die at any moment: the next call goes on.
//
//	make      list → shards → jobs
//	change    list → shards
//	destroy   list (to go) → shards (emptied) → list (gone)
//
// # Calls of many callers
//
// While a push, a reserve, a settle or a delete of a shard is on its way, the
// next ones gather and go out as one script call (lane). No timer takes part. A
// lost reply of such a call is "unavailable" to each of its callers: nothing that
// may have run is sent again by itself.
//
// A joint reserve asks for as many jobs as all its callers want, and deals them
// out in the order in which these came (share): each gets what he would have got
// by a call of his own, behind the one who came before him. Who leaves before it
// is sent takes no part in it; what was leased for one who leaves later goes to
// the others, or is released. Reserves of more than a hundred jobs, and those
// that have something already, travel alone.
//
// # Waiting
//
// A waiter leases nothing. Per node (in a cluster, per shard) one blocking
// BZPOPMIN waits for a marker, whoever waits in this process (hub, watch). A
// script that leaves deliverable jobs behind sets the marker "now" with their
// number: the process that takes it wakes as many waiters, and the Reserve of
// each says again what it has left. A script that brings the next moment nearer
// sets "later": the process that takes it keeps that moment on its own timer
// and then looks. A process that took a marker and has nobody to wake puts it
// back, and where the waiter that was woken does not come in a tenth of a
// second, the process that woke it looks itself. A marker that is lost with its
// process or its connection is bounded by the look that every waiting process
// makes every two seconds.
//
// A queue that nobody has made is watched, too, by the names that its markers
// will have.
//
// A waiter looks first, but not just behind a Reserve that has left nothing:
// whatever came later has set a marker. So a busy worker, which reserves again
// and again, costs no marker traffic, and one that runs dry only its blocking
// call.
//
// # Tokens
//
// Tokens, their limits and what was counted under them stand in keys of one hash
// tag, {tokens}. A script that changes a token also publishes that, with the
// number of changes, which stays behind in a key; see link.Subscribe for how who
// watches hears of it, or that it can't hear. A call is counted in one script,
// by the same arithmetic as duly.LimitWindow and by the server's clock: so all
// processes count together. Without a limit nothing is counted.
//
// # Canceled jobs
//
// After Delete, Purge of leased jobs and Destroy the process publishes on a shard
// channel of the namespace which jobs are gone, without waiting for the answer;
// reports of 25 ms go together. A process that watches a namespace has one
// subscription for it, which sends nothing. Reports may be lost: after a gap the
// watcher's Ready is called, and a worker asks about all its leases.
//
// # What fails how
//
// A server that is not reached, or does not answer, is "unavailable" after the
// call's deadline: it may have happened. A shard that is empty although this
// process has used it was lost, and so was a namespace whose mark is another one
// or none (births): "store reset" is logged, once by each process. A job whose
// record can't be read, or whose body is not whole, is passed over and named in
// the log; Check mends. Where a script can make nothing of what it finds, a
// reserve or a sweep has that shard checked and mended by itself.
//
// # A node that is down
//
// In a cluster the other shards go on. A Reserve asks each shard once and takes
// what the others have; only while it has nothing is what was not reached asked
// again, round after round, with growing pauses. A Wait sleeps as long as one
// shard can be looked at. The two-second look heeds each answer as it comes. A
// call for one shard is repeated until its deadline as long as it certainly did
// not run, through a failover or the move of a slot.
//
// # Sweep
//
// A server looks at every queue every half minute. Of most queues that there are
// nothing is to be said, so one read-only call (holding) tells of some hundred
// shards of a node which of them hold jobs at all; of those another (overdue)
// tells which have something to do, and these are stepped. In a cluster, where a
// call is about one shard, it is asked the second question at once. What has to be
// known of a queue for that is remembered apart (briefs); a queue that was used
// here and is idle now takes some 800 bytes with it, for the sweep also puts away
// what calls work with (gear) where none came since the one before.
//
// # Survey
//
// A page of a namespace's queues with their stats goes the same way: one call
// (idle) tells what a hundred shards have counted that hold no jobs, which is all
// there is to be told, and each of the others is asked for its stats, fifty on
// their way together. A node that does not answer is asked once.
//
// # Check
//
// A walk over everything that a shard holds, some fifty entries to a read-only
// script call (check_page), each page judged as it stands in that moment. What
// is suspect is judged again by itself and, if it is told to, mended in the
// same step (check_job for whatever has a job's number, check_entry for aliases
// and busy keys, check_shard for counters and marker). So others work on beside
// it, and a job that moves is no fault. What a mend does is what its holder
// would have seen anyway: a job in no set comes back as after a stall, one that
// can't be read is a dead letter with all that is left of it, and an entry
// without a job goes. What is removed counts as dropped and is logged.
package redisengine

// Package redisengine is the engine for teams and fleets: everything of the
// contract on Redis (7.0 and later) or Valkey (7.2 and later), single, behind
// Sentinels or as a cluster. Any number of processes share the servers; none of
// them leads.
//
// # Packages
//
// The parts of the engine, from the calls down to the servers. Each package comment
// explains the part's protocol.
//
//	redisengine   Config, Open, Close
//	jobs          Push, Reserve, Settle, Extend, Delete: calls of many callers share batches
//	inspect       Get, Peek, List, Stats, Survey: reads
//	operate       Configure, Pause, Update, Purge, Requeue: changes by an operator
//	maintain      Step, Sweep, Check: upkeep and repair
//	wait          Wait: markers, wake-ups, looks
//	catalog       the cache of configurations with their versions, and lost stores
//	tokens        the registry of tokens and placements
//	cancel        reports of removed jobs
//	store         scripts, keys, clocks, and the engine's life
//	codec         records, policies, and the arguments and answers of scripts
//	link          connections to one server, Sentinels or a cluster; retries; durability
//	lua           the scripts
//
// # Failures
//
// A server that is not reached, or does not answer, is "unavailable" after the call's
// deadline: the call may have happened. A call for one shard is repeated until its
// deadline as long as it certainly did not run, through a failover or the move of a
// slot. A job whose record can't be read, or whose body is not whole, is skipped and
// named in the log. Check repairs it.
package redisengine

// Package redisengine implements the contract on Redis (7.0 and later) or Valkey (7.2
// and later): a single server, a primary behind Sentinels, or a cluster. Any number of
// processes share the servers. No process leads the others.
//
// # Packages
//
// These are the parts of the engine, from the calls down to the servers. Each package comment
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
//	schedules     PutSchedule, DueSchedules, Fire: schedules and the passes that fire their ticks
//	topics        Publish, Read, Delete: topics and their consumer groups
//	messages      messages of topics as the scripts store them
//	cancel        reports of removed jobs
//	store         scripts, keys, clocks, and the engine's life
//	codec         records, policies, and the arguments and answers of scripts
//	link          connections to one server, Sentinels or a cluster; retries; durability
//	lua           the scripts
//
// # Failures
//
// If a server can't be reached or does not answer, the call fails with "unavailable" at its
// deadline. It may have taken effect. A call for one shard that certainly did not run is retried
// until its deadline, through a failover or the move of a slot. Reserve skips a job whose record
// or body is damaged, and logs its ID. Check repairs it.
package redisengine

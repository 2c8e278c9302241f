// Package catalog caches the configurations of queues, each with a version, and the namespaces
// that they belong to.
//
// # Configurations and versions
//
// The configuration of a queue is its entry in the namespace's list. Each shard has a copy, and
// each process caches one. A configuration begins with a version. Every call carries the version
// that it was computed with. A shard with another version changes nothing and answers with its
// own ([Stale]). The process then reads the list again, updates the shard if the shard was
// behind, and repeats the call ([Catalog.With], [Catalog.Sync]). A process may die at any point
// of a change: the next call of any process finishes it.
//
//	create   list → shards → jobs
//	change   list → shards
//	destroy  list (tomb) → shards (emptied) → list (removed)
//
// # Resets
//
// Each namespace has a random mark next to its list of queues. A process that finds another mark,
// or none, detects that the data is lost: a server came back empty, was flushed, or was replaced
// by another one. Each process logs that once ([Resets]). An empty shard that this process has
// used was lost, too.
//
// # Many queues
//
// A sweep and a survey ask about all queues. A queue's [Summary] is enough for that. A
// [MultiCall] asks about many shards in one script call per node. The state that calls on a shard
// need ([State]) is created on first use. A sweep drops it when it is idle.
//
// # Files
//
// Each file uses only files named before it:
//
//	limits.go             the limits of a configuration, as the scripts read them
//	shard.go, queue.go    shards, queues, topics and groups in memory
//	config.go             their configurations as they are stored
//	cache.go, resets.go   the process's cache, and lost stores
//	catalog.go            reads of the list
//	configure.go, sync.go changes of the list and the shards
//	call.go, summary.go   calls on one shard, and on many
//	topic.go              calls on topics and groups
package catalog

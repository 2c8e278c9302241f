// Package catalog is what a process knows of queues: their configurations, cached
// with a version, and the namespaces that they are in.
//
// # Configurations and versions
//
// The configuration of a queue is its entry in the namespace's list. Each shard has a
// copy, and each process caches one. A configuration begins with a version. Every
// call carries the version that it was computed with. A shard with another version
// changes nothing and says so ([Stale]). The process then reads the list again, gives
// the shard what it has missed if the shard was behind, and repeats the call
// ([Catalog.With], [Catalog.Sync]). A process that changes a configuration may die at
// any moment: the next call of any process finishes the change.
//
//	create   list → shards → jobs
//	change   list → shards
//	destroy  list (tomb) → shards (emptied) → list (removed)
//
// # Resets
//
// Each namespace has a random mark beside its list of queues. A process that finds another
// mark, or none, knows that the store was lost: a server came back empty, was flushed,
// or another one took its place. Each process logs that once ([Resets]). A shard that
// is empty although this process has used it was lost, too.
//
// # Many queues
//
// A sweep and a survey ask about all queues. For that a queue's [Summary] is enough. A
// [MultiCall] asks about many shards in one script call per node. What calls need to
// use a shard ([State]) is created on first use, and dropped by a sweep when it is
// idle.
//
// # Files
//
// Each file uses only files named before it:
//
//	limits.go             what a configuration bounds, as the scripts read it
//	shard.go, queue.go    shards, queues, topics and groups as a process knows them
//	config.go             their configurations as they are stored
//	cache.go, resets.go   what a process remembers, and lost stores
//	catalog.go            reads of the list
//	configure.go, sync.go changes of the list and the shards
//	call.go, summary.go   calls on one shard, and on many
//	topic.go              calls on topics and groups
package catalog

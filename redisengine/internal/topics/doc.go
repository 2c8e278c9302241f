// Package topics publishes to topics and reads them. It creates, inspects and changes topics and
// groups.
//
// A topic is an entry of its namespace's list, like a queue, and its groups are part of that
// entry (package catalog). A change goes to the list first and then to every shard. A shard that
// lacks a group adds it with the configuration. A group that is destroyed is marked in the list,
// then removed from every shard, then from the list. If the process dies in between, the mark
// stays, and a repeated call continues from there.
//
// Concurrent publishes share script calls, like pushes. Reserves and settles of groups are in
// package jobs.
//
// # Files
//
// Each file uses only files named before it:
//
//	readers.go, misses.go   waiting Reads, and the messages that groups have missed
//	topics.go               Topics
//	manage.go               topics: configure, destroy
//	inspect.go              stats, messages, lists
//	groups.go               groups: create, configure, seek, destroy
//	survey.go, sweep.go     all topics of a namespace
//	announce.go             announcements of publishes to waiting Reads
//	read.go                 pages of a log, and delayed messages
//	follow.go               Read, and the watcher of a topic for waiting Reads
//	operate.go              delete, purge, requeue, step
//	publish.go, new.go      Publish, New
//	check.go                the check of a topic
package topics

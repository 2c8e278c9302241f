// Package topics publishes to topics and reads them, and makes, inspects and changes
// topics and groups.
//
// A topic is an entry of its namespace's list, as a queue is, and its groups are part of
// that entry (package catalog). A change goes to the list first and then to every shard.
// A shard that lacks a group adds it with the configuration. A group that goes is marked
// in the list, then removed from every shard, then from the list. If the process dies in
// between, the mark stays, and a repeated call continues from there.
//
// Publishes of many callers share script calls, like pushes. Reserves and settles of
// groups are in package jobs.
package topics

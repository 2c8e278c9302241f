// Package topics publishes to topics and reads them, and makes, inspects and changes
// topics and groups.
//
// A topic is an entry of its namespace's list, as a queue is, and its groups are part of
// that entry (package catalog). A change goes to the list first and then to every shard.
// A shard that lacks a group adds it with the configuration. A group that goes is marked
// in the list, then removed from every shard, then from the list: a process that dies in
// between leaves a mark, and the repetition of the call goes on from there.
//
// Publishes of many callers share script calls, as pushes do (package jobs). What is
// reserved from a group and settled there goes through package jobs.
package topics

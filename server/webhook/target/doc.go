// Package target stores the registered targets of HTTP push and the secrets of namespaces, and
// finds the destinations of jobs.
//
// An engine stores a target as a version and a string, which only this package parses. Headers and
// secrets of targets are sealed (package seal) before an engine gets them, each for its namespace,
// target and generation. The record without a name has the secret of its namespace.
//
// # Changes
//
// A change reads the record, changes it, and stores it under its version. If another server has
// changed the record since, the change is repeated. So a rotation and a disable at the same time
// both succeed.
//
// # Destinations
//
// A [Resolver] finds the destination of a job when it is sent: the job's own, or else that of its
// queue. It caches records and configurations of queues for a second, so a change applies on every
// server within two. The secret of a namespace is created when a job without another secret is
// sent.
//
// # What happens on each failure
//
//   - A secret or a header does not open: [dispatch.Postponed] with the reason unreadable.
//     No request is sent without its signature or its headers.
//   - The target does not exist, or the engine does not answer: [dispatch.Postponed] with
//     the reason unknown.
//   - Two servers create the secret of a namespace at the same time: both use the first one.
package target

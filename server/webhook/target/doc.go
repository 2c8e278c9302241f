// Package target keeps the registered targets of HTTP push, and the secrets of
// namespaces, and finds the destinations of jobs.
//
// An engine stores a target as a version and a text that only this package reads. Target
// headers and secrets are sealed (package seal) before they leave the server, each for
// its namespace, target and generation. A record without a name has the secret of its
// namespace.
//
// # Changes
//
// A change reads the record, changes it, and stores it under its version. If another
// server has changed the record meanwhile, the change is made again. So a rotation and a
// disable at the same time both count.
//
// # Destinations
//
// A [Resolver] finds the destination of a job when it is sent: that of the job, else that
// of its queue. It remembers records and configurations of queues for a second, so a
// change counts on every server within two. A namespace gets its secret when the first job
// without another one is sent.
//
// # What happens on each failure
//
//   - A secret or a header does not open: [dispatch.Held] with the reason unreadable.
//     Nothing is sent without its signature or its headers.
//   - The target does not exist, or the engine does not answer: held as unknown.
//   - Another server creates the secret of a namespace at the same moment: the first one
//     counts for both.
package target

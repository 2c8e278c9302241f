// Package failures groups dead jobs by their errors, so that a few groups show thousands of failures.
//
// # Fingerprints
//
// [Pattern] returns the first line of an error with placeholders for the parts that differ from job to job: numbers,
// IDs, quoted texts, addresses, paths and timestamps. [Fingerprint] is a hash of the pattern. Jobs with one fingerprint
// are a group.
//
// # Groups
//
// A [Tracker] walks over the dead jobs of queues, in pages of List, and counts the groups. A walk starts only when a
// page asks, and only if the statistics of the queue differ from those of the last walk. The walk then continues after
// the last job of that walk, or starts again if jobs have been removed. Each request walks for a limited time, and the
// next request continues.
//
// # Bounds
//
// A queue has at most [MaxGroups] groups, and all queues together 10 000. The jobs of further groups count as others.
package failures

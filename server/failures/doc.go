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
// A [Tracker] walks over the dead jobs of queues, in pages of List, and counts the groups. A walk starts only while
// somebody asks, and only if the statistics of the queue differ from the last walk. Then it continues behind the last
// job that it has seen, or starts again if jobs have been removed. Each request gives it limited time. The next one
// continues there.
//
// # Bounds
//
// A queue has at most [MaxGroups] groups. Further errors count as others.
package failures

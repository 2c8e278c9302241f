// Package lmstfyimport imports the data of lmstfy from Redis: tokens with their limits, and jobs. It
// reads lmstfy's Redis and never writes to it.
//
// # Data of lmstfy
//
// A job's body is a string of its own, j/NAMESPACE/QUEUE/ID, which expires with the job. An entry
// with the job's ID has its state. The list q/NAMESPACE/QUEUE has ready jobs, and d/NAMESPACE/QUEUE
// dead ones. The sorted set timer_set, one for all queues, has delayed jobs by the second at which
// they are due. It also has consumed jobs, by the end of their ttr, and does not distinguish the
// two. An entry without a body belongs to a job that was acked or has expired. m/ns and
// m/ns/NAMESPACE name namespaces and queues. In the Redis of the admin API, tk/POOL/NAMESPACE has
// the tokens and __throttler_keys__ the limits.
//
// # Repeated and interrupted runs
//
// A job keeps its ID, so a second run finds an imported job that still exists and skips it. The
// importer also writes imported jobs into a journal, after the store has answered. A second run
// skips them, even if they are finished by now. A run that dies in between repeats a batch with the
// same IDs.
//
// The importer reads the lists from their old end, several times, until a pass finds nothing new.
// Jobs that are pushed or consumed meanwhile move the positions.
//
// # Dead jobs
//
// The contract cannot push a dead job. The importer pushes one with a single try, reserves it at once
// and buries it. It does that before it imports the other jobs of the queue, so that it reserves no
// others. A consumer of the queue may be faster, and then it tries the job once more. The journal gets
// the job when it is buried. If a run ends before that, the next run buries the job if it is ready. A
// leased job has a single try, so it is dead after its lease, and a later run finds it.
package lmstfyimport

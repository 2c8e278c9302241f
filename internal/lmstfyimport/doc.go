// Package lmstfyimport brings over what lmstfy keeps in Redis: tokens with
// their limits, and the jobs that wait. It reads and never writes there.
//
// # What lmstfy keeps
//
// A job's body is a string of its own, j/NAMESPACE/QUEUE/ID, which expires with
// the job. Where the job stands is told by an entry with its ID alone: in the
// list q/NAMESPACE/QUEUE when it is ready, in d/NAMESPACE/QUEUE when it is dead,
// and in the sorted set timer_set, one for all, by the second that it is due
// at. That set holds the jobs in consumers' hands as well, by the end of their
// ttr, and does not tell them apart. An entry whose body is gone stands for a
// job that was acked or has expired. m/ns and m/ns/NAMESPACE name namespaces
// and queues. In the Redis of the admin API, tk/POOL/NAMESPACE has the tokens
// and __throttler_keys__ the limits.
//
// # Twice, or half
//
// A job keeps its ID, so as long as it is there a second run finds it and
// leaves it alone. What was brought over is also written into a journal, after
// the store has answered: a second run passes it over although it may be
// finished by now. A run that dies between the two repeats a batch by the same IDs.
//
// The lists are read from their old end, again and again until a pass brings
// nothing new, for what is pushed or taken meanwhile moves their places.
//
// # The dead
//
// The contract knows no push of a dead job: one is pushed with a single try,
// taken at once and buried. That is done for a queue's dead jobs before its
// others, so that nothing else is taken. A consumer that is already at work
// there may be quicker; then the job is tried once more. It is written down when
// it is buried: one that a run has left behind ready is buried by the next; one
// that it has left behind leased becomes dead with the end of that lease, for it
// has a single try, and a run after that finds it so.
package lmstfyimport

// Package operations works through many jobs of a queue in the background: it requeues, deletes, promotes or purges
// them at a rate. An operation is an object that people can watch, pause, continue and stop.
//
// # States
//
// A new operation is queued until fewer than [MaxRunning] operations run. A running one counts its jobs first, and then
// takes them in steps of at most 1000. A requeue with a canary waits after its first jobs. The last states are done,
// stopped and failed. An operation that has not ended when its server stops is interrupted, and waits for an operator.
//
// # Jobs
//
// An operation takes only jobs that existed at its start: dead jobs that died before it, and other jobs that were pushed
// before it. Each call names the jobs by their IDs, with their state as a condition. A job that another caller has changed
// meanwhile is skipped. So done + skipped + failed is always the number of taken jobs.
//
// # Records
//
// An operation with a data folder has a file, which is replaced after a sync. Before each step the file gets the counts
// so far and the IDs of the step. After a crash, Continue repeats that step: it looks at each job first, and a job
// that is no longer as it was counts as done by the first try. So no job is changed twice, and none is forgotten.
//
// # Failures
//
// A call that fails because the engine is not available, the queue is full or the disk is full is repeated, with growing
// pauses. The operation shows the error and keeps its place.
//
// Pauses and rates use the monotonic clock. The start of an operation is compared with times of the engine.
package operations

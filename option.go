package duly

import "time"

// Option sets a field of a pushed job. Each option sets the [Job] field of its name.
type Option func(*Job)

// ID sets the ID of the job. With an ID, a program can find and cancel the job, and a second push
// with the same ID creates no second job.
func ID(id string) Option { return func(j *Job) { j.ID = id } }

// Delay makes the job due in d.
func Delay(d time.Duration) Option { return func(j *Job) { j.Delay = d } }

// Due makes the job due at t.
func Due(t time.Time) Option { return func(j *Job) { j.Due = t } }

// Priority sets the priority, −1000…1000. Jobs with a higher priority go first.
func Priority(n int) Option { return func(j *Job) { j.Priority = n } }

// Tries sets how many deliveries may fail before the job is dead.
func Tries(n int) Option { return func(j *Job) { j.Tries = n } }

// MaxStalls sets how many stalls the job survives. None means that every stall counts as a failed
// try.
func MaxStalls(n int) Option { return func(j *Job) { j.MaxStalls = n } }

// Retry sets how long the job waits after a failure: [Fixed], [Exponential] or
// [Staircase].
func Retry(b Backoff) Option { return func(j *Job) { j.Backoff = b } }

// TTL drops the job if it waits longer than d from now. None means never.
func TTL(d time.Duration) Option { return func(j *Job) { j.TTL = d } }

// Lease sets how long a delivery holds the job, unless the worker extends the lease.
func Lease(d time.Duration) Option { return func(j *Job) { j.Lease = d } }

// OrderKey runs the jobs with the same key one at a time, in order.
func OrderKey(key string) Option { return func(j *Job) { j.OrderKey = key } }

// Keep merges the job into a waiting job with the same key. The waiting job does not change. An
// empty key merges equal bodies.
func Keep(key string) Option {
	return func(j *Job) { j.Merge = Merge{Key: key, Mode: MergeKeep} }
}

// Once is like Keep, but the job also holds the key while it runs: at most one job with the key
// waits or runs.
func Once(key string) Option {
	return func(j *Job) { j.Merge = Merge{Key: key, Mode: MergeKeep, Until: UntilDone} }
}

// Replace replaces a waiting job with the same key. With [Delay], each push postpones the job
// again. maxWait is the longest time for which pushes can postpone it. 0 means no limit.
func Replace(key string, maxWait time.Duration) Option {
	return func(j *Job) { j.Merge = Merge{Key: key, Mode: MergeReplace, MaxWait: maxWait} }
}

// Header adds a header.
func Header(name, value string) Option {
	return func(j *Job) {
		if j.Headers == nil {
			j.Headers = map[string]string{}
		}
		j.Headers[name] = value
	}
}

// Callback sets where a push queue sends the job: a URL, or target:NAME.
func Callback(destination string) Option { return func(j *Job) { j.Callback = destination } }

// OnDone sets where the dispatcher reports that the job is done.
func OnDone(destination string) Option { return func(j *Job) { j.OnDone = destination } }

// OnDead sets where the dispatcher reports that the job is dead.
func OnDead(destination string) Option { return func(j *Job) { j.OnDead = destination } }

// Retain keeps the finished job and its result visible for d.
func Retain(d time.Duration) Option { return func(j *Job) { j.Retain = d } }

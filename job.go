package duly

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Job is a body with its schedule and its rules. Only Queue must be set. Every other
// zero field takes the default that its comment names.
type Job struct {
	// ID is unique in its queue while the job exists, in any state. It has 1–128 of A–Z a–z 0–9 . _
	// - : and begins with a letter, a digit or "_". Default: a ULID that the client makes, so that
	// a repeat after a lost reply creates no second job while the first one exists.
	ID string
	// Namespace is the queue's. Default [DefaultNamespace].
	Namespace string
	// Queue must be set.
	Queue string
	// Body may be empty. It has at most 1 MiB, unless the engine has another limit.
	Body []byte
	// Headers are at most 64, with 8 KiB together. Names are stored in lower case.
	Headers map[string]string

	// Delay counts from the push, on the engine's clock. Default: due now.
	Delay time.Duration
	// Due is an absolute time, instead of a Delay. A time in the past means now.
	Due time.Time
	// Priority is −1000…1000. Jobs with a higher priority go first. Default 0.
	Priority int

	// Tries is how many deliveries may fail before the job is dead, 1…65535. Default:
	// the queue's, 16.
	Tries int
	// MaxStalls is the number of stalls that the job survives, 1…65535. One more stall makes the
	// job dead. None means that every stall counts as a failed try. Default: that of the queue, 8.
	MaxStalls int
	// Backoff is how long the job waits after a failure. Default: the queue's,
	// exp:1s:1h.
	Backoff Backoff
	// TTL is the time that the job may wait, counted from the push. It must be at least the delay.
	// None means no limit. Default: that of the queue, None.
	TTL time.Duration
	// Lease is how long a delivery holds the job, 100 ms–366 days. Default:
	// the queue's, 30 s.
	Lease time.Duration

	// OrderKey makes jobs with the same key run one at a time, in order. It has 1–128 bytes of
	// UTF-8 without control characters. Default: no key.
	OrderKey string
	// Merge merges equal waiting jobs into one. Default: no merging.
	Merge Merge
	// Callback is the destination to which a push queue sends the job: an http or https URL, or
	// target:NAME. A job with a callback creates its queue as a push queue. In a pull queue it is
	// [ErrConflict]. Default: the queue's URL.
	Callback string
	// OnDone and OnDead are where the dispatcher reports the end of the job, in the
	// form of Callback, or [NoDestination]. Default: the queue's.
	OnDone, OnDead string
	// Retain is the time for which the finished job and its result stay visible. Default: that of
	// the queue. Without Retain, the engine deletes the job when it is acked.
	Retain time.Duration

	// Made is set by Client on the first try of a job whose ID is a ULID that duly made. The engine
	// then uses the ID as the job's number. A repeat must not set it: after the first job is
	// finished, a receipt of that job would be valid for the repeated one.
	Made bool
}

// ShardKey returns the key that decides the job's shard. If it is empty, the ID decides.
func (j *Job) ShardKey() string {
	// All jobs of an order key share a shard, so that key goes before the merge key.
	if j.OrderKey == "" && j.Merge.Set() {
		return j.Merge.EffectiveKey(j.Body)
	}
	return j.OrderKey
}

// Merge merges equal jobs while they wait. Jobs are equal if they have the same Key
// under the same order key. The zero Merge merges nothing.
type Merge struct {
	// Key has 1–128 bytes of UTF-8 without control characters. If it is empty and Mode
	// is set, the key is the SHA-256 of the body.
	Key string
	// Mode says what a second push does to the waiting job. Default [MergeKeep].
	Mode MergeMode
	// MaxWait is the longest time for which pushes with MergeReplace can postpone the job, counted
	// from the push that created it. Default: no limit.
	MaxWait time.Duration
	// Until is how long the job holds the key. Default [UntilLeased].
	Until MergeUntil
}

// Set reports whether the job merges at all.
func (m Merge) Set() bool { return m != Merge{} }

// EffectiveKey returns the key that a job with this body merges by: Key, or a string with
// the SHA-256 of the body. It is empty if the job does not merge. The string begins with a
// control character, so it never equals a Key.
func (m Merge) EffectiveKey(body []byte) string {
	if m.Key != "" || !m.Set() {
		return m.Key
	}
	sum := sha256.Sum256(body)
	return "\x01" + hex.EncodeToString(sum[:])
}

// MergeMode says what a push does to the waiting job that holds its merge key.
type MergeMode string

// The merge modes.
const (
	// MergeKeep changes only the expiry, which becomes the later of the two.
	MergeKeep MergeMode = "keep"
	// MergeReplace gives the waiting job every field of the new one except its ID, its
	// keys and a held order key.
	MergeReplace MergeMode = "replace"
)

// MergeUntil is how long a job holds its merge key.
type MergeUntil string

// The times at which a job gives up its merge key.
const (
	// UntilLeased releases the key when the job is leased. A later push creates a new
	// job.
	UntilLeased MergeUntil = "leased"
	// UntilDone holds the key until the job is acked, dead, deleted or expired. It
	// requires MergeKeep.
	UntilDone MergeUntil = "done"
)

// PushStatus is the result of a push of one job.
type PushStatus uint8

// The statuses of a push. None of them is an error.
const (
	// Created means that the job is stored.
	Created PushStatus = iota + 1
	// Merged means that the job was merged into a waiting job.
	Merged
	// Exists means that a job with this ID exists already. Nothing has changed.
	Exists
)

var pushStatusNames = [...]string{"none", "created", "merged", "exists"}

// String returns the status's name on every wire.
func (s PushStatus) String() string { return nameOf("outcome", pushStatusNames[:], uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s PushStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *PushStatus) UnmarshalText(text []byte) error {
	for i, name := range pushStatusNames {
		// The first name belongs to the zero value, which is not a status.
		if i > 0 && name == string(text) {
			*s = PushStatus(i)
			return nil
		}
	}
	return invalid("outcome", "must be one of created, merged, exists")
}

// PushResult is the result of a push of one job.
type PushResult struct {
	// ID is the ID of the job. For a merged job it is the ID of the waiting job.
	ID string
	// Status is zero if Err is set.
	Status PushStatus
	// State is the state of the existing job, by the clock, if Status is Exists.
	State State
	// Err is the error of this job only.
	Err error
}

// Delivery is one delivery of a job. All times are of the engine's clock.
type Delivery struct {
	// Job has every default filled in. Due is its due time and Delay is zero. TTL, Retain and
	// MaxStalls are None if the job has no such limit.
	Job
	// Receipt settles this delivery only.
	Receipt Receipt
	// Attempt is the number of failures + 1. If MaxStalls is None, stalls are also added.
	Attempt int
	// Failures and Stalls are the numbers of deliveries that ended this way.
	Failures, Stalls int
	// LeaseEnd is the time at which the lease ends, unless the worker extends it.
	LeaseEnd time.Time
	// Now is the time of the delivery, which is never before Due.
	Now time.Time
	// PushedAt is when the job was pushed, or requeued.
	PushedAt time.Time
	// ExpiresAt is PushedAt + TTL. It is zero without a TTL.
	ExpiresAt time.Time
}

// JobInfo is a job with its state.
type JobInfo struct {
	// Job has every default filled in. Body is nil in a List without bodies.
	Job
	// State is the state by the clock in Get and Peek, and the stored state in a List.
	State State
	// Size is the length of the body in bytes, also if Body is nil.
	Size int
	// Attempt, Failures and Stalls are as in a Delivery. Attempt is the number of the running
	// delivery, or else of the next one. For a dead job it is the number of the last delivery.
	Attempt, Failures, Stalls int
	// PushedAt, ExpiresAt, LeaseEnd and FinishedAt are zero if they do not apply. FinishedAt is the
	// time at which the job became dead or done.
	PushedAt, ExpiresAt, LeaseEnd, FinishedAt time.Time
	// LastError is the text of the last nack, or the reason of a bury. A job that died
	// of stalls has a line that says so.
	LastError string
	// Result is the result that the ack of a done job had.
	Result []byte
}

// Settlement is a way to end a delivery.
type Settlement uint8

// The settlements, which are the ways to end a delivery.
const (
	// Ack means that the job is done.
	Ack Settlement = iota + 1
	// Nack means that the try has failed.
	Nack
	// Release gives the job back without using a try.
	Release
	// Bury makes the job dead at once.
	Bury
)

var settlementNames = [...]string{"none", "ack", "nack", "release", "bury"}

// String returns the settlement's name on every wire.
func (s Settlement) String() string { return nameOf("settlement", settlementNames[:], uint8(s)) }

// MarshalText implements encoding.TextMarshaler.
func (s Settlement) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Settlement) UnmarshalText(text []byte) error {
	for i, name := range settlementNames {
		if i > 0 && name == string(text) {
			*s = Settlement(i)
			return nil
		}
	}
	return invalid("as", "must be one of ack, nack, release, bury")
}

// SettleRequest ends the delivery that has its receipt.
type SettleRequest struct {
	Receipt Receipt
	As      Settlement
	// Delay is the time after which a nacked job is tried again, instead of its backoff, or a
	// released job is ready again. 0 means at once. nil means the backoff for a nack, and the old
	// due time for a release.
	Delay *time.Duration
	// Slow closes the queue for this time, because the service that its workers call has no
	// capacity. It may be set only for a release, from 0 to [MaxSlow]. With 0 the queue is not
	// closed. An engine that cannot close a queue returns [ErrUnsupported].
	Slow *time.Duration
	// Error is the text of a failure, or the reason of a bury or of a closing. It is cut at
	// 4 KiB, and for a closing at 200 bytes.
	Error string
	// Result is stored if the job is acked and retained, and dropped otherwise. It has at most 64
	// KiB.
	Result []byte
}

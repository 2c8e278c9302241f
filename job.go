package duly

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Job is a body with its schedule and its rules. Only Queue must be set; every
// other zero field takes the default that its comment names.
type Job struct {
	// ID is unique in its queue while the job exists, in whatever state: 1–128
	// of A–Z a–z 0–9 . _ - : that begin with a letter, a digit or "_".
	// Default: a ULID made by the client, so that a push that is repeated
	// after a lost reply does not double the job while the first is there.
	ID string
	// Namespace: default [DefaultNamespace].
	Namespace string
	// Queue must be set.
	Queue string
	// Body may be empty, and is at most 1 MiB unless the engine is set to
	// another bound.
	Body []byte
	// Headers are at most 64 and 8 KiB together. Names are kept in lower case.
	Headers map[string]string

	// Delay is counted on the engine's clock from the push. Default: due now.
	Delay time.Duration
	// Due is an absolute moment instead of a Delay; one in the past is now.
	Due time.Time
	// Priority is −1000…1000; higher goes first. Default 0.
	Priority int

	// Tries is how many deliveries may end in failure before the job is dead,
	// 1…65535. Default: the queue's, 16.
	Tries int
	// MaxStalls is how many stalls the job survives, 1…65535; one more makes
	// it dead. None: every stall counts as a failed try. Default: the
	// queue's, 8.
	MaxStalls int
	// Backoff says how long the job waits after a failure. Default: the
	// queue's, exp:1s:1h.
	Backoff Backoff
	// TTL is how long the job may wait, counted from the push; at least the
	// delay. None: for ever. Default: the queue's, none.
	TTL time.Duration
	// Lease is how long a delivery holds the job, 100 ms–366 days. Default:
	// the queue's, 30 s.
	Lease time.Duration

	// OrderKey: jobs of one key run one at a time, in order. 1–128 bytes of
	// UTF-8 without control characters. Default: none.
	OrderKey string
	// Merge collapses equal waiting jobs into one. Default: no merging.
	Merge Merge
	// Callback is where a push queue sends the job: an http or https URL, or
	// target:NAME. A job with one makes its queue as a push queue. Default: the
	// queue's URL. [ErrConflict] for a pull queue.
	Callback string
	// OnDone and OnDead are where the dispatcher reports the end of the job: as
	// Callback, or [NoDestination]. Default: the queue's.
	OnDone, OnDead string
	// Retain is how long the finished job and its result stay visible.
	// Default: the queue's. A job without one is deleted when it is acked.
	Retain time.Duration

	// Made says that ID is a ULID which duly's client made for this job and
	// that this is its first try. The engine then takes it as the job's
	// number. Client sets it; a repeat must not: once the first job is finished,
	// a receipt of it would be one of this job.
	Made bool
}

// Merge says that equal jobs which still wait are one job. Equal is the same
// Key under the same order key. The zero Merge merges nothing.
type Merge struct {
	// Key is 1–128 bytes of UTF-8 without control characters. Empty, with a
	// Mode set: the SHA-256 of the body.
	Key string
	// Mode is what a second push does to the waiting job. Default MergeKeep.
	Mode MergeMode
	// MaxWait bounds how long pushes with MergeReplace can put the job off,
	// counted from the push that made it. Default: no bound.
	MaxWait time.Duration
	// Until is how long the job holds the key. Default UntilLeased.
	Until MergeUntil
}

// Set tells whether the job merges at all.
func (m Merge) Set() bool { return m != Merge{} }

// MergeMode is what a push does to the waiting job that holds its merge key.
type MergeMode string

// The modes.
const (
	// MergeKeep changes nothing but the expiry, which becomes the later of the
	// two.
	MergeKeep MergeMode = "keep"
	// MergeReplace gives the waiting job every field of the new one but its
	// ID, its keys and a held order key.
	MergeReplace MergeMode = "replace"
)

// MergeUntil is how long a job holds its merge key.
type MergeUntil string

// The ends of a merge key.
const (
	// UntilLeased gives the key up when the job is leased: a push from then on
	// makes a new job.
	UntilLeased MergeUntil = "leased"
	// UntilDone holds the key until the job is acked, dead, deleted or
	// expired. With MergeKeep only.
	UntilDone MergeUntil = "done"
)

// PushStatus is how a push of one job ended.
type PushStatus uint8

// The statuses. None of them is an error.
const (
	// Created: the job is stored.
	Created PushStatus = iota + 1
	// Merged: it was merged into a waiting job.
	Merged
	// Exists: a job with that ID is there already; nothing has changed.
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
		if i > 0 && name == string(text) {
			*s = PushStatus(i)
			return nil
		}
	}
	return invalid("outcome", "must be one of created, merged, exists")
}

// PushResult is the answer for one pushed job.
type PushResult struct {
	// ID is the job's; of merged jobs the surviving one's.
	ID string
	// Status is zero where Err is set.
	Status PushStatus
	// State is the one that the other job is in, by the clock, for Exists.
	State State
	// Err is what was wrong with this job alone.
	Err error
}

// Delivery is one handing-out of a job. All times are the engine's clock's.
type Delivery struct {
	// Job is the job with every default filled in: Due is its due moment (and
	// Delay zero), TTL, Retain and MaxStalls are None where there is none.
	Job
	// Receipt settles this delivery and no other.
	Receipt Receipt
	// Attempt is failures so far + 1; with MaxStalls none stalls count too.
	Attempt int
	// Failures and Stalls are the deliveries that ended so.
	Failures, Stalls int
	// LeaseEnd is when the lease runs out unless it is extended.
	LeaseEnd time.Time
	// Now is when the job was handed out; never before Due.
	Now time.Time
	// PushedAt is when the job was pushed, or requeued.
	PushedAt time.Time
	// ExpiresAt is PushedAt + TTL; zero without a TTL.
	ExpiresAt time.Time
}

// JobInfo is a job as it stands.
type JobInfo struct {
	// Job is the job with every default filled in. Body is nil in lists that
	// did not ask for bodies.
	Job
	// State is where it stands: by the clock from Get and Peek, as stored in a
	// List.
	State State
	// Size is the length of the body in bytes, whether or not it is there.
	Size int
	// Attempt, Failures and Stalls are as in a Delivery: Attempt is that of
	// the running delivery, or of the next one; of a dead job that of the last.
	Attempt, Failures, Stalls int
	// PushedAt, ExpiresAt, LeaseEnd and FinishedAt are zero where they do not
	// apply. FinishedAt is when the job became dead or done.
	PushedAt, ExpiresAt, LeaseEnd, FinishedAt time.Time
	// LastError is the text of the last nack, or the reason of a bury; for a
	// job that died of stalls, a line that says so.
	LastError string
	// Result is what the ack of a done job brought.
	Result []byte
}

// Settlement is a way to end a delivery.
type Settlement uint8

// The ways to end a delivery.
const (
	// Ack: the job is done.
	Ack Settlement = iota + 1
	// Nack: the try has failed.
	Nack
	// Release: give it back; no try is used.
	Release
	// Bury: dead now.
	Bury
)

var settlementNames = [...]string{"none", "ack", "nack", "release", "bury"}

// String is the settlement's name on every wire.
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
	// Delay, for nack: when to try again, instead of the backoff; 0 is now.
	// For release: a snooze. Nil: the backoff, or the old due moment.
	Delay *time.Duration
	// Error is the failure's text or the reason of a bury, cut at 4 KiB.
	Error string
	// Result is kept with a job that is retained, at most 64 KiB; else it is
	// dropped.
	Result []byte
}

// EffectiveKey returns the key that a job with this body merges by: Key, or a text made of
// the SHA-256 of the body. It is empty if the job does not merge.
func (m Merge) EffectiveKey(body []byte) string {
	if m.Key != "" || !m.Set() {
		return m.Key
	}
	sum := sha256.Sum256(body)
	return "\x01" + hex.EncodeToString(sum[:])
}

// ShardKey returns the key that decides the job's shard. If it is empty, the ID decides.
func (j *Job) ShardKey() string {
	if j.OrderKey == "" && j.Merge.Set() {
		return j.Merge.EffectiveKey(j.Body)
	}
	return j.OrderKey
}

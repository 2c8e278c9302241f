package duly

import (
	"context"
	"time"
)

// Topics has the calls of publishers and readers. Engines that have topics implement it.
// A topic is an append-only log of messages. A group is a named reader of the whole log.
// A group is also a queue whose jobs are the messages: callers reserve from it, settle
// and inspect it through [Contract], under the name that [GroupName] returns.
//
// The rules of [Contract] for every operation also apply here. Only Publish,
// ConfigureTopic and CreateGroup make a topic. Every other operation returns
// [ErrNotFound] for an unknown topic or group. A topic and a queue cannot have the same
// name in one namespace: making the second one fails with [ErrConflict].
type Topics interface {
	// Publish appends messages and returns a result for each. It returns when the
	// engine's promise of durability holds. The messages of one call that go to one
	// shard enter it in one step, in their order. A call that is repeated after a lost
	// reply may add its messages twice, unless the topic has [TopicConfig.Dedupe].
	Publish(ctx context.Context, messages []Message) ([]PublishResult, error)

	// Read returns messages of a topic without a group. It changes nothing. It waits
	// up to Wait for a first message, and returns an empty page if there is none. It
	// returns [ErrConflict] for a position beyond the end of its shard: the store has
	// lost its last writes.
	Read(ctx context.Context, topic QueueRef, p ReadParams) (ReadPage, error)

	// Delayed lists the messages that have not entered the log, by (due, ID).
	Delayed(ctx context.Context, topic QueueRef, p DelayedParams) (DelayedPage, error)
	// DelayedMessage returns one message that has not entered the log, with its body.
	// Key is the message's key; it decides the shard.
	DelayedMessage(ctx context.Context, topic QueueRef, key, id string) (Message, error)
	// CancelDelayed removes a message that has not entered the log.
	CancelDelayed(ctx context.Context, topic QueueRef, key, id string) error

	TopicOperator
}

// TopicOperator is the part of [Topics] that makes and changes topics and groups.
type TopicOperator interface {
	// Topics lists the topics of a namespace by name.
	Topics(ctx context.Context, namespace string, p PageParams) (NamePage, error)
	// Topic returns the configuration of a topic, with every field filled in, and its
	// numbers.
	Topic(ctx context.Context, topic QueueRef) (TopicInfo, error)
	// ConfigureTopic changes each field of the patch that is not zero. It makes the
	// topic if that does not exist.
	ConfigureTopic(ctx context.Context, topic QueueRef, patch TopicConfig) error
	// DestroyTopic removes a topic with its log, its delayed messages, its groups and
	// its settings. It may be repeated.
	DestroyTopic(ctx context.Context, topic QueueRef) error

	// Groups lists the groups of a topic by name, without the topic's name.
	Groups(ctx context.Context, topic QueueRef, p PageParams) (NamePage, error)
	// CreateGroup makes a group, and its topic if that does not exist. It returns when
	// every shard has the group: the group then sees every message that is published
	// from now on. If the group exists, CreateGroup changes nothing and reports existed.
	CreateGroup(ctx context.Context, group QueueRef, from From) (existed bool, err error)
	// Seek moves the cursor of a group in every shard. The group gives up every
	// message that it holds, except the dead ones. Seek is not atomic over shards, so
	// repeat it after an error.
	Seek(ctx context.Context, group QueueRef, to From) (SeekResult, error)
}

// Message is what a publisher appends to a topic. Only Topic must be set.
type Message struct {
	// Namespace: default [DefaultNamespace].
	Namespace string
	// Topic must be set.
	Topic string
	// ID is the message's own: 1–128 of A–Z a–z 0–9 . _ - : that begin with a letter, a
	// digit or "_". A topic with [TopicConfig.Dedupe] accepts an ID once. A delayed
	// message is found by its ID. Default: none, or a ULID if one of the two needs it.
	ID string
	// Key: messages of one key go to one shard. Groups with order key handle them one
	// at a time. 1–128 bytes of UTF-8 without control characters. Default: none.
	Key string
	// Body may be empty, and is at most 1 MiB unless the engine is set to another
	// bound.
	Body []byte
	// Headers are at most 64 and 8 KiB together. Names are kept in lower case.
	Headers map[string]string
	// Delay counts from the Publish, on the engine's clock. The message enters the log
	// when it has passed. Default: now.
	Delay time.Duration
	// Due is an absolute time instead of a Delay. A time in the past means now.
	Due time.Time
}

// PublishResult is the answer for one published message.
type PublishResult struct {
	// Outcome is [Created], or [Exists] for an ID that the topic has seen within
	// [TopicConfig.Dedupe]; zero if Err is set.
	Outcome PushOutcome
	// Position is the place in the log. It is zero for a message that is still delayed,
	// and for a repeated message whose position the engine no longer stores.
	Position Position
	// ID is the message's own ID, or the ULID that the engine made for a delayed
	// message; empty if it has none.
	ID string
	// Err is the error of this message alone.
	Err error
}

// Entry is a message in the log.
type Entry struct {
	// Message is the message without Delay and Due.
	Message
	Position Position
	// EnteredAt is when it entered the log, on the engine's clock.
	EnteredAt time.Time
}

// ReadParams chooses what Read returns.
type ReadParams struct {
	// From is where to begin, or the Next of the page before. Default [FromStart].
	From From
	// Limit is the maximum number of messages, 1 to [MaxBatch]; 0 is [DefaultPage]. A page ends
	// early at [MaxBatchBytes] of bodies.
	Limit int
	// Wait is how long to wait for a first message, 0 to [MaxWait].
	Wait time.Duration
}

// ReadPage is a page of a log: each shard in order, the shards merged by position as
// far as they were read.
type ReadPage struct {
	Entries []Entry
	// Next is where the next page begins. It is never empty.
	Next From
	// Gap is the number of messages between From and the oldest stored message that
	// are gone.
	Gap int64
}

// DelayedParams chooses a page of delayed messages.
type DelayedParams struct {
	PageParams
	// Bodies asks for bodies as well. The page then ends early at [MaxBatchBytes].
	Bodies bool
}

// DelayedPage is a page of delayed messages, with Due set. The list ends only at an
// empty Next.
type DelayedPage struct {
	Messages []Message
	Next     string
}

// SeekResult is what a Seek did.
type SeekResult struct {
	// Clipped reports that in some shard the target is older than the oldest stored
	// message. The group continues at that message there.
	Clipped bool
	// Skipped and Replayed count the messages that the cursors passed over, forward and
	// back.
	Skipped, Replayed int64
}

// Overflow chooses what happens to a Publish that would exceed MaxCount or MaxBytes.
type Overflow string

// The values.
const (
	// OverflowRefuse refuses the Publish as [ErrFull] while a group needs the oldest
	// message.
	OverflowRefuse Overflow = "refuse"
	// OverflowDrop drops the oldest messages. Groups that needed them count them as
	// missed.
	OverflowDrop Overflow = "drop"
)

// TopicConfig is the configuration of a topic, stored in the engine and changed live.
// ConfigureTopic leaves settings unchanged whose field is zero. An engine returns every
// field filled in, with None for a missing bound.
type TopicConfig struct {
	// Shards is fixed when the topic is made: a power of two, 1…256. Default 1. An
	// engine that has one shard returns [ErrUnsupported] for more.
	Shards int
	// Dedupe is the window in which the topic accepts an ID once, 1 s–24 h. Default None.
	Dedupe time.Duration
	// Keep is how long a message stays although no group needs it, at least 1 ms.
	// Default None: the message is deleted once no group needs it. A topic without
	// groups keeps all.
	Keep time.Duration
	// MaxAge drops messages that are older, needed or not, at least 1 ms. Default None.
	MaxAge time.Duration
	// MaxCount and MaxBytes bound the messages, including the delayed ones. Each shard
	// enforces its part, so a bound below the number of shards is [ErrInvalid].
	// MaxBytes counts by the engine's estimate. Default None.
	MaxCount int
	MaxBytes int64
	// Overflow is what happens at these two bounds. Default [OverflowRefuse].
	Overflow Overflow
}

// TopicInfo is a topic's configuration with its numbers.
type TopicInfo struct {
	Config TopicConfig
	Stats  TopicStats
}

// TopicStats is what a topic holds and what it has done.
type TopicStats struct {
	// Messages in the log, and Bytes by the engine's estimate.
	Messages, Bytes int64
	// First and Last are the smallest and the largest position in the log; zero if it
	// is empty.
	First, Last Position
	// Delayed messages have not entered the log. NextDue is when the first of them
	// enters, zero if there is none.
	Delayed int64
	NextDue time.Time
	// Counters since the topic was made.
	Published int64 // Publishes answered created
	Exists    int64 // Publishes answered exists
	Entered   int64 // messages that entered the log
	Canceled  int64 // delayed messages that were removed
	Trimmed   int64 // messages that no group needed
	Dropped   int64 // messages that a bound deleted
	Forgotten int64 // IDs that the bound on IDs removed before their window ended
	// Floors has, for each shard that stores a needed message, the group that needs it.
	Floors []Floor
}

// Floor is the first message of a shard that some group needs.
type Floor struct {
	Shard    int
	Position Position
	// Group is the name of the group that needs it, without the topic's.
	Group string
	// Since is when this group became the group of the floor. An engine may forget it
	// when it restarts.
	Since time.Time
	// Alone is the number of messages that only this group keeps from trimming.
	Alone int64
}

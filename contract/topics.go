package contract

import (
	"context"
	"time"

	"github.com/dulymq/duly"
)

// Topics has the calls of publishers and readers. Engines that have topics implement it.
// A topic is an append-only log of messages. A group is a named reader of the whole log.
// A group is also a queue whose jobs are the messages: callers reserve from it, settle
// and inspect it through [Engine], under the name that [duly.GroupName] returns.
//
// The rules of [Engine] for every operation also apply here. Only Publish,
// ConfigureTopic and CreateGroup make a topic. Every other operation returns
// [duly.ErrNotFound] for an unknown topic or group. A topic and a queue cannot have the same
// name in one namespace: making the second one fails with [duly.ErrConflict].
type Topics interface {
	// Publish appends messages and returns a result for each. It returns when the
	// engine's promise of durability holds. The messages of one call that go to one
	// shard enter it in one step, in their order. A call that is repeated after a lost
	// reply may add its messages twice, unless the topic has [duly.TopicConfig.Dedupe].
	Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error)

	// Read returns messages of a topic without a group. It changes nothing. It waits
	// up to Wait for a first message, and returns an empty page if there is none. It
	// returns [duly.ErrConflict] for a position beyond the end of its shard: the store has
	// lost its last writes.
	Read(ctx context.Context, topic duly.QueueRef, p ReadParams) (ReadPage, error)

	// Delayed lists the messages that have not entered the log, by (due, ID).
	Delayed(ctx context.Context, topic duly.QueueRef, p DelayedParams) (DelayedPage, error)
	// DelayedMessage returns one message that has not entered the log, with its body.
	// Key is the message's key; it decides the shard.
	DelayedMessage(ctx context.Context, topic duly.QueueRef, key, id string) (duly.Message, error)
	// CancelDelayed removes a message that has not entered the log.
	CancelDelayed(ctx context.Context, topic duly.QueueRef, key, id string) error

	TopicOperator
}

// TopicOperator is the part of [Topics] that makes and changes topics and groups.
type TopicOperator interface {
	// Topics lists the topics of a namespace by name.
	Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error)
	// Topic returns the configuration of a topic, with every field filled in, and its
	// numbers.
	Topic(ctx context.Context, topic duly.QueueRef) (duly.TopicInfo, error)
	// ConfigureTopic changes each field of the patch that is not zero. It makes the
	// topic if that does not exist.
	ConfigureTopic(ctx context.Context, topic duly.QueueRef, patch duly.TopicConfig) error
	// DestroyTopic removes a topic with its log, its delayed messages, its groups and
	// its settings. It may be repeated.
	DestroyTopic(ctx context.Context, topic duly.QueueRef) error

	// Groups lists the groups of a topic by name, without the topic's name.
	Groups(ctx context.Context, topic duly.QueueRef, p duly.PageParams) (duly.NamePage, error)
	// CreateGroup makes a group, and its topic if that does not exist. It returns when
	// every shard has the group: the group then sees every message that is published
	// from now on. If the group exists, CreateGroup changes nothing and reports existed.
	CreateGroup(ctx context.Context, group duly.QueueRef, from duly.From) (existed bool, err error)
	// Seek moves the cursor of a group in every shard. The group gives up every
	// message that it holds, except the dead ones. Seek is not atomic over shards, so
	// repeat it after an error.
	Seek(ctx context.Context, group duly.QueueRef, to duly.From) (SeekResult, error)
}

// Entry is a message in the log.
type Entry struct {
	// Message is the message without Delay and Due.
	duly.Message
	Position duly.Position
	// EnteredAt is when it entered the log, on the engine's clock.
	EnteredAt time.Time
}

// ReadParams chooses what Read returns.
type ReadParams struct {
	// From is where to begin, or the Next of the page before. Default [duly.FromStart].
	From duly.From
	// Limit is the maximum number of messages, 1 to [duly.MaxBatch]; 0 is [duly.DefaultPage]. A page ends
	// early at [duly.MaxBatchBytes] of bodies.
	Limit int
	// Wait is how long to wait for a first message, 0 to [duly.MaxWait].
	Wait time.Duration
}

// ReadPage is a page of a log: each shard in order, the shards merged by position as
// far as they were read.
type ReadPage struct {
	Entries []Entry
	// Next is where the next page begins. It is never empty.
	Next duly.From
	// Gap is the number of messages between From and the oldest stored message that
	// are gone.
	Gap int64
}

// DelayedParams chooses a page of delayed messages.
type DelayedParams struct {
	duly.PageParams
	// Bodies asks for bodies as well. The page then ends early at [duly.MaxBatchBytes].
	Bodies bool
}

// DelayedPage is a page of delayed messages, with Due set. The list ends only at an
// empty Next.
type DelayedPage struct {
	Messages []duly.Message
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

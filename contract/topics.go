package contract

import (
	"context"
	"math"
	"time"

	"github.com/dulymq/duly"
)

// Topics is the interface for publishers and readers. Engines that have topics implement it. A topic is
// an append-only log of messages. A group is a named reader of the whole log. A group is also a
// queue whose jobs are the messages: callers reserve from it, settle and inspect it through
// [Engine], under the name that [duly.GroupName] returns.
//
// The rules of [Engine] for every operation also apply here. Only Publish, ConfigureTopic and
// CreateGroup create a topic. Every other operation returns [duly.ErrNotFound] for an unknown topic
// or group. A topic and a queue cannot have the same name in one namespace: creating the second one
// fails with [duly.ErrConflict].
type Topics interface {
	// Publish appends messages and returns a result for each. It returns when the
	// engine's promise of durability holds. The messages of one call that go to one
	// shard enter it in one step, in their order. A call that is repeated after a lost
	// reply may add its messages twice, unless the topic has [duly.TopicConfig.Dedupe].
	Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error)

	// Read returns messages of a topic without a group. It changes nothing. It waits up to Wait for
	// a first message, and returns an empty page if there is none. It returns [duly.ErrConflict]
	// for a position after the end of its shard, which means that the store has lost its last
	// writes.
	Read(ctx context.Context, topic duly.QueueRef, p ReadParams) (ReadPage, error)

	// Delayed lists the messages that have not entered the log, by (due, ID).
	Delayed(ctx context.Context, topic duly.QueueRef, p DelayedParams) (DelayedPage, error)
	// DelayedMessage returns one message that has not entered the log, with its body. key is the
	// key of the message, which decides the shard.
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
	// ConfigureTopic changes each field of the patch that is not zero. If the topic does not exist,
	// it is created.
	ConfigureTopic(ctx context.Context, topic duly.QueueRef, patch duly.TopicConfig) error
	// DestroyTopic removes a topic with its log, its delayed messages, its groups and
	// its settings. It may be repeated.
	DestroyTopic(ctx context.Context, topic duly.QueueRef) error

	// Groups lists the groups of a topic by name, without the topic's name.
	Groups(ctx context.Context, topic duly.QueueRef, p duly.PageParams) (duly.NamePage, error)
	// CreateGroup creates a group. If the topic does not exist, it also creates the topic. It
	// returns when every shard has the group. From then on, the group gets every message that is
	// published. If the group exists, CreateGroup changes nothing and reports existed.
	CreateGroup(ctx context.Context, group duly.QueueRef, from duly.From) (existed bool, err error)
	// Seek moves the cursor of a group in every shard. The group gives up every message that it
	// holds, except dead messages. Seek is not atomic over shards, so repeat it after an error.
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
	// From is the place where to begin, or the Next of the previous page. Default [duly.FromStart].
	From duly.From
	// Limit is the maximum number of messages, 1 to [duly.MaxBatch]; 0 is [duly.DefaultPage]. A page ends
	// early at [duly.MaxBatchBytes] of bodies.
	Limit int
	// Wait is how long to wait for a first message, 0 to [duly.MaxWait].
	Wait time.Duration
}

// ReadPage is a page of a log. The messages of each shard are in order, and the shards are merged
// by position, as far as all of them were read.
type ReadPage struct {
	Entries []Entry
	// Next is where the next page begins. It is never empty.
	Next duly.From
	// Gap is the number of deleted messages between From and the oldest stored message.
	Gap int64
}

// DelayedParams chooses a page of delayed messages.
type DelayedParams struct {
	duly.PageParams
	// Bodies asks for bodies as well. With bodies, the page ends early at [duly.MaxBatchBytes].
	Bodies bool
}

// DelayedPage is a page of delayed messages, with Due set. The list ends only at an
// empty Next.
type DelayedPage struct {
	Messages []duly.Message
	Next     string
}

// SeekResult is the result of a Seek.
type SeekResult struct {
	// Clipped reports that in some shard the target is older than the oldest stored message. In
	// that shard the group continues at the oldest stored message.
	Clipped bool
	// Skipped is the number of messages that the cursors passed forward, and Replayed the number
	// that they passed back.
	Skipped, Replayed int64
}

// DefaultTopicConfig returns the configuration of a topic that was never configured.
func DefaultTopicConfig() duly.TopicConfig {
	return duly.TopicConfig{
		Shards: 1, Dedupe: duly.None, Keep: duly.None, Overflow: duly.OverflowRefuse,
		MaxAge: duly.None, MaxCount: duly.None, MaxBytes: duly.None,
	}
}

// PatchTopicConfig returns c with each field of the patch that is not zero.
func PatchTopicConfig(c duly.TopicConfig, patch duly.TopicConfig) duly.TopicConfig {
	set(&c.Shards, patch.Shards)
	set(&c.Dedupe, patch.Dedupe)
	set(&c.Keep, patch.Keep)
	set(&c.MaxAge, patch.MaxAge)
	set(&c.MaxCount, patch.MaxCount)
	set(&c.MaxBytes, patch.MaxBytes)
	set(&c.Overflow, patch.Overflow)
	return c
}

// ValidateTopicConfig returns [duly.ErrInvalid] with every bad field of a patch.
func ValidateTopicConfig(c duly.TopicConfig) error {
	var f BadFields
	if n := c.Shards; n != 0 && (n < 1 || n > duly.MaxShards || n&(n-1) != 0) {
		f.Add("shards", "is %d, must be a power of two between 1 and %d", n, duly.MaxShards)
	}
	if d := c.Dedupe; d != 0 && d != duly.None && (d < duly.MinDedupe || d > duly.MaxDedupe) {
		f.Add("dedupe", "is %s, must be between %s and %s, or none",
			duly.FormatDuration(d), duly.FormatDuration(duly.MinDedupe), duly.FormatDuration(duly.MaxDedupe))
	}

	for _, x := range []struct {
		field string
		d     time.Duration
	}{{"keep", c.Keep}, {"max_age", c.MaxAge}} {
		if x.d != 0 && x.d != duly.None && x.d < time.Millisecond {
			f.Add(x.field, "is %s, must be at least 1ms, or none", duly.FormatDuration(x.d))
		}
	}

	checkBound(&f, "max_count", c.MaxCount)
	if c.MaxBytes < duly.None || c.MaxBytes > math.MaxInt64/2 {
		f.Add("max_bytes", "is %d, must be between 1 and %d, or none", c.MaxBytes, int64(math.MaxInt64/2))
	}

	switch c.Overflow {
	case "", duly.OverflowRefuse, duly.OverflowDrop:
	default:
		f.Add("overflow", "is %s, must be refuse or drop", Quoted(string(c.Overflow)))
	}
	return f.Err()
}

// CheckTopicConfig returns [duly.ErrInvalid] with every limit that is smaller than the number of
// shards, because each shard enforces a part of the limit.
func CheckTopicConfig(c duly.TopicConfig) error {
	var f BadFields
	if c.MaxCount > 0 && c.MaxCount < c.Shards {
		f.Add("max_count", "is %d, must be at least %d: each of the topic's shards enforces its part", c.MaxCount, c.Shards)
	}
	if c.MaxBytes > 0 && c.MaxBytes < int64(c.Shards) {
		f.Add("max_bytes", "is %d, must be at least %d: each of the topic's shards enforces its part", c.MaxBytes, c.Shards)
	}
	return f.Err()
}

// Validate returns [duly.ErrInvalid] with every bad parameter, and fills in the defaults.
func (p *ReadParams) Validate(topic duly.QueueRef) error {
	var f BadFields
	f.Take(ValidateTopic(topic))
	page := duly.PageParams{Limit: p.Limit}
	checkPage(&page, &f)
	p.Limit = page.Limit

	if p.Wait < 0 || p.Wait > duly.MaxWait {
		f.Add("wait", "is %s, must be between 0s and %s", duly.FormatDuration(p.Wait), duly.FormatDuration(duly.MaxWait))
	}
	if _, err := ParseFromIn(p.From, topic, true); err != nil {
		f.Take(err)
	}
	return f.Err()
}

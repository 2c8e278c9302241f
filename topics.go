package duly

import (
	"net/url"
	"strings"
	"time"
)

// Message is what a publisher appends to a topic. Only Topic must be set.
type Message struct {
	// Namespace: default [DefaultNamespace].
	Namespace string
	// Topic must be set.
	Topic string
	// ID identifies the message. It has 1–128 of A–Z a–z 0–9 . _ - : that begin with a letter, a
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
	// Status is [Created], or [Exists] for an ID that the topic has seen within
	// [TopicConfig.Dedupe]; zero if Err is set.
	Status PushStatus
	// Position is the place in the log. It is zero for a message that is still delayed,
	// and for a repeated message whose position the engine no longer stores.
	Position Position
	// ID is the message's own ID, or the ULID that the engine made for a delayed
	// message; empty if it has none.
	ID string
	// Err is the error of this message.
	Err error
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

// GroupOrder is the order in which a group handles the messages of one key.
type GroupOrder string

// The orders.
const (
	// OrderNone promises nothing about the order in which deliveries end.
	OrderNone GroupOrder = "none"
	// OrderKeys handles one message of a key at a time, in log order.
	OrderKeys GroupOrder = "key"
)

// GroupConfig is the part of a [QueueConfig] that only a group has. It is zero in the
// configuration of a queue.
type GroupConfig struct {
	// Order can change from key to none at any time. It can change from none to key
	// only while the group holds no message. Default [OrderNone].
	Order GroupOrder
	// MaxHeld bounds the messages that the group holds: ready, delayed, blocked and
	// leased. At the bound the cursor stops. 1…10¹²; default 100 000.
	MaxHeld int
	// Filter limits the group to matching messages. Default none.
	Filter Filter
	// Idle is the time without a Reserve after which the group is parked: it then
	// needs no message. At least 1 h. Default None.
	Idle time.Duration
	// Target is the name of a queue of the namespace: the servers push each message
	// into it. "none" removes the target. Default none.
	Target string
}

// Bounds of groups.
const (
	// DefaultMaxHeld is the default of [GroupConfig.MaxHeld].
	DefaultMaxHeld = 100_000
	// MinIdle is the shortest [GroupConfig.Idle].
	MinIdle = time.Hour
	// MaxGroups is the number of groups of one topic.
	MaxGroups = 100
	// MaxConsumers is how many names of consumers a group lists; ConsumerMemory is how
	// long it remembers one.
	MaxConsumers, ConsumerMemory = 1000, time.Hour
	// MaxPassed is how many messages one step passes over, MaxTrimmed how many it
	// deletes.
	MaxPassed, MaxTrimmed = 1000, 10_000
	// MinDedupe and MaxDedupe bound [TopicConfig.Dedupe]; MaxIDs is how many IDs a
	// shard remembers.
	MinDedupe, MaxDedupe, MaxIDs = time.Second, 24 * time.Hour, 1_000_000
)

// NoTarget removes the target of a group.
const NoTarget = "none"

// GroupStats is the part of [Stats] that only a group has. At rest, Entered + Replayed = Lag +
// ready + delayed + blocked + leased + dead + acked + Filtered + Skipped + Missed +
// deleted + dropped.
type GroupStats struct {
	// Lag is the number of messages beyond the cursor, including those that the filter
	// will skip.
	Lag int64
	// Entered counts the messages at or after the start of the group.
	Entered int64
	// Filtered counts messages that did not match the filter. Skipped and Replayed
	// count messages that a Seek passed over, forward and back. Missed counts messages
	// that were deleted although the group needed them.
	Filtered, Skipped, Replayed, Missed int64
	// OldestNeeded is the age of the oldest message that the group needs, 0 if it needs none.
	OldestNeeded time.Duration
	// Parked reports that the group was idle for too long.
	Parked bool
	// AtMaxHeld reports that MaxHeld stops the cursor in some shard. Key is then the
	// key that blocks most messages there, if the group has an order.
	AtMaxHeld bool
	Key       string
	// Consumers called within the last hour, by name; at most 1000.
	Consumers []Consumer
}

// Consumer is a name that a caller passes with Reserve. It owns nothing.
type Consumer struct {
	Name string
	// LastCall is when it last called, to within a minute.
	LastCall time.Time
}

// From is a place in a log: "start", "end", a time (RFC 3339), a position, or the Next
// of a contract.ReadPage, which begins with "next:".
type From string

// The two ends of a log.
const (
	// FromStart is the oldest message that is stored. It is also the zero From.
	FromStart From = "start"
	// FromEnd is the first message that enters from now on.
	FromEnd From = "end"
)

// FromTime returns the place of the first message that entered at t or later.
func FromTime(t time.Time) From { return From(t.UTC().Format(time.RFC3339Nano)) }

// FromPosition returns the place of the message at p. Seek and CreateGroup use the time of
// the position for the other shards.
func FromPosition(p Position) From { return From(p.String()) }

// Filter selects messages that meet all of its conditions, up to eight. It has the form
// of a query string: "type=order&region=eu" asks for two headers, "@key=a" for the
// message's key. The case of header names does not matter.
type Filter string

// NoFilter removes the filter of a group.
const NoFilter Filter = "none"

// MaxConditions is the number of conditions of a filter.
const MaxConditions = 8

// FilterKey names the key of a message in a condition. No header can have this name.
const FilterKey = "@key"

// Condition is one condition of a filter: the header Name, or the key for [FilterKey],
// has the Value.
type Condition struct{ Name, Value string }

// FilterOf returns the filter with these conditions.
func FilterOf(conditions ...Condition) Filter {
	parts := make([]string, len(conditions))
	for i, c := range conditions {
		name := c.Name
		if name != FilterKey {
			name = url.QueryEscape(strings.ToLower(name))
		}
		parts[i] = name + "=" + url.QueryEscape(c.Value)
	}
	if len(parts) == 0 {
		return NoFilter
	}
	return Filter(strings.Join(parts, "&"))
}

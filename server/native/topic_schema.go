package native

import (
	"time"
)

// messageForm is a message of a publish.
type messageForm struct {
	Body       string            `json:"body,omitempty" doc:"The body, if it is UTF-8 without NUL. Bound: 1 MiB, or the server's setting. Default: empty."`
	BodyBase64 string            `json:"body_base64,omitempty" contentEncoding:"base64" doc:"The body as base64, instead of body."`
	ID         string            `json:"id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9_][A-Za-z0-9._:-]*$" doc:"The message's own ID. A topic with dedupe accepts it once. A delayed message is found by its ID. Default: none, or a ULID for a delayed message."`
	Key        string            `json:"key,omitempty" maxLength:"128" doc:"Messages of one key go to one shard. Groups with order key handle them one at a time."`
	Headers    map[string]string `json:"headers,omitempty" maxProperties:"64" doc:"Names and values that travel with the message. Names become lower case. Bound: 64 headers, 8 KiB together."`
	Delay      duration          `json:"delay,omitempty" doc:"The message enters the log this long after the server receives it. Not together with due. Default: 0s."`
	Due        *time.Time        `json:"due,omitempty" doc:"The message enters the log at this time. A time in the past means now."`
}

type publishForm struct {
	Messages []messageForm `json:"messages" maxItems:"1000" doc:"The messages to append."`
}

type publishResultForm struct {
	open
	Outcome  string     `json:"outcome,omitempty" enum:"created,exists" doc:"created stored the message. exists: the topic has seen its ID within dedupe."`
	Position string     `json:"position,omitempty" doc:"The place in the log; absent for a message that is still delayed."`
	ID       string     `json:"id,omitempty" doc:"The message's own ID, or the ID that the engine made for a delayed message."`
	Error    *ErrorForm `json:"error,omitempty" doc:"Instead of an outcome: the error of this message alone."`
}

type publishedForm struct {
	open
	Results []publishResultForm `json:"results" doc:"One result per message, in order."`
}

type entryForm struct {
	open
	Position  string    `json:"position" doc:"The place in the log."`
	EnteredAt time.Time `json:"entered_at" doc:"When the message entered the log."`
	ID        string    `json:"id,omitempty" doc:"The message's own ID."`
	ContentForm
}

// ContentForm is the common part of messages in the log and delayed messages.
type ContentForm struct {
	Key        string            `json:"key,omitempty" doc:"The message's key."`
	Headers    map[string]string `json:"headers,omitempty" doc:"The message's headers, names in lower case."`
	Body       string            `json:"body,omitempty" doc:"The body, if it is UTF-8 without NUL."`
	BodyBase64 string            `json:"body_base64,omitempty" contentEncoding:"base64" doc:"The body as base64, if it is anything else."`
}

type entriesForm struct {
	open
	Messages []entryForm `json:"messages" doc:"The messages of this page: each shard in order, merged by position as far as they were read."`
	Next     string      `json:"next" doc:"Where to continue: pass it as from. It is never empty."`
	Gap      int64       `json:"gap" doc:"The number of messages between from and the oldest stored message that are gone."`
}

type delayedMessageForm struct {
	open
	ID  string    `json:"id" doc:"The message's own ID, or the ID that the engine made."`
	Due time.Time `json:"due" doc:"When the message enters the log."`
	ContentForm
}

type delayedForm struct {
	open
	Messages []delayedMessageForm `json:"messages" doc:"The messages of this page, by due time. They have bodies only with bodies=true."`
	Next     string               `json:"next" doc:"The cursor of the next page; empty at the end."`
}

type nameForm struct {
	open
	Name string `json:"name" doc:"The name."`
}

type topicsForm struct {
	open
	Topics []nameForm `json:"topics" doc:"The topics of this page, by name."`
	Next   string     `json:"next" doc:"The cursor of the next page; empty at the end."`
}

type groupsForm struct {
	open
	Groups []nameForm `json:"groups" doc:"The groups of this page, by name."`
	Next   string     `json:"next" doc:"The cursor of the next page; empty at the end."`
}

type fromForm struct {
	From string `json:"from,omitempty" doc:"start: the oldest stored message. end: the next message that enters. A time: the first message from then on. A position: that message. Default: start."`
}

type seekForm struct {
	From string `json:"from" doc:"start: the oldest stored message. end: the next message that enters. A time: the first message from then on. A position: that message."`
}

type groupCreatedForm struct {
	open
	Outcome string `json:"outcome" enum:"created,exists" doc:"exists: the group existed, and nothing has changed."`
}

type seekedForm struct {
	open
	Clipped  bool  `json:"clipped" doc:"Whether the place is before the oldest stored message of some shard. The group continues at that message there."`
	Skipped  int64 `json:"skipped" doc:"How many messages the cursors passed over, forward."`
	Replayed int64 `json:"replayed" doc:"How many messages the cursors passed over, back."`
}

type trimmedForm struct {
	open
	More bool `json:"more" doc:"Whether the step ended at its bound and there is more to trim."`
}

// TopicConfigForm is a patch of a topic's configuration. It is exported so that it
// can be embedded.
type TopicConfigForm struct {
	Shards   int            `json:"shards,omitempty" minimum:"1" maximum:"256" doc:"A power of two. It cannot change after the topic was created. Default: 1."`
	Dedupe   durationOrNone `json:"dedupe,omitempty" doc:"The window in which an ID is accepted once. Bound: 1s to 24h. Default: none."`
	Keep     durationOrNone `json:"keep,omitempty" doc:"How long a message stays although no group needs it. Default: none."`
	MaxAge   durationOrNone `json:"max_age,omitempty" doc:"Drops messages that are older, needed or not. Default: none."`
	MaxCount countOrNone    `json:"max_count,omitempty" doc:"The maximum number of messages, including delayed ones. Default: none."`
	MaxBytes countOrNone    `json:"max_bytes,omitempty" doc:"The maximum number of bytes, by the engine's estimate. Default: none."`
	Overflow string         `json:"overflow,omitempty" enum:"refuse,drop" doc:"At max_count and max_bytes: refuse a publish while a group needs the oldest message, or drop the oldest messages. Default: refuse."`
}

type wholeTopicConfigForm struct {
	open
	TopicConfigForm
}

type floorForm struct {
	open
	Shard    int        `json:"shard" doc:"The shard."`
	Position string     `json:"position,omitempty" doc:"The first message of the shard that some group needs."`
	Group    string     `json:"group" doc:"The group that needs it."`
	Since    *time.Time `json:"since,omitempty" doc:"Since when that group keeps the shard from being trimmed, if known."`
	Alone    int64      `json:"alone" doc:"The number of messages that only this group keeps from being trimmed."`
}

type topicStatsForm struct {
	open
	Messages int64            `json:"messages" doc:"Messages in the log."`
	Bytes    int64            `json:"bytes" doc:"Their bytes, by the engine's estimate."`
	First    string           `json:"first,omitempty" doc:"The smallest position in the log."`
	Last     string           `json:"last,omitempty" doc:"The largest position in the log."`
	Delayed  int64            `json:"delayed" doc:"Messages that have not entered the log."`
	NextDue  *time.Time       `json:"next_due,omitempty" doc:"When the first of them enters."`
	Counters map[string]int64 `json:"counters" doc:"Events since the topic was created: published, exists, entered, canceled, trimmed, dropped, forgotten."`
	Floors   []floorForm      `json:"floors" doc:"The groups that keep shards from being trimmed."`
}

type topicForm struct {
	open
	Name   string               `json:"name" doc:"The topic's name."`
	Config wholeTopicConfigForm `json:"config" doc:"The configuration with every field filled in."`
	Stats  topicStatsForm       `json:"stats" doc:"The topic's numbers."`
}

type consumerForm struct {
	open
	Name     string    `json:"name" doc:"The name that the caller passed to reserve."`
	LastCall time.Time `json:"last_call" doc:"When it last called, to within a minute."`
}

type groupStatsForm struct {
	open
	Lag          int64          `json:"lag" doc:"Messages beyond the cursor."`
	Entered      int64          `json:"entered" doc:"Messages at or after the start of the group."`
	Filtered     int64          `json:"filtered" doc:"Messages that did not match the filter."`
	Skipped      int64          `json:"skipped" doc:"Messages that a seek passed over, forward."`
	Replayed     int64          `json:"replayed" doc:"Messages that a seek passed over, back."`
	Missed       int64          `json:"missed" doc:"Messages that were deleted although the group needed them."`
	OldestNeeded duration       `json:"oldest_needed" doc:"The age of the oldest message that the group needs."`
	Parked       bool           `json:"parked" doc:"Whether the group was idle for too long and needs no messages."`
	AtMaxHeld    bool           `json:"at_max_held" doc:"Whether max_held stops the cursor."`
	Key          string         `json:"key,omitempty" doc:"With order key and at max_held: the key that blocks most messages."`
	Consumers    []consumerForm `json:"consumers" doc:"The consumers that called within the last hour."`
}

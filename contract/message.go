package contract

import (
	"time"

	"github.com/dulymq/duly/internal/clock"

	"github.com/dulymq/duly"
)

// MessageBytes returns the total size of the bodies.
func MessageBytes(messages []duly.Message) (n int) {
	for i := range messages {
		n += len(messages[i].Body)
	}
	return n
}

// PlanMessage returns when a valid message enters the log, in ms, and the message as the engine
// stores it: the namespace filled in, the names of headers in lower case, without Delay
// and Due. A Due in the past becomes now. Plan returns [duly.ErrInvalid] for a due time beyond
// [duly.MaxTime].
func PlanMessage(m duly.Message, now time.Time) (stored duly.Message, due int64, err error) {
	if due = dueAt(m.Delay, m.Due, now); due > clock.Milli(duly.MaxTime) {
		return m, 0, Invalid("delay", "ends beyond %s", duly.MaxTime.Format(time.RFC3339Nano))
	}
	m.Namespace, m.Headers = NamespaceOr(m.Namespace), lowerHeaders(m.Headers)
	m.Delay, m.Due = 0, time.Time{}
	return m, due, nil
}

// MessageShard returns the shard of a message in a topic with this configuration. It returns
// false if any shard will do: the engine then chooses one for the whole call.
func MessageShard(m *duly.Message, c duly.TopicConfig, delayed bool) (shard int, fixed bool) {
	switch {
	case c.Shards < 2:
		return 0, true
	case m.Key != "":
		return KeyShard(m.Key, c.Shards), true
	case m.ID == "":
		return 0, false
	case c.Dedupe > 0:
		return KeyShard(m.ID, c.Shards), true
	case delayed:
		return ShardOf(m.ID, c.Shards), true
	}
	return 0, false
}

// DelayedShards returns the shards that can have a delayed message with this key and ID.
// There are two if the shard depends on whether the topic had a Dedupe at the Publish.
func DelayedShards(key, id string, shards int) []int {
	if key != "" {
		return []int{KeyShard(key, shards)}
	}
	first, second := ShardOf(id, shards), KeyShard(id, shards)
	if first == second {
		return []int{first}
	}
	return []int{first, second}
}

// ValidateRequeueFor returns [duly.ErrInvalid] with every bad parameter of a Requeue in a queue or a
// group. The messages of a group have neither tries nor a TTL of their own.
func ValidateRequeueFor(p *duly.RequeueParams, q duly.QueueRef) error {
	var f BadFields
	err := ValidateRequeue(p)
	if err != nil && duly.CodeOf(err) != duly.CodeInvalid {
		return err
	}
	f.Take(err)
	if q.IsGroup() && p.Tries != 0 {
		f.Add("tries", "is set, but %s is a group, whose messages have none of their own; leave it out", Quoted(q.Name))
	}
	if q.IsGroup() && p.TTL != 0 && p.TTL != duly.None {
		f.Add("ttl", "is set, but %s is a group, which has none; leave it out", Quoted(q.Name))
	}
	return f.Err()
}

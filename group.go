package duly

import (
	"math"
	"strings"
	"time"
)

// GroupName returns the name that a group of a topic has as a queue: "topic@group".
func GroupName(topic, group string) string { return topic + "@" + group }

// Group splits the name of a group into the topic and the group's own name. It returns
// false if q is not the name of a group.
func (q QueueRef) Group() (topic QueueRef, group string, ok bool) {
	name, group, ok := strings.Cut(q.Name, "@")
	if !ok {
		return QueueRef{}, "", false
	}
	return QueueRef{q.Namespace, name}, group, true
}

// IsGroup reports whether q names a group of a topic.
func (q QueueRef) IsGroup() bool { return strings.IndexByte(q.Name, '@') >= 0 }

// ValidateTopic returns [ErrInvalid] for a name that no topic can have.
func (q QueueRef) ValidateTopic() error {
	var f BadFields
	checkNamespace(&f, q.Namespace)
	checkName(&f, "topic", q.Name, "-")
	return f.Err()
}

// ValidateGroup returns [ErrInvalid] for a name that no group can have.
func (q QueueRef) ValidateGroup() error {
	var f BadFields
	checkNamespace(&f, q.Namespace)
	checkGroup(&f, "group", q.Name)
	return f.Err()
}

func checkGroup(f *BadFields, field, name string) {
	topic, group, _ := strings.Cut(name, "@")
	if topic == "" || group == "" || strings.IndexByte(group, '@') >= 0 {
		f.Add(field, "is %s, must be TOPIC@GROUP, with one @ and a name on each side", Quoted(name))
		return
	}
	checkName(f, field, topic, "-")
	checkName(f, field, group, "-")
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

// DefaultGroupConfig returns the configuration of a group that was never configured.
func DefaultGroupConfig() QueueConfig {
	c := DefaultQueueConfig()
	c.Delivery = ""
	c.Group = GroupConfig{Order: OrderNone, MaxHeld: DefaultMaxHeld, Filter: NoFilter, Idle: None, Target: NoTarget}
	return c
}

func (g GroupConfig) with(patch GroupConfig) GroupConfig {
	set(&g.Order, patch.Order)
	set(&g.MaxHeld, patch.MaxHeld)
	set(&g.Filter, patch.Filter)
	set(&g.Idle, patch.Idle)
	set(&g.Target, patch.Target)
	return g
}

func (g GroupConfig) check(f *BadFields) {
	switch g.Order {
	case "", OrderNone, OrderKeys:
	default:
		f.Add("order", "is %s, must be none or key", Quoted(string(g.Order)))
	}
	if g.MaxHeld < 0 || g.MaxHeld > MaxJobsBound {
		f.Add("max_held", "is %d, must be between 1 and %d", g.MaxHeld, int64(MaxJobsBound))
	}
	f.Take(g.Filter.Validate())
	if g.Idle != 0 && g.Idle != None && g.Idle < MinIdle {
		f.Add("idle", "is %s, must be at least %s, or none", FormatDuration(g.Idle), FormatDuration(MinIdle))
	}
	if g.Target != "" && g.Target != NoTarget {
		checkName(f, "target", g.Target, "-")
	}
}

// CheckTarget returns [ErrConflict] if a Reserve that names this target may not take
// messages of the group.
func (g GroupConfig) CheckTarget(group QueueRef, target string) error {
	own := g.Target
	if own == NoTarget {
		own = ""
	}
	switch {
	case own == target:
		return nil
	case own == "":
		return Errorf(CodeConflict, "group %s has no target, so nothing is pushed into %s; set the target", group, Quoted(target))
	}
	return Errorf(CodeConflict, "group %s has the target %s: the servers push its messages into that queue; "+
		"work the queue, or set the target to none", group, Quoted(own))
}

// ValidateFor returns [ErrInvalid] with every bad field of a patch for a queue or a
// group: a queue has no Group, and a group no shards, TTL, Retain and MaxJobs of its own.
func (c QueueConfig) ValidateFor(q QueueRef) error {
	type set struct {
		field string
		is    bool
	}
	var f BadFields
	f.Take(c.Validate())
	if !q.IsGroup() {
		g := c.Group
		for _, x := range []set{
			{"order", g.Order != ""}, {"max_held", g.MaxHeld != 0}, {"filter", g.Filter != ""}, {"idle", g.Idle != 0}, {"target", g.Target != ""},
		} {
			if x.is {
				f.Add(x.field, "is set, but %s is a queue, which has none; give it to a group TOPIC@GROUP, or leave it out", Quoted(q.Name))
			}
		}
		return f.Err()
	}
	c.Group.check(&f)
	for _, x := range []set{
		{"delivery", c.Delivery != ""}, {"push_url", c.Push.URL != ""}, {"on_done", c.Push.OnDone != ""}, {"on_dead", c.Push.OnDead != ""},
		{"shards", c.Shards != 0}, {"defaults.ttl", c.Defaults.TTL != 0}, {"defaults.retain", c.Defaults.Retain != 0}, {"max_jobs", c.MaxJobs != 0},
	} {
		if x.is {
			f.Add(x.field, "is set, but %s is a group, which has none; leave it out", Quoted(q.Name))
		}
	}
	return f.Err()
}

// GroupStats is what only a group has of [Stats]. At rest, Entered + Replayed = Lag +
// ready + delayed + blocked + leased + dead + acked + Filtered + Skipped + Missed +
// deleted + dropped.
type GroupStats struct {
	// Lag is the number of messages beyond the cursor, those included that the filter
	// will pass over.
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

// DefaultTopicConfig is the configuration of a topic that was never configured.
func DefaultTopicConfig() TopicConfig {
	return TopicConfig{Shards: 1, Dedupe: None, Keep: None, MaxAge: None, MaxCount: None, MaxBytes: None, Overflow: OverflowRefuse}
}

// With returns c with each field of the patch that is not zero.
func (c TopicConfig) With(patch TopicConfig) TopicConfig {
	set(&c.Shards, patch.Shards)
	set(&c.Dedupe, patch.Dedupe)
	set(&c.Keep, patch.Keep)
	set(&c.MaxAge, patch.MaxAge)
	set(&c.MaxCount, patch.MaxCount)
	set(&c.MaxBytes, patch.MaxBytes)
	set(&c.Overflow, patch.Overflow)
	return c
}

// Validate returns [ErrInvalid] with every bad field of a patch.
func (c TopicConfig) Validate() error {
	var f BadFields
	if n := c.Shards; n != 0 && (n < 1 || n > MaxShards || n&(n-1) != 0) {
		f.Add("shards", "is %d, must be a power of two between 1 and %d", n, MaxShards)
	}
	if d := c.Dedupe; d != 0 && d != None && (d < MinDedupe || d > MaxDedupe) {
		f.Add("dedupe", "is %s, must be between %s and %s, or none", FormatDuration(d), FormatDuration(MinDedupe), FormatDuration(MaxDedupe))
	}
	for _, x := range []struct {
		field string
		d     time.Duration
	}{{"keep", c.Keep}, {"max_age", c.MaxAge}} {
		if x.d != 0 && x.d != None && x.d < time.Millisecond {
			f.Add(x.field, "is %s, must be at least 1ms, or none", FormatDuration(x.d))
		}
	}
	checkBound(&f, "max_count", c.MaxCount)
	if c.MaxBytes < None || c.MaxBytes > math.MaxInt64/2 {
		f.Add("max_bytes", "is %d, must be between 1 and %d, or none", c.MaxBytes, int64(math.MaxInt64/2))
	}
	switch c.Overflow {
	case "", OverflowRefuse, OverflowDrop:
	default:
		f.Add("overflow", "is %s, must be refuse or drop", Quoted(string(c.Overflow)))
	}
	return f.Err()
}

// CheckParts returns [ErrInvalid] with every bound that is smaller than the number of
// shards, each of which enforces a part of the bound.
func (c TopicConfig) CheckParts() error {
	var f BadFields
	if c.MaxCount > 0 && c.MaxCount < c.Shards {
		f.Add("max_count", "is %d, must be at least %d: each of the topic's shards enforces its part", c.MaxCount, c.Shards)
	}
	if c.MaxBytes > 0 && c.MaxBytes < int64(c.Shards) {
		f.Add("max_bytes", "is %d, must be at least %d: each of the topic's shards enforces its part", c.MaxBytes, c.Shards)
	}
	return f.Err()
}

// Validate checks everything about a message that needs neither a clock nor a topic. Its
// error names every bad field. maxBody is the engine's bound on a body in bytes; 0 is
// [DefaultMaxBody].
func (m *Message) Validate(maxBody int) error {
	var f BadFields
	f.Take(QueueRef{m.Namespace, m.Topic}.ValidateTopic())
	if m.ID != "" {
		checkID(&f, "id", m.ID)
	}
	if m.Key != "" {
		checkKey(&f, "key", m.Key)
	}
	checkBody(&f, m.Body, maxBody)
	checkHeaders(&f, m.Headers)
	var delay *time.Duration
	if m.Delay != 0 {
		delay = &m.Delay
	}
	checkSchedule(&f, delay, m.Due)
	return f.Err()
}

// Validate returns [ErrInvalid] with every bad parameter, and fills in the defaults.
func (p *ReadParams) Validate(topic QueueRef) error {
	var f BadFields
	f.Take(topic.ValidateTopic())
	page := PageParams{Limit: p.Limit}
	page.check(&f)
	p.Limit = page.Limit
	if p.Wait < 0 || p.Wait > MaxWait {
		f.Add("wait", "is %s, must be between 0s and %s", FormatDuration(p.Wait), FormatDuration(MaxWait))
	}
	if _, err := p.From.PartsIn(topic, true); err != nil {
		f.Take(err)
	}
	return f.Err()
}

package contract

import (
	"math"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// ValidateTopic returns [duly.ErrInvalid] for a name that no topic can have.
func ValidateTopic(q duly.QueueRef) error {
	var f BadFields
	checkNamespace(&f, q.Namespace)
	checkName(&f, "topic", q.Name, "-")
	return f.Err()
}

// ValidateGroup returns [duly.ErrInvalid] for a name that no group can have.
func ValidateGroup(q duly.QueueRef) error {
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

// DefaultGroupConfig returns the configuration of a group that was never configured.
func DefaultGroupConfig() duly.QueueConfig {
	c := DefaultQueueConfig()
	c.Delivery = ""
	c.Group = duly.GroupConfig{Order: duly.OrderNone, MaxHeld: duly.DefaultMaxHeld, Filter: duly.NoFilter, Idle: duly.None, Target: duly.NoTarget}
	return c
}

func patchGroup(g duly.GroupConfig, patch duly.GroupConfig) duly.GroupConfig {
	set(&g.Order, patch.Order)
	set(&g.MaxHeld, patch.MaxHeld)
	set(&g.Filter, patch.Filter)
	set(&g.Idle, patch.Idle)
	set(&g.Target, patch.Target)
	return g
}

func checkGroupConfig(g duly.GroupConfig, f *BadFields) {
	switch g.Order {
	case "", duly.OrderNone, duly.OrderKeys:
	default:
		f.Add("order", "is %s, must be none or key", Quoted(string(g.Order)))
	}
	if g.MaxHeld < 0 || g.MaxHeld > duly.MaxJobsBound {
		f.Add("max_held", "is %d, must be between 1 and %d", g.MaxHeld, int64(duly.MaxJobsBound))
	}
	f.Take(ValidateFilter(g.Filter))
	if g.Idle != 0 && g.Idle != duly.None && g.Idle < duly.MinIdle {
		f.Add("idle", "is %s, must be at least %s, or none", duly.FormatDuration(g.Idle), duly.FormatDuration(duly.MinIdle))
	}
	if g.Target != "" && g.Target != duly.NoTarget {
		checkName(f, "target", g.Target, "-")
	}
}

// CheckGroupTarget returns [duly.ErrConflict] if a Reserve that names this target may not take
// messages of the group.
func CheckGroupTarget(g duly.GroupConfig, group duly.QueueRef, target string) error {
	own := g.Target
	if own == duly.NoTarget {
		own = ""
	}
	switch {
	case own == target:
		return nil
	case own == "":
		return Errorf(duly.CodeConflict, "group %s has no target, so nothing is pushed into %s; set the target", group, Quoted(target))
	}
	return Errorf(duly.CodeConflict, "group %s has the target %s: the servers push its messages into that queue; "+
		"work the queue, or set the target to none", group, Quoted(own))
}

// ValidateConfigFor returns [duly.ErrInvalid] with every bad field of a patch for a queue or a
// group: a queue has no Group, and a group no shards, TTL, Retain and MaxJobs of its own.
func ValidateConfigFor(c duly.QueueConfig, q duly.QueueRef) error {
	type set struct {
		field string
		is    bool
	}
	var f BadFields
	f.Take(ValidateConfig(c))
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
	checkGroupConfig(c.Group, &f)
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

// DefaultTopicConfig is the configuration of a topic that was never configured.
func DefaultTopicConfig() duly.TopicConfig {
	return duly.TopicConfig{Shards: 1, Dedupe: duly.None, Keep: duly.None, MaxAge: duly.None, MaxCount: duly.None, MaxBytes: duly.None, Overflow: duly.OverflowRefuse}
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
		f.Add("dedupe", "is %s, must be between %s and %s, or none", duly.FormatDuration(d), duly.FormatDuration(duly.MinDedupe), duly.FormatDuration(duly.MaxDedupe))
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

// CheckTopicConfig returns [duly.ErrInvalid] with every bound that is smaller than the number of
// shards, each of which enforces a part of the bound.
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

// ValidateMessage checks everything about a message that needs neither a clock nor a topic. Its
// error names every bad field. maxBody is the engine's bound on a body in bytes; 0 is
// [duly.DefaultMaxBody].
func ValidateMessage(m *duly.Message, maxBody int) error {
	var f BadFields
	f.Take(ValidateTopic(duly.QueueRef{Namespace: m.Namespace, Name: m.Topic}))
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

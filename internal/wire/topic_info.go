package wire

import (
	"github.com/dulymq/duly"
)

// Topic is a topic with its name.
type Topic struct {
	Name string
	duly.TopicInfo
}

// AppendTopic writes a topic.
func AppendTopic(dst []byte, t Topic) []byte {
	return appendNamed(dst, t.Name,
		func(dst []byte) []byte { return AppendTopicConfig(dst, t.Config) },
		func(dst []byte) []byte { return appendTopicStats(dst, &t.Stats) })
}

// ReadTopic reads a topic.
func ReadTopic(text string) (t Topic, err error) {
	t.Name, err = readNamed(text,
		func(r *reader) { r.topicConfig(&t.Config) },
		func(r *reader) { r.topicStats(&t.Stats) })
	return t, err
}

// AppendTopicConfig writes the configuration of a topic, or a patch of it. It leaves out
// zero fields.
func AppendTopicConfig(dst []byte, c duly.TopicConfig) []byte {
	o := begin(dst)
	if c.Shards != 0 {
		o.int("shards", int64(c.Shards))
	}
	if c.Dedupe != 0 {
		o.span("dedupe", c.Dedupe)
	}
	if c.Keep != 0 {
		o.span("keep", c.Keep)
	}
	if c.MaxAge != 0 {
		o.span("max_age", c.MaxAge)
	}
	if c.MaxCount != 0 {
		o.count("max_count", c.MaxCount)
	}
	if c.MaxBytes != 0 {
		o.count("max_bytes", int(c.MaxBytes))
	}

	o.text("overflow", string(c.Overflow))
	return o.end()
}

// ReadTopicConfig reads a patch of a topic's configuration.
func ReadTopicConfig(text string, mode Mode) (c duly.TopicConfig, err error) {
	err = parse(text, mode, func(r *reader) { r.topicConfig(&c) })
	return c, err
}

func (r *reader) topicConfig(c *duly.TopicConfig) {
	for key := range r.object {
		switch key {
		case "shards":
			c.Shards = r.count(key, false)
		case "dedupe":
			c.Dedupe = r.span(key, true)
		case "keep":
			c.Keep = r.span(key, true)
		case "max_age":
			c.MaxAge = r.span(key, true)
		case "max_count":
			c.MaxCount = r.count(key, true)
		case "max_bytes":
			c.MaxBytes = int64(r.count(key, true))
		case "overflow":
			c.Overflow = duly.Overflow(r.name(key))
		default:
			r.unknown(key)
		}
	}
}

func appendTopicStats(dst []byte, s *duly.TopicStats) []byte {
	o := begin(dst)
	o.int("messages", s.Messages)
	o.int("bytes", s.Bytes)
	o.position("first", s.First)
	o.position("last", s.Last)
	o.int("delayed", s.Delayed)
	o.time("next_due", s.NextDue)
	o.key("counters")
	counters := begin(o.dst)
	for _, c := range topicCountersOf(s) {
		counters.int(c.name, *c.value)
	}

	o.dst = counters.end()
	list(&o, "floors", s.Floors, func(dst []byte, f *duly.Floor) []byte {
		o := begin(dst)
		o.int("shard", int64(f.Shard))
		o.position("position", f.Position)
		o.string("group", f.Group)
		o.time("since", f.Since)
		o.int("alone", f.Alone)
		return o.end()
	})
	return o.end()
}

func topicCountersOf(s *duly.TopicStats) [7]counter {
	return [7]counter{
		{"published", &s.Published}, {"exists", &s.Exists}, {"entered", &s.Entered}, {"canceled", &s.Canceled},
		{"trimmed", &s.Trimmed}, {"dropped", &s.Dropped}, {"forgotten", &s.Forgotten},
	}
}

func (r *reader) topicStats(s *duly.TopicStats) {
	counters := topicCountersOf(s)
	for key := range r.object {
		switch key {
		case "messages":
			s.Messages = r.int(key)
		case "bytes":
			s.Bytes = r.int(key)
		case "first":
			s.First = r.position(key)
		case "last":
			s.Last = r.position(key)
		case "delayed":
			s.Delayed = r.int(key)
		case "next_due":
			s.NextDue = r.time(key)
		case "counters":
			for name := range r.object {
				r.counter(counters[:], name)
			}

		case "floors":
			for range r.array {
				s.Floors = append(s.Floors, r.floor())
			}

		default:
			r.unknown(key)
		}
	}
}

func (r *reader) floor() (f duly.Floor) {
	for key := range r.object {
		switch key {
		case "shard":
			f.Shard = int(r.int(key))
		case "position":
			f.Position = r.position(key)
		case "group":
			f.Group = r.string(key)
		case "since":
			f.Since = r.time(key)
		case "alone":
			f.Alone = r.int(key)
		default:
			r.unknown(key)
		}
	}
	return f
}

// group writes the part of a configuration that only a group has.
func (o *object) group(g duly.GroupConfig) {
	o.text("order", string(g.Order))
	if g.MaxHeld != 0 {
		o.int("max_held", int64(g.MaxHeld))
	}
	o.text("filter", string(g.Filter))
	if g.Idle != 0 {
		o.span("idle", g.Idle)
	}
	o.text("target", g.Target)
}

// groupField reads one field of the configuration that only a group has. known reports
// whether key is one.
func (r *reader) groupField(g *duly.GroupConfig, key string) (known bool) {
	switch key {
	case "order":
		g.Order = duly.GroupOrder(r.name(key))
	case "max_held":
		g.MaxHeld = r.count(key, false)
	case "filter":
		g.Filter = duly.Filter(r.name(key))
	case "idle":
		g.Idle = r.span(key, true)
	case "target":
		g.Target = r.name(key)
	default:
		return false
	}
	return true
}

func appendGroupStats(dst []byte, g *duly.GroupStats) []byte {
	o := begin(dst)
	for _, c := range groupCountersOf(g) {
		o.int(c.name, *c.value)
	}
	o.duration("oldest_needed", g.OldestNeeded)
	o.bool("parked", g.Parked)
	o.bool("at_max_held", g.AtMaxHeld)
	o.text("key", g.Key)
	list(&o, "consumers", g.Consumers, func(dst []byte, c *duly.Consumer) []byte {
		o := begin(dst)
		o.string("name", c.Name)
		o.time("last_call", c.LastCall)
		return o.end()
	})
	return o.end()
}

func groupCountersOf(g *duly.GroupStats) [6]counter {
	return [6]counter{
		{"lag", &g.Lag}, {"entered", &g.Entered}, {"filtered", &g.Filtered},
		{"skipped", &g.Skipped}, {"replayed", &g.Replayed}, {"missed", &g.Missed},
	}
}

func (r *reader) groupStats() *duly.GroupStats {
	if r.null() {
		return nil
	}

	g := &duly.GroupStats{}
	counters := groupCountersOf(g)
	for key := range r.object {
		switch key {
		case "oldest_needed":
			g.OldestNeeded, _ = r.duration(key)
		case "parked":
			g.Parked = r.boolean(key)
		case "at_max_held":
			g.AtMaxHeld = r.boolean(key)
		case "key":
			g.Key = r.string(key)
		case "consumers":
			for range r.array {
				g.Consumers = append(g.Consumers, r.consumer())
			}
		default:
			r.counter(counters[:], key)
		}
	}
	return g
}

func (r *reader) consumer() (c duly.Consumer) {
	for key := range r.object {
		switch key {
		case "name":
			c.Name = r.string(key)
		case "last_call":
			c.LastCall = r.time(key)
		default:
			r.unknown(key)
		}
	}
	return c
}

package wire

import "github.com/dulymq/duly"

// Topic is a topic with its name.
type Topic struct {
	Name string
	duly.TopicInfo
}

func (f *fields) topic(t *Topic) {
	f.answer("Topic")
	f.text("name", &t.Name, required, "", "The topic's name.")
	f.nested("config", false, required, "The configuration with every field filled in.", func() {
		f.answer("WholeTopicConfig")
		f.topicSettings(&t.Config)
	})
	f.nested("stats", false, required, "The topic's numbers.", func() { f.topicStats(&t.Stats) })
}

func (f *fields) topicConfig(c *duly.TopicConfig) {
	f.request("TopicConfig")
	f.topicSettings(c)
}

func (f *fields) topicSettings(c *duly.TopicConfig) {
	f.shards(&c.Shards, "topic")
	f.periodOrNone("dedupe", &c.Dedupe, given,
		"The window in which an ID is accepted once. Bound: 1s to 24h. Default: none.")
	f.periodOrNone("keep", &c.Keep, given, "How long a message stays although no group needs it. Default: none.")
	f.periodOrNone("max_age", &c.MaxAge, given, "Drops messages that are older, needed or not. Default: none.")
	countOrNone(f, "max_count", &c.MaxCount, given,
		"The maximum number of messages, including delayed ones. Default: none.")
	countOrNone(f, "max_bytes", &c.MaxBytes, given,
		"The maximum number of bytes, by the engine's estimate. Default: none.")
	f.name("overflow", (*string)(&c.Overflow), optional, `enum:"refuse,drop"`, "At max_count and max_bytes: "+
		"refuse a publish while a group needs the oldest message, or drop the oldest messages. Default: refuse.")
}

func (f *fields) topicStats(s *duly.TopicStats) {
	f.answer("TopicStats")
	f.integer("messages", &s.Messages, "Messages in the log.")
	f.integer("bytes", &s.Bytes, "Their bytes, by the engine's estimate.")
	f.position("first", &s.First, optional, "The smallest position in the log.")
	f.position("last", &s.Last, optional, "The largest position in the log.")
	f.integer("delayed", &s.Delayed, "Messages that have not entered the log.")
	f.time("next_due", &s.NextDue, optional, "When the first of them enters.")
	f.integers("counters", "Events since the topic was created: published, exists, entered, canceled, "+
		"trimmed, dropped, forgotten.", func() { f.topicCounters(s) })
	list(f, "floors", &s.Floors, required, "The groups that keep shards from being trimmed.", (*fields).floor)
}

func (f *fields) topicCounters(s *duly.TopicStats) {
	f.integer("published", &s.Published, "")
	f.integer("exists", &s.Exists, "")
	f.integer("entered", &s.Entered, "")
	f.integer("canceled", &s.Canceled, "")
	f.integer("trimmed", &s.Trimmed, "")
	f.integer("dropped", &s.Dropped, "")
	f.integer("forgotten", &s.Forgotten, "")
}

func (f *fields) floor(v *duly.Floor) {
	f.answer("Floor")
	f.int("shard", &v.Shard, required, "", "The shard.")
	f.position("position", &v.Position, optional, "The first message of the shard that some group needs.")
	f.text("group", &v.Group, required, "", "The group that needs it.")
	f.time("since", &v.Since, optional, "Since when that group keeps the shard from being trimmed, if known.")
	f.integer("alone", &v.Alone, "The number of messages that only this group keeps from being trimmed.")
}

package wire

import (
	"github.com/dulymq/duly"
)

// Queue is what GET tells about a queue.
type Queue struct {
	Name   string
	Config duly.QueueConfig
	Stats  duly.Stats
}

// AppendQueue writes a queue.
func AppendQueue(dst []byte, q Queue) []byte {
	return appendNamed(dst, q.Name,
		func(dst []byte) []byte { return appendConfig(dst, q.Config, true) },
		func(dst []byte) []byte { return appendStats(dst, &q.Stats) })
}

// ReadQueue reads a queue.
func ReadQueue(text string) (q Queue, err error) {
	q.Name, err = readNamed(text,
		func(r *reader) { r.config(&q.Config) },
		func(r *reader) { r.stats(&q.Stats) })
	return q, err
}

// appendNamed writes a queue or a topic: its name, configuration and statistics.
func appendNamed(dst []byte, name string, config, stats func(dst []byte) []byte) []byte {
	o := begin(dst)
	o.string("name", name)
	o.key("config")
	o.dst = config(o.dst)
	o.key("stats")
	o.dst = stats(o.dst)
	return o.end()
}

// readNamed reads what appendNamed writes.
func readNamed(text string, config, stats func(r *reader)) (name string, err error) {
	err = parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			switch key {
			case "name":
				name = r.string(key)
			case "config":
				config(r)
			case "stats":
				stats(r)
			default:
				r.unknown(key)
			}
		}
	})
	return name, err
}

// AppendConfig writes a patch of a queue's configuration: what is zero stays
// as it is and is left out, and so is Paused.
func AppendConfig(dst []byte, c duly.QueueConfig) []byte { return appendConfig(dst, c, false) }

func appendConfig(dst []byte, c duly.QueueConfig, whole bool) []byte {
	o := begin(dst)
	if c.Shards != 0 {
		o.int("shards", int64(c.Shards))
	}
	if whole {
		o.bool("paused", c.Paused)
	}

	if d := c.Defaults; d != (duly.Defaults{}) {
		o.key("defaults")
		inner := begin(o.dst)
		inner.rules(nil, d.Tries, d.MaxStalls, d.Backoff, d.TTL, d.Lease, d.Retain)
		o.dst = inner.end()
	}

	if c.DeadAge != 0 {
		o.span("dead_age", c.DeadAge)
	}
	if c.DeadCount != 0 {
		o.count("dead_count", c.DeadCount)
	}
	if c.MaxJobs != 0 {
		o.count("max_jobs", c.MaxJobs)
	}
	if c.MaxLeased != 0 {
		o.count("max_leased", c.MaxLeased)
	}
	if c.Rate.PerSecond != 0 {
		o.rate("rate", c.Rate.PerSecond)
	}
	if c.Rate.Burst != 0 {
		o.int("burst", int64(c.Rate.Burst))
	}
	o.group(c.Group)
	o.text("delivery", string(c.Delivery))
	o.text("push_url", c.Push.URL)
	o.text("on_done", c.Push.OnDone)
	o.text("on_dead", c.Push.OnDead)

	return o.end()
}

// ReadConfig reads a patch of a queue's configuration.
func ReadConfig(text string, mode Mode) (c duly.QueueConfig, err error) {
	err = parse(text, mode, func(r *reader) { r.config(&c) })
	return c, err
}

func (r *reader) config(c *duly.QueueConfig) {
	for key := range r.object {
		switch key {
		case "shards":
			c.Shards = r.count(key, false)
		case "paused":
			if r.mode == Strict {
				r.fail("can't set paused here; it is changed by POST to the queue's /pause and /resume")
				return
			}
			c.Paused = r.boolean(key)
		case "defaults":
			r.defaults(&c.Defaults)
		case "dead_age":
			c.DeadAge = r.span(key, true)
		case "dead_count":
			c.DeadCount = r.count(key, true)
		case "max_jobs":
			c.MaxJobs = r.count(key, true)
		case "max_leased":
			c.MaxLeased = r.count(key, true)
		case "rate":
			c.Rate.PerSecond = r.rate(key)
		case "burst":
			c.Rate.Burst = r.count(key, false)
		case "delivery":
			c.Delivery = duly.DeliveryMode(r.name(key))
		case "push_url":
			c.Push.URL = r.name(key)
		case "on_done":
			c.Push.OnDone = r.name(key)
		case "on_dead":
			c.Push.OnDead = r.name(key)
		default:
			if !r.groupField(&c.Group, key) {
				r.unknown(key)
			}
		}
	}
}

func (r *reader) defaults(d *duly.Defaults) {
	for key := range r.object {
		if !r.ruleField("defaults.", key, &d.Tries, &d.MaxStalls, &d.Backoff, &d.TTL, &d.Lease, &d.Retain) {
			r.unknown(key)
		}
	}
}

func appendStats(dst []byte, s *duly.Stats) []byte {
	o := begin(dst)
	o.key("sizes")
	o.dst = appendSizes(o.dst, &s.Sizes)
	o.key("counters")
	counters := begin(o.dst)
	for _, c := range countersOf(&s.Counters) {
		counters.int(c.name, *c.value)
	}
	o.dst = counters.end()
	o.duration("oldest_ready", s.OldestReady)
	o.time("next_due", s.NextDue)
	o.text("delivery", string(s.Delivery))
	if s.Group != nil {
		o.key("group")
		o.dst = appendGroupStats(o.dst, s.Group)
	}
	return o.end()
}

func appendSizes(dst []byte, s *duly.Sizes) []byte {
	o := begin(dst)
	for _, state := range duly.States {
		o.int(state.String(), *s.Of(state))
	}
	return o.end()
}

func (r *reader) sizes(s *duly.Sizes) {
	for name := range r.object {
		if state, err := duly.ParseState(name); err == nil {
			*s.Of(state) = r.int(name)
		} else {
			r.unknown(name)
		}
	}
}

type counter struct {
	name  string
	value *int64
}

func countersOf(c *duly.Counters) [12]counter {
	return [12]counter{
		{"pushed", &c.Pushed}, {"merged", &c.Merged}, {"delivered", &c.Delivered}, {"acked", &c.Acked},
		{"failed", &c.Failed}, {"stalled", &c.Stalled}, {"released", &c.Released}, {"dead", &c.Dead},
		{"requeued", &c.Requeued}, {"expired", &c.Expired}, {"deleted", &c.Deleted}, {"dropped", &c.Dropped},
	}
}

func (r *reader) stats(s *duly.Stats) {
	for key := range r.object {
		switch key {
		case "sizes":
			r.sizes(&s.Sizes)
		case "counters":
			counters := countersOf(&s.Counters)
			for name := range r.object {
				r.counter(counters[:], name)
			}
		case "oldest_ready":
			s.OldestReady, _ = r.duration(key)
		case "next_due":
			s.NextDue = r.time(key)
		case "delivery":
			s.Delivery = duly.DeliveryMode(r.name(key))
		case "group":
			s.Group = r.groupStats()
		default:
			r.unknown(key)
		}
	}
}

// counter reads the counter with that name.
func (r *reader) counter(counters []counter, name string) {
	for _, known := range counters {
		if known.name == name {
			*known.value = r.int(name)
			return
		}
	}
	r.unknown(name)
}

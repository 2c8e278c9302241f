package wire

import "github.com/dulymq/duly"

const shardsRange = `minimum:"1" maximum:"256"`

// Queue is a queue with its configuration and its statistics.
type Queue struct {
	Name   string
	Config duly.QueueConfig
	Stats  duly.Stats
}

func (f *fields) queue(q *Queue) {
	f.answer("Queue")
	f.text("name", &q.Name, required, "", "The queue's name.")
	f.nested("config", false, required, "The configuration with every field filled in.", func() {
		f.answer("WholeConfig")
		f.wholeConfig(&q.Config)
	})
	f.nested("stats", false, required, "Sizes and counters.", func() { f.stats(&q.Stats) })
}

// config declares a change of a queue's configuration. Absent fields do not change.
func (f *fields) config(c *duly.QueueConfig) {
	f.request("Config")
	if f.task == reading && f.at("paused") {
		// The generic error for an unknown field would not name the right call.
		f.r.fail("can't set paused here; it is changed by POST to the queue's /pause and /resume")

		// The value is not read, so reading the object must end here.
		f.more = false
	}
	f.shards(&c.Shards, "queue")
	f.settings(c)
	f.reopen(&c.Reopen)
}

// reopen declares the field closed of a change. Its only value is none, because a release with slow
// closes a queue.
func (f *fields) reopen(v *bool) {
	const open = "none"
	text := ""
	if *v {
		text = open
	}
	f.name("closed", &text, optional, `enum:"none"`, "none opens a queue that a release with slow has closed.")
	if f.task != reading || text == "" {
		return
	}
	if *v = text == open; !*v {
		f.r.fail("closed can only be none; a release with slow closes a queue")
	}
}

// wholeConfig declares the configuration in an answer.
func (f *fields) wholeConfig(c *duly.QueueConfig) {
	f.shards(&c.Shards, "queue")
	f.bool("paused", &c.Paused, required, "Whether the queue is paused. Only pause and resume change it.")
	f.closing(&c.Closing)
	f.settings(c)
}

// closing declares the closing of a queue by a release with slow.
func (f *fields) closing(c *duly.Closing) {
	f.time("closed_until", &c.Until, optional, "When the queue delivers jobs again. Absent if it is open.")
	f.text("closed_reason", &c.Reason, optional, "", "The error of the release that closed the queue.")
}

func (f *fields) shards(shards *int, of string) {
	f.count("shards", shards, optional, shardsRange,
		"A power of two. It cannot change after the "+of+" was created. Default: 1.")
}

func (f *fields) settings(c *duly.QueueConfig) {
	f.nested("defaults", c.Defaults == duly.Defaults{}, optional,
		"Values for fields that a pushed job leaves out.", func() { f.defaults(&c.Defaults) })
	f.periodOrNone("dead_age", &c.DeadAge, given, "How long dead jobs are kept. Default: 90d.")
	countOrNone(f, "dead_count", &c.DeadCount, given, "How many dead jobs are kept. Default: 100000.")
	countOrNone(f, "max_jobs", &c.MaxJobs, given,
		"The most delayed, ready, blocked and leased jobs together. Default: none.")
	countOrNone(f, "max_leased", &c.MaxLeased, given,
		"The most jobs leased at once, over all workers. Default: none.")
	f.rate(&c.Rate.PerSecond, given, "Deliveries per second, over all workers. Default: none.")
	f.count("burst", &c.Rate.Burst, optional, burstRange,
		"Deliveries that may come at once after a quiet time. Default: the rate, rounded up.")
	f.adapt(&c.Adapt)
	f.group(&c.Group)

	f.name("delivery", (*string)(&c.Delivery), optional, `enum:"pull,push"`, "Who takes the jobs: "+
		"pull by reserve, push by the servers, which call a URL. "+
		"It changes only while the queue is empty. Default: pull.")
	f.name("push_url", &c.Push.URL, optional, urlBounds,
		"For a push queue: the URL or target:NAME for jobs without a callback, or none. Default: none.")
	f.name("on_done", &c.Push.OnDone, optional, urlBounds, "For a push queue: a URL or target:NAME "+
		"that gets a notice when a job is done, or none. Default: none.")
	f.name("on_dead", &c.Push.OnDead, optional, urlBounds, "For a push queue: a URL or target:NAME "+
		"that gets a notice when a job is dead, or none. Default: none.")
}

// adapt declares an adaptive limit, or none. A writer omits an empty one, which changes nothing.
func (f *fields) adapt(a *duly.Adapt) {
	form := func() {
		f.request("Adapt")
		f.number("floor", &a.Floor, required, `minimum:"0.001" maximum:"1"`,
			"The lowest share of the limits that failures lead to.")
	}
	const name, doc = "adapt", "Lowers max_leased, rate and burst while deliveries fail. Default: none."
	switch f.task {
	case writing:
		if a.Floor == duly.None {
			f.none(name)
			return
		}
		f.nested(name, a.Floor == 0, optional, doc, form)
	case reading:
		if !f.at(name) {
			return
		}
		switch {
		case f.r.null():
		case f.r.none():
			a.Floor = duly.None
		default:
			f.readAdapt(a, form)
		}
		f.next()
	default:
		f.describe(name, NestedOrNone, optional, "", doc).Object = f.inner(form)
	}
}

// readAdapt reads the object of an adaptive limit. A floor of 0 or -1 would mean no change or none.
func (f *fields) readAdapt(a *duly.Adapt, form func()) {
	outer := f.r.in
	f.r.in = "adapt"
	if f.read(form); a.Floor <= 0 {
		f.r.bad("floor", "is %g, must be between 0.001 and 1", a.Floor)
		a.Floor = 0
	}
	f.r.in = outer
}

const burstRange = `minimum:"1" maximum:"1000000"`

func (f *fields) defaults(d *duly.Defaults) {
	f.request("Defaults")
	f.count("tries", &d.Tries, optional, triesRange, "Tries of a job. Default: 16.")
	countOrNone(f, "max_stalls", &d.MaxStalls, given,
		"Stalls that a job survives. Bound: 1 to 65535. Default: 8.")
	f.name("backoff", (*string)(&d.Backoff), optional, "", "The backoff policy of a job. Default: exp:1s:1h.")
	f.periodOrNone("ttl", &d.TTL, given, "The TTL of a job. Default: none.")
	f.lease("lease", &d.Lease, optional, "The lease of a delivery. Bound: 100ms to 366d. Default: 30s.")
	f.periodOrNone("retain", &d.Retain, given, "How long a finished job stays visible. Default: none.")
}

// group declares the part of a configuration that only a group has.
func (f *fields) group(g *duly.GroupConfig) {
	f.name("order", (*string)(&g.Order), optional, `enum:"none,key"`, "For a group: key handles "+
		"the messages of one key one at a time, in log order. Default: none.")
	f.count("max_held", &g.MaxHeld, optional, `minimum:"1"`, "For a group: the most ready, delayed, blocked "+
		"and leased messages together; at the bound the cursor stops. Default: 100000.")
	f.name("filter", (*string)(&g.Filter), optional, "", "For a group: conditions on headers and the key, "+
		"as type=order&@key=a, or none. Bound: 8 conditions. Default: none.")
	f.periodOrNone("idle", &g.Idle, given, "For a group: after so long without a reserve "+
		"it needs no message any more. Bound: at least 1h. Default: none.")
	f.name("target", &g.Target, optional, nameBounds, "For a group: the queue that the servers push "+
		"each message into, or none. Default: none.")
}

func (f *fields) stats(s *duly.Stats) {
	f.answer("Stats")
	// Tokens is absent without a rate, so reading begins with None. seen is 0 only before the first
	// field.
	if f.task == reading && f.seen == 0 {
		s.Tokens = duly.None
	}
	f.integers("sizes", "Jobs per state, by the clock.", func() { f.sizes(&s.Sizes) })
	f.integers("counters", "Events since the queue was created: pushed, merged, delivered, acked, failed, "+
		"stalled, released, slowed, dead, requeued, expired, deleted, dropped.", func() { f.counters(&s.Counters) })
	f.duration("oldest_ready", &s.OldestReady, required, "How long the oldest ready job has been due.")
	f.time("next_due", &s.NextDue, optional, "The earliest due time in the future.")
	f.int64("schedules", &s.Schedules, optional, "", "The number of schedules; absent if there is none.")
	f.time("next_tick", &s.NextTick, optional, "The earliest next tick of the schedules.")
	f.name("delivery", (*string)(&s.Delivery), optional, `enum:"pull,push"`, "Who takes the jobs.")
	f.closing(&s.Closing)
	f.number("factor", &s.Factor, optional, "", "The lowest share of its limits that a shard enforces. Absent without adapt.")
	f.count("probing", &s.Probing, optional, "", "The number of shards in probing. Absent if there is none.")
	f.rateTokens(&s.Tokens)
	f.time("next_token", &s.NextToken, optional, "When the rate allows the next delivery. Absent unless tokens is 0.")
	pointer(f, "group", &s.Group, "For a group: where it is in the log.", (*fields).groupStats)
}

// rateTokens declares the number of deliveries that a rate allows. It is absent without a rate.
func (f *fields) rateTokens(v *int64) {
	const name, doc = "tokens", "How many deliveries the rate allows now. Absent if there is no rate."
	if f.task != writing || *v != duly.None {
		f.int64(name, v, given, `minimum:"0"`, doc)
	}
}

func (f *fields) sizes(s *duly.Sizes) {
	// The names come from the list of states, so a new state is never missing here.
	for _, state := range duly.States {
		f.integer(state.String(), s.Of(state), "Jobs in this state.")
	}
}

func (f *fields) counters(c *duly.Counters) {
	f.integer("pushed", &c.Pushed, "")
	f.integer("merged", &c.Merged, "")
	f.integer("delivered", &c.Delivered, "")
	f.integer("acked", &c.Acked, "")
	f.integer("failed", &c.Failed, "")
	f.integer("stalled", &c.Stalled, "")
	f.integer("released", &c.Released, "")
	f.integer("slowed", &c.Slowed, "")
	f.integer("dead", &c.Dead, "")
	f.integer("requeued", &c.Requeued, "")
	f.integer("expired", &c.Expired, "")
	f.integer("deleted", &c.Deleted, "")
	f.integer("dropped", &c.Dropped, "")
}

func (f *fields) groupStats(g *duly.GroupStats) {
	f.answer("GroupStats")
	f.integer("lag", &g.Lag, "Messages beyond the cursor.")
	f.integer("entered", &g.Entered, "Messages at or after the start of the group.")
	f.integer("filtered", &g.Filtered, "Messages that did not match the filter.")
	f.integer("skipped", &g.Skipped, "Messages that a seek passed over, forward.")
	f.integer("replayed", &g.Replayed, "Messages that a seek passed over, back.")
	f.integer("missed", &g.Missed, "Messages that were deleted although the group needed them.")
	f.duration("oldest_needed", &g.OldestNeeded, required, "The age of the oldest message that the group needs.")
	f.bool("parked", &g.Parked, required, "Whether the group was idle for too long and needs no messages.")
	f.bool("at_max_held", &g.AtMaxHeld, required, "Whether max_held stops the cursor.")
	f.text("key", &g.Key, optional, "", "With order key and at max_held: the key that blocks most messages.")
	list(f, "consumers", &g.Consumers, required, "The consumers that called within the last hour.",
		(*fields).consumer)
}

func (f *fields) consumer(c *duly.Consumer) {
	f.answer("Consumer")
	f.text("name", &c.Name, required, "", "The name that the caller passed to reserve.")
	f.time("last_call", &c.LastCall, required, "When it last called, to within a minute.")
}

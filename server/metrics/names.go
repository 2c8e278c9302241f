package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
)

// Metric describes one metric for people.
type Metric struct {
	Name, Type string
	Labels     []string
	Help       string
}

// Own lists every metric that is duly's own, in the order of the documents.
func Own() []Metric {
	list := make([]Metric, len(own))
	for i, d := range own {
		list[i] = d.Metric
	}
	return list
}

// define makes a metric, and puts it on the list of all.
func define(name, kind, help string, labels ...string) *defined {
	d := &defined{Metric{"duly_" + name, kind, labels, help}, prometheus.NewDesc("duly_"+name, help, labels, nil)}
	own = append(own, d)
	return d
}

// ofQueues defines a metric that has a series per queue.
func ofQueues(name, kind, help string, labels ...string) *defined {
	return define(name, kind, help, append([]string{"namespace", "queue"}, labels...)...)
}

// ofTopics defines a metric that has a series per topic.
func ofTopics(name, kind, help string, labels ...string) *defined {
	return define(name, kind, help, append([]string{"namespace", "topic"}, labels...)...)
}

// defined is a metric that can be told.
type defined struct {
	Metric
	desc *prometheus.Desc
}

var own []*defined

// The kinds.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// What the engine tells of its queues.
var (
	queueJobs   = ofQueues("queue_jobs", gauge, "Jobs by state (delayed, ready, blocked, leased, dead, done), by the clock: one that is due is ready.", "state")
	queueOldest = ofQueues("queue_oldest_ready_seconds", gauge, "For how long the oldest ready job has been due; 0 without one.")
	queuePaused = ofQueues("queue_paused", gauge, "1 if the queue is paused, else 0. Queues without series of their own have none.")

	queueCounters = []queueCounter{
		{ofQueues("queue_pushed_total", counter, "Pushes that were answered created or merged."), ofPushed},
		{ofQueues("queue_merged_total", counter, "Jobs that were merged into a waiting one, or dropped for a newer one."), ofMerged},
		{ofQueues("queue_delivered_total", counter, "Deliveries."), ofDelivered},
		{ofQueues("queue_acked_total", counter, "Deliveries that ended with an ack."), ofAcked},
		{ofQueues("queue_failed_total", counter, "Deliveries that ended with a nack."), ofFailed},
		{ofQueues("queue_stalled_total", counter, "Leases that ran out and were taken back."), ofStalled},
		{ofQueues("queue_released_total", counter, "Deliveries that were given back without using a try."), ofReleased},
		{ofQueues("queue_dead_total", counter, "Jobs that became dead, in whatever way."), ofDead},
		{ofQueues("queue_requeued_total", counter, "Dead jobs that were made to live again."), ofRequeued},
		{ofQueues("queue_expired_total", counter, "Jobs that waited for longer than their TTL."), ofExpired},
		{ofQueues("queue_deleted_total", counter, "Jobs that were deleted or purged; done ones aside."), ofDeleted},
		{ofQueues("queue_dropped_total", counter, "Dead jobs that were dropped by a bound on their number or age."), ofDropped},
	}

	groupLag     = ofQueues("group_lag", gauge, "Messages beyond the cursor of a consumer group. queue is TOPIC@GROUP, as in the metrics of queues, which a group has besides.")
	groupOldest  = ofQueues("group_oldest_needed_seconds", gauge, "The age of the oldest message that the group needs; 0 without one.")
	groupAtBound = ofQueues("group_at_max_held", gauge, "1 if max_held stops the group's cursor, else 0.")

	groupCounters = []groupCounter{
		{ofQueues("group_entered_total", counter, "Messages at or after the start of the group."), ofEntered},
		{ofQueues("group_filtered_total", counter, "Messages that did not match the group's filter."), ofFiltered},
		{ofQueues("group_skipped_total", counter, "Messages that a seek passed over, forward."), ofSkipped},
		{ofQueues("group_replayed_total", counter, "Messages that a seek passed over, back."), ofReplayed},
		{ofQueues("group_missed_total", counter, "Messages that were gone although the group needed them."), ofMissed},
	}

	topicMessages = ofTopics("topic_messages", gauge, "Messages in the log of a topic.")
	topicBytes    = ofTopics("topic_bytes", gauge, "Their bytes, by the engine's estimate.")
	topicDelayed  = ofTopics("topic_delayed", gauge, "Messages that have not entered the log.")

	topicCounters = []topicCounter{
		{ofTopics("topic_published_total", counter, "Messages whose publish was answered created."), ofPublished},
		{ofTopics("topic_entered_total", counter, "Messages that entered the log."), ofEnteredLog},
		{ofTopics("topic_trimmed_total", counter, "Messages that were deleted because no group needed them."), ofTrimmed},
		{ofTopics("topic_dropped_total", counter, "Messages that a bound of the topic deleted."), ofDroppedLog},
	}

	queues         = define("queues", gauge, "Queues and groups that there are, as far as the look has come.")
	scrapeComplete = define("scrape_complete", gauge, "1 if the last look at the queues has seen all of them, 0 if it ran into an error or out of time.")
	scrapeDuration = define("scrape_duration_seconds", gauge, "How long the last look at the queues took.")
	scrapeAge      = define("scrape_age_seconds", gauge, "How old it is: a look is used again for a second, and for ten times as long as it took.")
)

// What this process has done.
var (
	jobsPushed     = ofQueues("jobs_pushed_total", counter, "Jobs that this server has pushed, by outcome: created, merged or exists.", "outcome")
	published      = ofTopics("messages_published_total", counter, "Messages that this server has published, by outcome: created or exists.", "outcome")
	publishRefused = define("messages_refused_total", counter, "Messages that this server had to refuse one by one, by error code.", "code")
	jobsDelivered  = ofQueues("jobs_delivered_total", counter, "Deliveries that this server has fetched from the engine.")
	jobsSettled    = ofQueues("jobs_settled_total", counter, "Deliveries that this server has settled, as ack, nack, release or bury.", "as")
	jobsRefused    = define("jobs_refused_total", counter, "Jobs of pushes that this server had to refuse one by one, by error code.", "code")
	settlesRefused = define("settles_refused_total", counter, "Settles that were refused one by one, by error code: lease_lost is one that came too late.", "code")
	jobLateness    = ofQueues("delivery_lateness_seconds", histogram, "The moment of a delivery minus the moment that the job was due, on the engine's clock.")
	longPolls      = define("long_polls", gauge, "Requests that wait now, for a job or for reports of removed jobs.")
	httpRequests   = define("http_requests_total", counter, "Requests by route (a pattern, never a path), method and class of status (2xx to 5xx; a caller that hung up is 4xx).", "method", "route", "status")
	httpDuration   = define("http_request_duration_seconds", histogram, "How long requests took, with the time that long polls wait.", "method", "route")
	httpPanics     = define("http_panics_total", counter, "Handlers that panicked; each was answered 500, and the process lives.")
	tokensRefused  = define("tokens_refused_total", counter, "Requests that were not let in, by error code: unauthorized, forbidden, or limited for an address that has failed too often.", "code")
	callsLimited   = define("calls_limited_total", counter, "Calls that were over the limit of their token.")
	engineCalls    = define("engine_call_duration_seconds", histogram, "Round trips of the engine to its store. engine is redis, with the name of the script or command, or sqlite, with transaction (all of it), commit (its sync alone) or read.", "engine", "call")
	buildInfo      = define("build_info", gauge, "1, with the version of duly and of Go.", "version", "goversion")
)

// otherName stands for the queues that have no series of their own. It is the
// name of no queue.
const otherName = "_other"

// queueCounter is one of an engine's counters.
type queueCounter struct {
	*defined
	of func(*duly.Counters) *int64
}

// groupCounter is one of a group's counters, and topicCounter one of a topic's.
type (
	groupCounter struct {
		*defined
		of func(*duly.GroupStats) int64
	}
	topicCounter struct {
		*defined
		of func(*duly.TopicStats) int64
	}
)

func ofEntered(g *duly.GroupStats) int64  { return g.Entered }
func ofFiltered(g *duly.GroupStats) int64 { return g.Filtered }
func ofSkipped(g *duly.GroupStats) int64  { return g.Skipped }
func ofReplayed(g *duly.GroupStats) int64 { return g.Replayed }
func ofMissed(g *duly.GroupStats) int64   { return g.Missed }

func ofPublished(t *duly.TopicStats) int64  { return t.Published }
func ofEnteredLog(t *duly.TopicStats) int64 { return t.Entered }
func ofTrimmed(t *duly.TopicStats) int64    { return t.Trimmed }
func ofDroppedLog(t *duly.TopicStats) int64 { return t.Dropped }

func ofPushed(c *duly.Counters) *int64    { return &c.Pushed }
func ofMerged(c *duly.Counters) *int64    { return &c.Merged }
func ofDelivered(c *duly.Counters) *int64 { return &c.Delivered }
func ofAcked(c *duly.Counters) *int64     { return &c.Acked }
func ofFailed(c *duly.Counters) *int64    { return &c.Failed }
func ofStalled(c *duly.Counters) *int64   { return &c.Stalled }
func ofReleased(c *duly.Counters) *int64  { return &c.Released }
func ofDead(c *duly.Counters) *int64      { return &c.Dead }
func ofRequeued(c *duly.Counters) *int64  { return &c.Requeued }
func ofExpired(c *duly.Counters) *int64   { return &c.Expired }
func ofDeleted(c *duly.Counters) *int64   { return &c.Deleted }
func ofDropped(c *duly.Counters) *int64   { return &c.Dropped }

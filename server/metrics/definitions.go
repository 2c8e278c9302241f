package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
)

// Metric describes one metric for the documentation.
type Metric struct {
	Name, Type string
	Labels     []string
	Help       string
}

// Definitions returns every metric of duly, in the order of docs/metrics.md.
func Definitions() []Metric {
	list := make([]Metric, len(definitions))
	for i, d := range definitions {
		list[i] = d.Metric
	}
	return list
}

// define defines a metric, and adds it to definitions.
func define(name, kind, help string, labels ...string) *definition {
	d := &definition{Metric{"duly_" + name, kind, labels, help}, prometheus.NewDesc("duly_"+name, help, labels, nil)}
	definitions = append(definitions, d)
	return d
}

// defineQueue defines a metric with series per queue.
func defineQueue(name, kind, help string, labels ...string) *definition {
	return define(name, kind, help, append([]string{"namespace", "queue"}, labels...)...)
}

// defineTopic defines a metric with series per topic.
func defineTopic(name, kind, help string, labels ...string) *definition {
	return define(name, kind, help, append([]string{"namespace", "topic"}, labels...)...)
}

// definition is a metric with its description for Prometheus.
type definition struct {
	Metric
	desc *prometheus.Desc
}

var definitions []*definition

// The types of metrics.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

// The metrics of the engine's queues and topics.
var (
	queueJobs = defineQueue("queue_jobs", gauge,
		"Jobs by state: delayed, ready, blocked, leased, dead or done. A job that is due counts as ready.", "state")
	queueOldest = defineQueue("queue_oldest_ready_seconds", gauge,
		"How long the oldest ready job has been due; 0 without a ready job.")
	queuePaused = defineQueue("queue_paused", gauge,
		"1 if the queue is paused, else 0. Queues without series of their own have none.")
	queueSchedules = defineQueue("queue_schedules", gauge, "Schedules of the queue; absent without one.")
	queueOverdue   = defineQueue("queue_tick_overdue_seconds", gauge,
		"How long the earliest tick of the queue's schedules has been due; 0 if none is, absent without a schedule.")
	queueClosed = defineQueue("queue_closed_seconds", gauge,
		"How long the queue stays closed; 0 if it is open. Absent if the queue was never closed and its limits do not adapt.")
	queueFactor = defineQueue("queue_factor", gauge,
		"The lowest share of its limits that a shard of the queue enforces, from 0 to 1; absent if its limits do not adapt.")
	queueProbing = defineQueue("queue_probing", gauge,
		"Shards of the queue in probing; absent if its limits do not adapt.")
	queueTokens = defineQueue("queue_tokens", gauge,
		"Deliveries that the rate of the queue allows now; absent without a rate. Queues without series of their own have none.")

	queueCounters = []queueCounter{
		{defineQueue("queue_pushed_total", counter, "Pushes with the outcome created or merged."), ofPushed},
		{defineQueue("queue_merged_total", counter,
			"Jobs that were merged into a waiting one, or dropped for a newer one."), ofMerged},
		{defineQueue("queue_delivered_total", counter, "Deliveries."), ofDelivered},
		{defineQueue("queue_acked_total", counter, "Deliveries that ended with an ack."), ofAcked},
		{defineQueue("queue_failed_total", counter, "Deliveries that ended with a nack."), ofFailed},
		{defineQueue("queue_stalled_total", counter, "Deliveries whose lease ran out."), ofStalled},
		{defineQueue("queue_released_total", counter, "Deliveries that were released, which uses no try."), ofReleased},
		{defineQueue("queue_slowed_total", counter,
			"Deliveries that were released with slow, as an overload of the service. Each of them has saved a try."), ofSlowed},
		{defineQueue("queue_dead_total", counter, "Jobs that became dead."), ofDead},
		{defineQueue("queue_requeued_total", counter, "Dead jobs that were requeued."), ofRequeued},
		{defineQueue("queue_expired_total", counter, "Jobs that waited longer than their TTL."), ofExpired},
		{defineQueue("queue_deleted_total", counter, "Jobs that were deleted or purged, except done ones."), ofDeleted},
		{defineQueue("queue_dropped_total", counter,
			"Dead jobs that were dropped by a bound on their number or age."), ofDropped},
	}

	groupLag = defineQueue("group_lag", gauge,
		"Messages after the cursor of a consumer group. queue is TOPIC@GROUP, as in the metrics of queues, "+
			"which groups have too.")
	groupOldest = defineQueue("group_oldest_needed_seconds", gauge,
		"The age of the oldest message that the group needs; 0 without one.")
	groupAtBound = defineQueue("group_at_max_held", gauge, "1 if max_held stops the group's cursor, else 0.")

	groupCounters = []groupCounter{
		{defineQueue("group_entered_total", counter, "Messages at or after the start of the group."), ofEntered},
		{defineQueue("group_filtered_total", counter, "Messages that did not match the group's filter."), ofFiltered},
		{defineQueue("group_skipped_total", counter, "Messages that a forward seek skipped."), ofSkipped},
		{defineQueue("group_replayed_total", counter, "Messages that a backward seek replayed."), ofReplayed},
		{defineQueue("group_missed_total", counter, "Messages that were deleted although the group needed them."), ofMissed},
	}

	topicMessages = defineTopic("topic_messages", gauge, "Messages in the log of a topic.")
	topicBytes    = defineTopic("topic_bytes", gauge, "Their size in bytes, estimated by the engine.")
	topicDelayed  = defineTopic("topic_delayed", gauge, "Messages that have not entered the log yet.")

	topicCounters = []topicCounter{
		{defineTopic("topic_published_total", counter, "Publishes with the outcome created."), ofPublished},
		{defineTopic("topic_entered_total", counter, "Messages that entered the log."), ofEnteredLog},
		{defineTopic("topic_trimmed_total", counter, "Messages that were deleted because no group needed them."), ofTrimmed},
		{defineTopic("topic_dropped_total", counter, "Messages that a bound of the topic deleted."), ofDroppedLog},
	}

	queues         = define("queues", gauge, "Queues and groups that the last survey has found.")
	scrapeComplete = define("scrape_complete", gauge,
		"1 if the last survey has read all queues, 0 if it had an error or ran out of time.")
	scrapeDuration = define("scrape_duration_seconds", gauge, "The duration of the last survey.")
	scrapeAge      = define("scrape_age_seconds", gauge,
		"The age of the last survey. A survey is reused for one second, and for ten times its duration.")
)

// The metrics of this process.
var (
	jobsPushed = defineQueue("jobs_pushed_total", counter,
		"Jobs that this server has pushed, by outcome: created, merged or exists.", "outcome")
	published = defineTopic("messages_published_total", counter,
		"Messages that this server has published, by outcome: created or exists.", "outcome")
	publishRefused = define("messages_refused_total", counter,
		"Messages that were refused one by one, by error code.", "code")
	jobsDelivered = defineQueue("jobs_delivered_total", counter,
		"Deliveries that this server has reserved from the engine.")
	jobsSettled = defineQueue("jobs_settled_total", counter,
		"Deliveries that this server has settled, as ack, nack, release or bury.", "as")
	jobsRefused    = define("jobs_refused_total", counter, "Jobs that were refused one by one, by error code.", "code")
	settlesRefused = define("settles_refused_total", counter,
		"Settles that were refused one by one, by error code. lease_lost means that the settle came too late.", "code")
	jobLateness = defineQueue("delivery_lateness_seconds", histogram,
		"The time of a delivery minus the due time of its job, on the engine's clock.")
	ticks = defineQueue("ticks_total", counter,
		"Ticks of schedules that this server has processed, by outcome: fired (a run was made), skipped (an earlier run "+
			"waits or runs) or missed (too old, or refused by the queue's settings).", "outcome")
	tickLateness = defineQueue("tick_lateness_seconds", histogram,
		"How long after its tick a run was made or skipped, on the engine's clock.")
	longPolls = define("long_polls", gauge,
		"Requests that wait now, for a job or for reports of removed jobs.")
	httpRequests = define("http_requests_total", counter,
		"Requests by route (a pattern, never a path), method and class of status, 2xx to 5xx. "+
			"A request whose caller hung up is 4xx.", "method", "route", "status")
	httpDuration = define("http_request_duration_seconds", histogram,
		"The duration of requests, including the wait of long polls.", "method", "route")
	httpPanics = define("http_panics_total", counter,
		"Handlers that panicked. Their answer was 500, and the process continued.")
	tokensRefused = define("tokens_refused_total", counter,
		"Requests that were not admitted, by error code: unauthorized, forbidden, or limited for an address with too "+
			"many failures.", "code")
	operationStates = define("operations", gauge,
		"Bulk operations of this server by state: queued, running, waiting, paused, interrupted, stopped, failed or done.",
		"state")
	operationJobs = define("operation_jobs_total", counter,
		"Jobs that bulk operations of this server have taken, by kind and outcome: done, skipped or failed.",
		"kind", "outcome")

	auditLost = define("audit_lost_total", counter,
		"Lines that the audit log could not write. Actions of the dashboard did not run, calls of the API continued.")
	callsLimited = define("calls_limited_total", counter, "Calls beyond the limit of their token.")
	engineCalls  = define("engine_call_duration_seconds", histogram,
		"Round trips of the engine to its store. engine is redis, with the name of the script or command, or sqlite, "+
			"with transaction (all of it), commit (only its sync) or read.", "engine", "call")
	buildInfo = define("build_info", gauge, "1, with the versions of duly and of Go.", "version", "goversion")
)

// otherName is the label value for all queues without separate series. No queue can have this name.
const otherName = "_other"

// queueCounter is a counter of the engine's queues.
type queueCounter struct {
	*definition
	of func(*duly.Counters) *int64
}

// groupCounter defines a counter of groups, and topicCounter a counter of topics.
type (
	groupCounter struct {
		*definition
		of func(*duly.GroupStats) int64
	}
	topicCounter struct {
		*definition
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
func ofSlowed(c *duly.Counters) *int64    { return &c.Slowed }
func ofDead(c *duly.Counters) *int64      { return &c.Dead }
func ofRequeued(c *duly.Counters) *int64  { return &c.Requeued }
func ofExpired(c *duly.Counters) *int64   { return &c.Expired }
func ofDeleted(c *duly.Counters) *int64   { return &c.Deleted }
func ofDropped(c *duly.Counters) *int64   { return &c.Dropped }

package native

import (
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// The bounds on request bodies, in bytes. A batch's leaves room for 8 MiB of
// bodies as base64 or with escapes, and for the other fields.
const (
	batchBody = 2 * duly.MaxBatchBytes
	smallBody = 64 << 10
	idsBody   = 512 << 10
	noBody    = 64 // an empty object with some space
)

// Routes is the table.
func (a *API) Routes() []route.Route {
	one := int64(2*a.poll.MaxBody() + smallBody)
	return slices.Concat(a.hotRoutes(max(one, batchBody), one), a.queueRoutes(), a.jobRoutes(one), a.topicRoutes(max(one, batchBody)), a.pushRoutes())
}

// hotRoutes are the routes of producers and workers. batch and one bound the
// bodies of a batch and of a single job, in bytes.
func (a *API) hotRoutes(batch, one int64) []route.Route {
	return []route.Route{
		{Method: "POST", Path: "/v1/{namespace}/push", Access: auth.Produce, LimitedBy: duly.RightProduce, MaxBody: batch, Handler: a.push, Doc: route.Doc{
			ID: "pushJobs", Summary: "Push jobs",
			Text:    "Stores up to 1000 jobs, each by itself, and answers when they are durable. One bad job does not fail its neighbours: it has its own error. A job without an id that is pushed again after a lost answer is a second job.",
			Request: wire.PushForm, Answer: wire.PushedForm, Errors: []duly.Code{duly.CodeTooLarge, duly.CodeFull},
			Example:       `{"jobs":[{"queue":"mail","id":"order:1","body":"hello","delay":"3s"},{"queue":"mail","id":"order:2","body":"welcome","delay":"3s"}]}`,
			ExampleAnswer: `{"results":[{"id":"order:1","outcome":"created"},{"id":"order:2","outcome":"created"}]}`,
		}},
		{Method: "POST", Path: "/v1/{namespace}/queues/{queue}/jobs", Access: auth.Produce, LimitedBy: duly.RightProduce, MaxBody: one, Handler: a.pushOne, Doc: route.Doc{
			ID: "pushJob", Summary: "Push one job",
			Text:    "Stores one job and answers when it is durable. An error of the job is the error of the request. Without an id, a repeat after a lost answer is a second job.",
			Request: wire.PushOneForm, Answer: wire.PushedOneForm, Errors: []duly.Code{duly.CodeTooLarge, duly.CodeFull, duly.CodeNotDurable, duly.CodeUnsupported},
			Example:       `{"id":"order:3","body":"hello","delay":"1h"}`,
			ExampleAnswer: `{"id":"order:3","outcome":"created"}`,
		}},
		{Method: "POST", Path: "/v1/{namespace}/wait", Access: auth.Consume, MaxBody: smallBody, Handler: a.wait, Doc: route.Doc{
			ID: "waitForJobs", Summary: "Wait for jobs",
			Text:    "Answers when one of the queues may have a deliverable job, or when the time has passed. Takes nothing.",
			Request: wire.WaitForm, Answer: wire.ReadyForm,
			Example: `{"queues":["mail"],"wait":"30s"}`, ExampleAnswer: `{"ready":true}`,
		}},
		{Method: "POST", Path: "/v1/{namespace}/reserve", Access: auth.Consume, LimitedBy: duly.RightConsume, MaxBody: smallBody, Handler: a.reserve, Doc: route.Doc{
			ID: "reserveJobs", Summary: "Take jobs",
			Text:    "Takes up to max deliverable jobs and waits for the first one if it is told to. A caller that hangs up while it waits is given nothing. Do not repeat it after a lost answer: what that carried is held until its lease ends.",
			Request: wire.ReserveForm, Answer: wire.DeliveriesForm,
			Example:       `{"queues":["mail"],"max":10,"wait":"30s"}`,
			ExampleAnswer: `{"deliveries":[{"id":"order:1","queue":"mail","body":"hello","priority":0,"tries":16,"max_stalls":8,"backoff":"exp:1s:1h","ttl":"none","lease":"30s","retain":"none","due":"2030-01-01T00:00:03.000Z","receipt":"mail:0:01J0000000000000000000000A:1","attempt":1,"failures":0,"stalls":0,"lease_end":"2030-01-01T00:00:33.000Z","now":"2030-01-01T00:00:03.000Z","pushed_at":"2030-01-01T00:00:00.000Z"},{"id":"order:2","queue":"mail","body":"welcome","priority":0,"tries":16,"max_stalls":8,"backoff":"exp:1s:1h","ttl":"none","lease":"30s","retain":"none","due":"2030-01-01T00:00:03.000Z","receipt":"mail:0:01J0000000000000000000000B:1","attempt":1,"failures":0,"stalls":0,"lease_end":"2030-01-01T00:00:33.000Z","now":"2030-01-01T00:00:03.000Z","pushed_at":"2030-01-01T00:00:00.000Z"}]}`,
		}},
		{Method: "POST", Path: "/v1/{namespace}/canceled", Access: auth.Consume, MaxBody: smallBody, Handler: a.canceled, Doc: route.Doc{
			ID: "waitForRemovedJobs", Summary: "Wait for removed jobs",
			Text: "Answers when jobs of the namespace were deleted, purged while leased, or destroyed with their queue, or when the time has passed. " +
				"For workers that stop the handlers of such jobs. A report is a hint: it may name jobs that nobody has leased, and extend tells whether a lease is lost. " +
				"Pass the cursor of each answer with the next request. Without one, or with one that is too old or of another server, any is true.",
			Request: wire.CanceledAskForm, Answer: wire.CanceledForm, Errors: []duly.Code{duly.CodeUnsupported},
			Example:       `{"wait":"30s"}`,
			ExampleAnswer: `{"canceled":[],"any":true,"cursor":"01J0000000000000000000000C.1"}`,
		}},
		{Method: "POST", Path: "/v1/{namespace}/extend", Access: auth.Consume, MaxBody: idsBody, Handler: a.extend, Doc: route.Doc{
			ID: "extendLeases", Summary: "Hold jobs longer",
			Text:    "Lets leases end this long from now.",
			Request: wire.ExtendForm, Answer: wire.ResultsForm, Errors: []duly.Code{duly.CodeTooLarge},
			Example:       `{"receipts":["mail:0:01J0000000000000000000000A:1"],"lease":"1m"}`,
			ExampleAnswer: `{"results":[{"ok":true}]}`,
		}},
		{Method: "POST", Path: "/v1/{namespace}/settle", Access: auth.Consume, MaxBody: batchBody, Handler: a.settle, Doc: route.Doc{
			ID: "settleDeliveries", Summary: "End deliveries",
			Text:    "Acks, nacks, releases or buries by receipt. lease_lost says that the delivery had ended before, and after a repeat: by the first try, or before. Nothing was changed then.",
			Request: wire.SettleForm, Answer: wire.ResultsForm, Errors: []duly.Code{duly.CodeTooLarge},
			Example:       `{"outcomes":[{"receipt":"mail:0:01J0000000000000000000000A:1","as":"ack"},{"receipt":"mail:0:01J0000000000000000000000B:1","as":"bury","error":"no such address"}]}`,
			ExampleAnswer: `{"results":[{"ok":true},{"ok":true}]}`,
		}},
	}
}

var pageQuery = []string{"cursor", "limit"}

func (a *API) queueRoutes() []route.Route {
	const one = "/v1/{namespace}/queues/{queue}"
	return []route.Route{
		{Method: "GET", Path: "/v1/{namespace}/queues", Access: auth.Either, Query: []string{"cursor", "limit", "stats"}, Handler: a.queues, Doc: route.Doc{
			ID: "listQueues", Summary: "List queues", Text: "By name, page by page. With stats=true each has its sizes and its counters, or an error of its own instead, and no other with it: a thousand queues in one answer.", Answer: wire.QueuesForm, ExampleQuery: "?limit=2",
			ExampleAnswer: `{"queues":[{"name":"mail"},{"name":"video"}],"next":"video"}`,
		}},
		{Method: "GET", Path: one, Access: auth.Either, Handler: a.queue, Doc: route.Doc{
			ID: "getQueue", Summary: "Look at a queue", Text: "Its configuration with every field filled in, its sizes and its counters. A queue that does not exist reads as an empty one. A group TOPIC@GROUP that does not exist is not_found.",
			Answer:        wire.QueueForm,
			ExampleAnswer: `{"name":"mail","config":{"shards":1,"paused":false,"defaults":{"tries":16,"max_stalls":8,"backoff":"exp:1s:1h","ttl":"none","lease":"30s","retain":"none"},"dead_age":"90d","dead_count":100000,"max_jobs":"none","max_leased":"none","rate":"none"},"stats":{"sizes":{"delayed":0,"ready":0,"blocked":0,"leased":0,"dead":1,"done":0},"counters":{"pushed":2,"merged":0,"delivered":2,"acked":1,"failed":1,"stalled":0,"released":0,"dead":1,"requeued":0,"expired":0,"deleted":0,"dropped":0},"oldest_ready":"0s"}}`,
		}},
		{Method: "PATCH", Path: one, Access: auth.Admin, MaxBody: smallBody, Handler: a.configure, Doc: route.Doc{
			ID: "configureQueue", Summary: "Configure a queue", Text: "Changes the fields that are given, and makes the queue if it does not exist. A group TOPIC@GROUP must exist, and has fields of its own.",
			Request: wire.ConfigForm, Status: 204, Errors: []duly.Code{duly.CodeUnsupported, duly.CodeFull, duly.CodeNotFound, duly.CodeConflict}, Example: `{"max_leased":10,"defaults":{"tries":5}}`,
		}},
		{Method: "POST", Path: one + "/pause", Access: auth.Admin, MaxBody: noBody, Handler: a.plain(a.pause), Doc: route.Doc{
			ID: "pauseQueue", Summary: "Pause a queue", Text: "Nothing is reserved from it; pushing and time go on.", Status: 204, Errors: []duly.Code{duly.CodeNotFound},
		}},
		{Method: "POST", Path: one + "/resume", Access: auth.Admin, MaxBody: noBody, Handler: a.plain(a.resume), Doc: route.Doc{
			ID: "resumeQueue", Summary: "Resume a queue", Text: "Ends a pause.", Status: 204, Errors: []duly.Code{duly.CodeNotFound},
		}},
		{Method: "POST", Path: one + "/requeue", Access: auth.Admin, MaxBody: idsBody, Handler: a.requeue, Doc: route.Doc{
			ID: "requeueDeadJobs", Summary: "Let dead jobs live again", Text: "By their ids, or the n oldest. Pushed now under their old ids. Safe to repeat by ids, not by n.",
			Request: wire.RequeueForm, Answer: wire.RequeuedForm, Errors: []duly.Code{duly.CodeTooLarge},
			Example: `{"ids":["order:2"]}`, ExampleAnswer: `{"results":[{"id":"order:2","state":"ready"}]}`,
		}},
		{Method: "POST", Path: one + "/purge", Access: auth.Admin, MaxBody: smallBody, Handler: a.purge, Doc: route.Doc{
			ID: "purgeJobs", Summary: "Remove jobs of one state", Text: "Up to n, or all of them. Not safe to repeat with an n.",
			Request: wire.PurgeForm, Answer: wire.PurgedForm, Example: `{"state":"dead"}`, ExampleAnswer: `{"purged":0}`,
		}},
	}
}

const exampleInfo = `{"id":"order:2","queue":"mail","body":"welcome","priority":0,"tries":16,"max_stalls":8,"backoff":"exp:1s:1h","ttl":"none","lease":"30s","retain":"none","due":"2030-01-01T00:01:00.000Z","state":"ready","size":7,"attempt":1,"failures":0,"stalls":0,"pushed_at":"2030-01-01T00:00:00.000Z"}`

func (a *API) jobRoutes(maxBody int64) []route.Route {
	const queue = "/v1/{namespace}/queues/{queue}"
	const one = queue + "/jobs/{id}"
	return []route.Route{
		{Method: "GET", Path: queue + "/jobs", Access: auth.Consume, Query: []string{"state", "cursor", "limit", "bodies"}, Handler: a.jobs, Doc: route.Doc{
			ID: "listJobs", Summary: "List jobs of one state", Text: "Page by page. What stays where it is during the walk is listed exactly once.",
			Answer: wire.JobsForm, ExampleQuery: "?state=ready&limit=1&bodies=true", ExampleAnswer: `{"jobs":[` + exampleInfo + `],"next":""}`,
		}},
		{Method: "GET", Path: queue + "/peek", Access: auth.Consume, Handler: a.peek, Doc: route.Doc{
			ID: "peekJob", Summary: "Look at the first ready job", Text: "Ignores pause and limits.", Answer: wire.JobForm, Errors: []duly.Code{duly.CodeNotFound},
			ExampleAnswer: exampleInfo,
		}},
		{Method: "GET", Path: one, Access: auth.Consume, Handler: a.job, Doc: route.Doc{
			ID: "getJob", Summary: "Look at a job", Text: "The state is computed at call time.", Answer: wire.JobForm, Errors: []duly.Code{duly.CodeNotFound},
			ExampleAnswer: exampleInfo,
		}},
		{Method: "GET", Path: "/v1/{namespace}/receipts/{receipt}", Access: auth.Consume, Handler: a.delivered, Doc: route.Doc{
			ID: "getDeliveredJob", Summary: "Look at the job of a receipt",
			Text:   "Also after the delivery has ended: for example, to see whether the job is tried again. It needs no job ID.",
			Answer: wire.JobForm, Errors: []duly.Code{duly.CodeNotFound},
			ExampleAnswer: exampleInfo,
		}},
		{Method: "PATCH", Path: one, Access: auth.Produce, MaxBody: maxBody, Handler: a.update, Doc: route.Doc{
			ID: "updateJob", Summary: "Change a waiting job", Text: "In one step; what is left out stays. A ttl counts from now.",
			Request: wire.UpdateForm, Status: 204, Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict, duly.CodeTooLarge, duly.CodeFull}, Example: `{"delay":"1h","priority":5}`,
		}},
		{Method: "POST", Path: one + "/promote", Access: auth.Produce, MaxBody: noBody, Handler: a.plain(a.promote), Doc: route.Doc{
			ID: "promoteJob", Summary: "Make a waiting job due now", Status: 204, Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict},
		}},
		{Method: "DELETE", Path: one, Access: auth.Produce, MaxBody: noBody, Handler: a.plain(a.remove), Doc: route.Doc{
			ID: "deleteJob", Summary: "Delete a job", Text: "In whatever state; the receipt of a leased one is void.", Status: 204, Errors: []duly.Code{duly.CodeNotFound},
		}},
		// The last one, so that the page reads, and runs, from top to bottom.
		{Method: "DELETE", Path: queue, Access: auth.Admin, MaxBody: noBody, Handler: a.plain(a.destroy), Doc: route.Doc{
			ID: "destroyQueue", Summary: "Destroy a queue", Text: "With every job, counter and setting. May be repeated.", Status: 204,
		}},
	}
}

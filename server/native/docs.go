package native

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

const exampleInfo = `{"id":"order:2","queue":"mail","body":"welcome","priority":0,"tries":16,"max_stalls":8,` +
	`"backoff":"exp:1s:1h","ttl":"none","lease":"30s","retain":"none","due":"2030-01-01T00:01:00.000Z",` +
	`"state":"ready","size":7,"attempt":1,"failures":0,"stalls":0,"pushed_at":"2030-01-01T00:00:00.000Z"}`

// The documentation of the routes for queues and jobs.
var (
	pushJobsDoc = route.Doc{
		ID: "pushJobs", Summary: "Push jobs",
		Text: "Stores up to 1000 jobs, each by itself, and answers when they are durable. A bad job has its own " +
			"error, and the others are stored. A job without an id that is pushed again after a lost answer is a " +
			"second job.",
		Request: wire.PushForm, Answer: wire.PushedForm,
		Errors: []duly.Code{duly.CodeTooLarge, duly.CodeFull},
		Example: `{"jobs":[{"queue":"mail","id":"order:1","body":"hello","delay":"3s"},{"queue":"mail",` +
			`"id":"order:2",` +
			`"body":"welcome","delay":"3s"}]}`,
		ExampleAnswer: `{"results":[{"id":"order:1","outcome":"created"},{"id":"order:2","outcome":"created"}]}`,
	}

	pushJobDoc = route.Doc{
		ID: "pushJob", Summary: "Push one job",
		Text: "Stores one job and answers when it is durable. An error of the job is the error of the request. " +
			"Without an id, a repeat after a lost answer is a second job.",
		Request: wire.PushOneForm, Answer: wire.PushedOneForm,
		Errors:        []duly.Code{duly.CodeTooLarge, duly.CodeFull, duly.CodeNotDurable, duly.CodeUnsupported},
		Example:       `{"id":"order:3","body":"hello","delay":"1h"}`,
		ExampleAnswer: `{"id":"order:3","outcome":"created"}`,
	}

	waitForJobsDoc = route.Doc{
		ID: "waitForJobs", Summary: "Wait for jobs",
		Text: "Answers when one of the queues may have a deliverable job, or when the time has passed. It leases " +
			"nothing.",
		Request: wire.WaitForm, Answer: wire.ReadyForm,
		Example:       `{"queues":["mail"],"wait":"30s"}`,
		ExampleAnswer: `{"ready":true}`,
	}

	reserveJobsDoc = route.Doc{
		ID: "reserveJobs", Summary: "Reserve jobs",
		Text: "Takes up to max deliverable jobs. With wait it waits for the first one. A caller that hangs up " +
			"while it waits gets nothing. Do not repeat the request after a lost answer: the jobs of that answer " +
			"stay leased until their leases end.",
		Request: wire.ReserveForm, Answer: wire.DeliveriesForm,
		Example: `{"queues":["mail"],"max":10,"wait":"30s"}`,
		ExampleAnswer: `{"deliveries":[{"id":"order:1","queue":"mail","body":"hello","priority":0,` +
			`"tries":16,"max_stalls":8,` +
			`"backoff":"exp:1s:1h","ttl":"none","lease":"30s","retain":"none","due":"2030-01-01T00:00:03.000Z",` +
			`"receipt":"mail:0:01J0000000000000000000000A:1","attempt":1,"failures":0,"stalls":0,` +
			`"lease_end":"2030-01-01T00:00:33.000Z","now":"2030-01-01T00:00:03.000Z",` +
			`"pushed_at":"2030-01-01T00:00:00.000Z"},{"id":"order:2","queue":"mail","body":"welcome",` +
			`"priority":0,"tries":16,"max_stalls":8,"backoff":"exp:1s:1h","ttl":"none","lease":"30s",` +
			`"retain":"none","due":"2030-01-01T00:00:03.000Z","receipt":"mail:0:01J0000000000000000000000B:1",` +
			`"attempt":1,"failures":0,"stalls":0,"lease_end":"2030-01-01T00:00:33.000Z",` +
			`"now":"2030-01-01T00:00:03.000Z","pushed_at":"2030-01-01T00:00:00.000Z"}]}`,
	}

	waitForRemovedJobsDoc = route.Doc{
		ID: "waitForRemovedJobs", Summary: "Wait for removed jobs",
		Text: "Answers when jobs of the namespace were deleted, purged while leased, or destroyed with their " +
			"queue, or when the time has passed. It is for workers that stop the handlers of such jobs. A report " +
			"is a hint: it may name jobs without a lease, and extend reports whether a lease is lost. Pass the " +
			"cursor of each answer with the next request. Without a cursor, or with one that is too old or of " +
			"another server, any is true.",
		Request: wire.CanceledAskForm, Answer: wire.CanceledForm,
		Errors:        []duly.Code{duly.CodeUnsupported},
		Example:       `{"wait":"30s"}`,
		ExampleAnswer: `{"canceled":[],"any":true,"cursor":"01J0000000000000000000000C.1"}`,
	}

	extendLeasesDoc = route.Doc{
		ID: "extendLeases", Summary: "Extend leases",
		Text:    "Makes leases end this long from now.",
		Request: wire.ExtendForm, Answer: wire.ResultsForm,
		Errors:        []duly.Code{duly.CodeTooLarge},
		Example:       `{"receipts":["mail:0:01J0000000000000000000000A:1"],"lease":"1m"}`,
		ExampleAnswer: `{"results":[{"ok":true}]}`,
	}

	settleDeliveriesDoc = route.Doc{
		ID: "settleDeliveries", Summary: "End deliveries",
		Text: "Acks, nacks, releases or buries by receipt. lease_lost means that the delivery had ended before. " +
			"After a repeat, the first request may have ended it. Nothing was changed then.",
		Request: wire.SettleForm, Answer: wire.ResultsForm,
		Errors: []duly.Code{duly.CodeTooLarge},
		Example: `{"outcomes":[{"receipt":"mail:0:01J0000000000000000000000A:1","as":"ack"},` +
			`{"receipt":"mail:0:01J0000000000000000000000B:1","as":"bury","error":"no such address"}]}`,
		ExampleAnswer: `{"results":[{"ok":true},{"ok":true}]}`,
	}

	listQueuesDoc = route.Doc{
		ID: "listQueues", Summary: "List queues",
		Text: "By name, page by page. With stats=true each queue has its sizes and counters, or an error of its " +
			"own, which does not affect the others. One answer has up to a thousand queues.",
		Answer: wire.QueuesForm, ExampleQuery: "?limit=2",
		ExampleAnswer: `{"queues":[{"name":"mail"},{"name":"video"}],"next":"video"}`,
	}

	getQueueDoc = route.Doc{
		ID: "getQueue", Summary: "Look at a queue",
		Text: "The configuration with every field filled in, the sizes and the counters. A queue that does not " +
			"exist looks like an empty one. A group TOPIC@GROUP that does not exist is not_found.",
		Answer: wire.QueueForm,
		ExampleAnswer: `{"name":"mail","config":{"shards":1,"paused":false,"defaults":{"tries":16,"max_stalls":8,` +
			`"backoff":"exp:1s:1h","ttl":"none","lease":"30s","retain":"none"},"dead_age":"90d",` +
			`"dead_count":100000,"max_jobs":"none","max_leased":"none","rate":"none","adapt":"none"},` +
			`"stats":{"sizes":{"delayed":0,"ready":0,"blocked":0,"leased":0,"dead":1,"done":0},` +
			`"counters":{"pushed":2,"merged":0,"delivered":2,"acked":1,"failed":1,"stalled":0,"released":0,"slowed":0,` +
			`"dead":1,"requeued":0,"expired":0,"deleted":0,"dropped":0},"oldest_ready":"0s"}}`,
	}

	configureQueueDoc = route.Doc{
		ID: "configureQueue", Summary: "Configure a queue",
		Text: "Changes the given fields, and creates the queue if it does not exist. A group TOPIC@GROUP must " +
			"exist, and has fields of its own. An engine without adaptive limits refuses adapt as unsupported.",
		Request: wire.ConfigForm, Status: 204,
		Errors:  []duly.Code{duly.CodeUnsupported, duly.CodeFull, duly.CodeNotFound, duly.CodeConflict},
		Example: `{"max_leased":10,"defaults":{"tries":5}}`,
	}

	pauseQueueDoc = route.Doc{
		ID: "pauseQueue", Summary: "Pause a queue",
		Text:   "No job is reserved from a paused queue. Pushes and times continue.",
		Status: 204,
		Errors: []duly.Code{duly.CodeNotFound},
	}

	resumeQueueDoc = route.Doc{
		ID: "resumeQueue", Summary: "Resume a queue",
		Text:   "Ends a pause.",
		Status: 204,
		Errors: []duly.Code{duly.CodeNotFound},
	}

	requeueDeadJobsDoc = route.Doc{
		ID: "requeueDeadJobs", Summary: "Requeue dead jobs",
		Text: "Requeues jobs by their ids, or the n oldest. They are pushed now under their old ids. A repeat is " +
			"safe by ids, but not by n.",
		Request: wire.RequeueForm, Answer: wire.RequeuedForm,
		Errors:        []duly.Code{duly.CodeTooLarge},
		Example:       `{"ids":["order:2"]}`,
		ExampleAnswer: `{"results":[{"id":"order:2","state":"ready"}]}`,
	}

	purgeJobsDoc = route.Doc{
		ID: "purgeJobs", Summary: "Delete jobs of one state",
		Text:    "Deletes up to n jobs, or all of them. A repeat with an n is not safe.",
		Request: wire.PurgeForm, Answer: wire.PurgedForm,
		Example:       `{"state":"dead"}`,
		ExampleAnswer: `{"purged":0}`,
	}

	listJobsDoc = route.Doc{
		ID: "listJobs", Summary: "List jobs of one state",
		Text: "Page by page. A job that does not change its state or place during the walk is listed exactly once. " +
			"Pass the same order, from and key with each page. A cursor is valid in both orders.",
		Answer: wire.JobsForm, ExampleQuery: "?state=ready&limit=1&bodies=true",
		ExampleAnswer: `{"jobs":[` + exampleInfo + `],"next":""}`,
	}

	peekJobDoc = route.Doc{
		ID: "peekJob", Summary: "Look at the first ready job",
		Text:          "Ignores pause and limits.",
		Answer:        wire.JobForm,
		Errors:        []duly.Code{duly.CodeNotFound},
		ExampleAnswer: exampleInfo,
	}

	getJobDoc = route.Doc{
		ID: "getJob", Summary: "Look at a job",
		Text:          "The state is computed at call time.",
		Answer:        wire.JobForm,
		Errors:        []duly.Code{duly.CodeNotFound},
		ExampleAnswer: exampleInfo,
	}

	explainJobDoc = route.Doc{
		ID: "explainJob", Summary: "Explain what holds a job back",
		Text: "The facts are from one moment, and the call changes nothing. A limit is that of the job's shard. " +
			"Groups of topics have no explanation.",
		Answer: wire.ExplainForm,
		Errors: []duly.Code{duly.CodeNotFound},
		ExampleAnswer: `{"state":"delayed","now":"2030-01-01T00:00:00.000Z","facts":[{"code":"delayed",` +
			`"at":"2030-01-01T01:00:00.000Z","cause":"push"}]}`,
	}

	listKeysDoc = route.Doc{
		ID: "listOrderKeys", Summary: "List order keys",
		Text: "Lists the order keys for which at least one blocked job waits, page by page. Shorter keys come first, then the " +
			"order is by bytes. A key whose head and waiting jobs do not change during the walk is listed exactly once. " +
			"With key, the answer has only this key, also if no job waits for it. It is `not_found` if no job holds the key. " +
			"Groups of topics have no list of order keys.",
		Answer: wire.KeysForm, Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict}, ExampleQuery: "?prefix=ada&limit=100",
		ExampleAnswer: `{"keys":[{"key":"ada","head":{"id":"order:1","state":"leased","due":"2030-01-01T00:00:00.000Z",` +
			`"lease_end":"2030-01-01T00:00:30.000Z"},"waiting":12,"more":false,"first_due":"2030-01-01T00:00:05.000Z"}],` +
			`"next":""}`,
	}

	findJobDoc = route.Doc{
		ID: "findJob", Summary: "Find a job in all queues",
		Text: "Several queues may have a job with the same ID. The answer has at most 100 jobs. Groups of topics are " +
			"not searched.",
		Answer:        wire.FoundForm,
		Errors:        []duly.Code{duly.CodeNotFound},
		ExampleAnswer: `{"jobs":[` + exampleInfo + `],"more":false}`,
	}

	getDeliveredJobDoc = route.Doc{
		ID: "getDeliveredJob", Summary: "Look at the job of a receipt",
		Text: "Also after the delivery has ended, for example to see whether the job is tried again. It needs no " +
			"job ID.",
		Answer:        wire.JobForm,
		Errors:        []duly.Code{duly.CodeNotFound},
		ExampleAnswer: exampleInfo,
	}

	updateJobDoc = route.Doc{
		ID: "updateJob", Summary: "Change a waiting job",
		Text:    "Changes the given fields in one step. A ttl counts from now.",
		Request: wire.UpdateForm, Status: 204,
		Errors:  []duly.Code{duly.CodeNotFound, duly.CodeConflict, duly.CodeTooLarge, duly.CodeFull},
		Example: `{"delay":"1h","priority":5}`,
	}

	promoteJobDoc = route.Doc{
		ID: "promoteJob", Summary: "Make a waiting job due now",
		Status: 204,
		Errors: []duly.Code{duly.CodeNotFound, duly.CodeConflict},
	}

	deleteJobDoc = route.Doc{
		ID: "deleteJob", Summary: "Delete a job",
		Text:   "In any state. The receipt of a leased job becomes invalid.",
		Status: 204,
		Errors: []duly.Code{duly.CodeNotFound},
	}

	getJobsDoc = route.Doc{
		ID: "getJobs", Summary: "Look at jobs by their ids",
		Text: "The states are computed at call time. With bodies, the answer has at most 8 MiB of bodies and results, " +
			"or one larger job. A job beyond that is too_large: get it in another call.",
		Request: wire.GetJobsForm, Answer: wire.GotJobsForm,
		Errors:        []duly.Code{duly.CodeTooLarge},
		Example:       `{"ids":["order:4"]}`,
		ExampleAnswer: `{"results":[{"error":{"code":"not_found","detail":"no job \"order:4\" in queue default/mail"}}]}`,
	}

	promoteJobsDoc = route.Doc{
		ID: "promoteJobs", Summary: "Make waiting jobs due now by their ids",
		Text: "A job that is ready or blocked stays unchanged. A job that is leased, dead or done is a conflict. A " +
			"repeat is safe.",
		Request: wire.PromoteJobsForm, Answer: wire.ResultsForm,
		Errors:        []duly.Code{duly.CodeTooLarge},
		Example:       `{"ids":["order:4"]}`,
		ExampleAnswer: `{"results":[{"error":{"code":"not_found","detail":"no job \"order:4\" in queue default/mail"}}]}`,
	}

	deleteJobsDoc = route.Doc{
		ID: "deleteJobs", Summary: "Delete jobs by their ids",
		Text: "In any state, or only in the given state at the time of the call. A job in another state stays, and " +
			"its result is a conflict that names its state. A repeat is safe.",
		Request: wire.DeleteJobsForm, Answer: wire.ResultsForm,
		Errors:        []duly.Code{duly.CodeTooLarge},
		Example:       `{"ids":["order:3"],"state":"delayed"}`,
		ExampleAnswer: `{"results":[{"ok":true}]}`,
	}

	destroyQueueDoc = route.Doc{
		ID: "destroyQueue", Summary: "Destroy a queue",
		Text:   "Deletes the queue with every job, counter and setting. A repeat is safe.",
		Status: 204,
	}
)

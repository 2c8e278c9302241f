package native

import (
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// The bounds on request bodies, in bytes. A batch may have 8 MiB of bodies, which are longer as
// base64 or with escapes, and other fields.
const (
	batchBody = 2 * duly.MaxBatchBytes
	smallBody = 64 << 10
	idsBody   = 512 << 10
	noBody    = 64 // room for an empty object
)

// The rights whose token limits count calls.
const produce, consume = contract.RightProduce, contract.RightConsume

// Routes returns the table of routes.
func (a *API) Routes() []route.Route {
	// The factor 2 is for a body as base64 or with escapes.
	one := int64(2*a.poll.MaxBody() + smallBody)
	// A batch must have room for one job with the largest body.
	batch := max(one, batchBody)
	return slices.Concat(
		a.hotRoutes(batch, one), a.queueRoutes(), a.jobRoutes(one), a.scheduleRoutes(), a.topicRoutes(batch),
		a.operationRoutes(), a.pushRoutes())
}

// hotRoutes returns the routes of producers and workers. batch and one are the maximum lengths of
// the request bodies with a batch and with a single job, in bytes.
func (a *API) hotRoutes(batch, one int64) []route.Route {
	return []route.Route{
		{
			Method: "POST", Path: "/v1/{namespace}/push", Access: auth.Produce, LimitedBy: produce, MaxBody: batch,
			Handler: a.push, Doc: pushJobsDoc,
		},
		{
			Method: "POST", Path: "/v1/{namespace}/queues/{queue}/jobs", Access: auth.Produce, LimitedBy: produce,
			MaxBody: one, Handler: a.pushOne, Doc: pushJobDoc,
		},

		{
			Method: "POST", Path: "/v1/{namespace}/wait", Access: auth.Consume, MaxBody: smallBody,
			Handler: a.wait, Doc: waitForJobsDoc,
		},
		{
			Method: "POST", Path: "/v1/{namespace}/reserve", Access: auth.Consume, LimitedBy: consume,
			MaxBody: smallBody, Handler: a.reserve, Doc: reserveJobsDoc,
		},

		{
			Method: "POST", Path: "/v1/{namespace}/canceled", Access: auth.Consume, MaxBody: smallBody,
			Handler: a.canceled, Doc: waitForRemovedJobsDoc,
		},

		{
			Method: "POST", Path: "/v1/{namespace}/extend", Access: auth.Consume, MaxBody: idsBody,
			Handler: a.extend, Doc: extendLeasesDoc,
		},
		{
			Method: "POST", Path: "/v1/{namespace}/settle", Access: auth.Consume, MaxBody: batchBody,
			Handler: a.settle, Doc: settleDeliveriesDoc,
		},
	}
}

var pageQuery = []string{"cursor", "limit"}

func (a *API) queueRoutes() []route.Route {
	const one = "/v1/{namespace}/queues/{queue}"
	return []route.Route{
		{
			Method: "GET", Path: "/v1/{namespace}/queues", Access: auth.Either,
			Query: []string{"cursor", "limit", "stats"}, Handler: a.queues, Doc: listQueuesDoc,
		},
		{Method: "GET", Path: one, Access: auth.Either, Handler: a.queue, Doc: getQueueDoc},
		{
			Method: "PATCH", Path: one, Access: auth.Admin, MaxBody: smallBody,
			Handler: a.configure, Doc: configureQueueDoc,
		},

		{
			Method: "POST", Path: one + "/pause", Access: auth.Admin, MaxBody: noBody,
			Handler: a.plain(a.pause), Doc: pauseQueueDoc,
		},
		{
			Method: "POST", Path: one + "/resume", Access: auth.Admin, MaxBody: noBody,
			Handler: a.plain(a.resume), Doc: resumeQueueDoc,
		},

		{
			Method: "POST", Path: one + "/requeue", Access: auth.Admin, MaxBody: idsBody,
			Handler: a.requeue, Doc: requeueDeadJobsDoc,
		},
		{
			Method: "POST", Path: one + "/purge", Access: auth.Admin, MaxBody: smallBody,
			Handler: a.purge, Doc: purgeJobsDoc,
		},
	}
}

func (a *API) jobRoutes(maxBody int64) []route.Route {
	const queue = "/v1/{namespace}/queues/{queue}"
	const one = queue + "/jobs/{id}"
	return []route.Route{
		{
			Method: "GET", Path: queue + "/jobs", Access: auth.Consume,
			Query: []string{"state", "cursor", "limit", "bodies", "order", "from", "key"}, Handler: a.jobs, Doc: listJobsDoc,
		},
		{Method: "GET", Path: queue + "/peek", Access: auth.Consume, Handler: a.peek, Doc: peekJobDoc},
		{Method: "GET", Path: one, Access: auth.Consume, Handler: a.job, Doc: getJobDoc},
		{Method: "GET", Path: one + "/why", Access: auth.Consume, Handler: a.why, Doc: explainJobDoc},
		{
			Method: "GET", Path: queue + "/keys", Access: auth.Consume,
			Query: []string{"prefix", "key", "cursor", "limit"}, Handler: a.keys, Doc: listKeysDoc,
		},
		{
			Method: "GET", Path: "/v1/{namespace}/jobs/{id}", Access: auth.Consume,
			Handler: a.find, Doc: findJobDoc,
		},
		{
			Method: "GET", Path: "/v1/{namespace}/receipts/{receipt}", Access: auth.Consume,
			Handler: a.delivered, Doc: getDeliveredJobDoc,
		},

		{Method: "PATCH", Path: one, Access: auth.Produce, MaxBody: maxBody, Handler: a.update, Doc: updateJobDoc},
		{
			Method: "POST", Path: one + "/promote", Access: auth.Produce, MaxBody: noBody,
			Handler: a.plain(a.promote), Doc: promoteJobDoc,
		},
		{
			Method: "DELETE", Path: one, Access: auth.Produce, MaxBody: noBody,
			Handler: a.plain(a.remove), Doc: deleteJobDoc,
		},
		{
			Method: "POST", Path: queue + "/jobs/get", Access: auth.Consume, MaxBody: idsBody,
			Handler: a.getMany, Doc: getJobsDoc,
		},
		{
			Method: "POST", Path: queue + "/jobs/promote", Access: auth.Produce, MaxBody: idsBody,
			Handler: a.promoteMany, Doc: promoteJobsDoc,
		},
		{
			Method: "POST", Path: queue + "/jobs/delete", Access: auth.Produce, MaxBody: idsBody,
			Handler: a.removeMany, Doc: deleteJobsDoc,
		},
		// The last route, because the examples of the page run from top to bottom.
		{
			Method: "DELETE", Path: queue, Access: auth.Admin, MaxBody: noBody,
			Handler: a.plain(a.destroy), Doc: destroyQueueDoc,
		},
	}
}

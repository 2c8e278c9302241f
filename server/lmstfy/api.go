package lmstfy

import (
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// API serves lmstfy's clients on an engine.
type API struct {
	engine contract.Engine
	pools  *pools.Pools
	guard  *auth.Guard
	clock  duly.Clock
	// defaults are the values of parameters that a request leaves out.
	defaults Defaults
	poll     *poll.Poll
	queues   *queueCache
	receipts receipts
	// metrics are lmstfy's own.
	metrics *metrics
}

// New returns the API of an engine. p reserves jobs of that engine. in are the pools behind the
// engine, or nil if there is only the default pool.
func New(engine contract.Engine, p *poll.Poll, in *pools.Pools, guard *auth.Guard, c duly.Clock) *API {
	return &API{
		engine: engine, poll: p, pools: in, guard: guard, clock: c,
		queues: newQueueCache(engine, c), metrics: newMetrics(in), defaults: StandardDefaults(),
	}
}

// SetDefaults replaces the values of parameters that a request leaves out. Call it before the
// API serves.
func (a *API) SetDefaults(d Defaults) { a.defaults = d }

// Prefix begins the path of every route on the API's address. No route of the native API
// begins with it.
const Prefix = "/api/"

// maxBody is lmstfy's limit for a body and on an element of a bulk publish, in bytes. maxBulk is
// enough for 64 elements and their JSON.
const (
	maxBody = 1 << 20
	maxBulk = maxJobs*maxBody + 64<<10
)

// Routes returns the routes of the API's address.
func (a *API) Routes() []route.Route {
	const queue = Prefix + "{namespace}/{queue}"
	const job = queue + "/job/{id}"
	const dead = queue + "/deadletter"
	const produce, consume = contract.RightProduce, contract.RightConsume
	routes := []route.Route{
		{Method: "PUT", Path: queue, Access: auth.Produce, LimitedBy: produce, MaxBody: maxBody, Handler: a.publish},
		{Method: "PUT", Path: job, Access: auth.Produce, MaxBody: maxBody, Handler: a.republish},
		{
			Method: "PUT", Path: queue + "/bulk", Access: auth.Produce, LimitedBy: produce,
			MaxBody: maxBulk, Handler: a.publishBulk,
		},
		{Method: "GET", Path: queue, Access: auth.Consume, LimitedBy: consume, Handler: a.consume},
		{Method: "DELETE", Path: job, Access: auth.Either, Handler: a.ack},
		{Method: "GET", Path: queue + "/peek", Access: auth.Consume, Handler: a.peekQueue},
		{Method: "GET", Path: job, Access: auth.Consume, Handler: a.peekJob},
		{Method: "GET", Path: queue + "/size", Access: auth.Open, Handler: a.size},
		{Method: "DELETE", Path: queue, Access: auth.Both, Handler: a.destroy},
		{Method: "GET", Path: dead, Access: auth.Consume, Handler: a.peekDead},
		{Method: "PUT", Path: dead, Access: auth.Both, Handler: a.respawn},
		{Method: "DELETE", Path: dead, Access: auth.Both, Handler: a.deleteDead},
		{Method: "GET", Path: dead + "/size", Access: auth.Open, Handler: a.deadSize},
	}

	for i := range routes {
		r := &routes[i]
		names, action := checkNames, "produce"
		if r.LimitedBy == consume {
			names, action = checkList, "consume"
		}
		r.Handler = refundFailures(r.Handler)
		r.Dialect = &route.Dialect{
			JSON: jsonType, Fail: fail, RateLimitError: a.rateLimitError(action), Answered: a.answered(r.Path),
			Admit: func(c *route.Call) (*auth.Grant, error) { return a.admit(c, names, r.Access) },
		}
	}
	return routes
}

// Handler returns a handler of all paths that begin with Prefix.
func (a *API) Handler(rt *route.Router) http.Handler {
	return newPathRouter(rt, a.Routes(), a.answered(""), func(*route.Call) error {
		return refuse(http.StatusNotFound, "api not found")
	})
}

// answered returns a function that counts the requests of a route.
func (a *API) answered(pattern string) func(*route.Call, int, time.Duration) {
	return a.metrics.route(pattern).answered
}

// queue returns the queue of the path.
func queue(c *route.Call) duly.QueueRef {
	return duly.QueueRef{Namespace: c.Namespace, Name: c.PathValue("queue")}
}

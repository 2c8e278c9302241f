package lmstfy

import (
	"net/http"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/poll"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// API serves lmstfy's clients on an engine.
type API struct {
	engine duly.Contract
	pools  *pools.Pools
	guard  *auth.Guard
	clock  clock.Clock
	// defaults are of requests that do not say it.
	defaults Defaults
	poll     *poll.Poll
	known    *known
	receipts receipts
	// metrics are of this API alone.
	metrics *metrics
}

// New returns the API of an engine, from which p takes jobs. in are the pools that
// it stands for, nil for the default one alone.
func New(engine duly.Contract, p *poll.Poll, in *pools.Pools, guard *auth.Guard, c clock.Clock) *API {
	return &API{
		engine: engine, poll: p, pools: in, guard: guard, clock: c,
		known: newKnown(engine, c), metrics: newMetrics(in), defaults: Usual(),
	}
}

// SetDefaults replaces what requests take that do not say it. It is called
// before the API serves.
func (a *API) SetDefaults(d Defaults) { a.defaults = d }

// Prefix begins the path of every route on the API's address; the native API
// has none there.
const Prefix = "/api/"

// maxBody is lmstfy's bound on a body and on an element of a bulk publish, in
// bytes. maxBulk leaves room for 64 of them and the JSON around.
const (
	maxBody = 1 << 20
	maxBulk = maxJobs*maxBody + 64<<10
)

// Routes is the table of the API's address.
func (a *API) Routes() []route.Route {
	const queue = Prefix + "{namespace}/{queue}"
	const job = queue + "/job/{id}"
	const dead = queue + "/deadletter"
	routes := []route.Route{
		{Method: "PUT", Path: queue, Access: auth.Produce, LimitedBy: duly.RightProduce, MaxBody: maxBody, Handler: a.publish},
		{Method: "PUT", Path: job, Access: auth.Produce, MaxBody: maxBody, Handler: a.republish},
		{Method: "PUT", Path: queue + "/bulk", Access: auth.Produce, LimitedBy: duly.RightProduce, MaxBody: maxBulk, Handler: a.publishBulk},
		{Method: "GET", Path: queue, Access: auth.Consume, LimitedBy: duly.RightConsume, Handler: a.consume},
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
		if r.LimitedBy == duly.RightConsume {
			names, action = checkList, "consume"
		}
		r.Handler = counted(r.Handler)
		r.Dialect = &route.Dialect{JSON: jsonType, Fail: fail, RateLimitError: a.uncounted(action), Answered: a.answered(r.Path), Admit: func(c *route.Call) (*auth.Grant, error) {
			return a.admit(c, names, r.Access)
		}}
	}
	return routes
}

// Handler serves everything below Prefix.
func (a *API) Handler(h *route.Router) http.Handler {
	return newRouter(h, a.Routes(), a.answered(""), func(*route.Call) error { return refuse(http.StatusNotFound, "api not found") })
}

// answered counts the requests of a route.
func (a *API) answered(pattern string) func(*route.Call, int, time.Duration) {
	return a.metrics.route(pattern).answered
}

// queue is the one that the path names.
func queue(c *route.Call) duly.QueueRef {
	return duly.QueueRef{Namespace: c.Namespace, Name: c.PathValue("queue")}
}

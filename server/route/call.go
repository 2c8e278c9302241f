package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
)

// Call is one request. Only the handler of the request may use a Call, and only until the handler
// returns.
type Call struct {
	W http.ResponseWriter
	R *http.Request
	// Namespace is the namespace in the path, or "" if the path has none.
	Namespace string

	router  *Router
	route   *Route
	path    Match
	grant   *auth.Grant // nil on an open route
	counted time.Time   // window of the token's limit under which the call was counted
	id      string
	start   time.Duration
	// answered and traced are called at the end of the request. Both may be nil.
	answered func(status int, took time.Duration)
	traced   func(status int)

	in, out  []byte   // buffers that later calls reuse
	chunks   [][]byte // chunks of a long body while it is read
	bodyRead bool     // whether the body was read, or a read of it failed
	unread   bool     // whether the body was read only in part
	closes   bool     // whether the answer closes the connection; see leave
	// Whether the call was cut because its body came slowly while other calls waited.
	cut           atomic.Bool
	share         share  // memory from the budget of requests
	answerShare   share  // memory from the budget of answers
	room          *share // &answerShare, or nil while the call has no memory for its answer
	problemStatus int    // status that replaces that of the error code; see notRouted
	status        int    // status of the answer; 0 until the request is answered
	sent          int
	err           error
}

var calls = sync.Pool{New: func() any { return &Call{} }}

// maxKept is the size of the largest buffer that later calls reuse.
const maxKept = 64 << 10

// Handle returns a handler for one route, for an API that finds its routes itself. It panics if the
// route declares no right.
func (rt *Router) Handle(route *Route) http.Handler {
	route.mustHaveAccess()
	serve := rt.handle(route)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, Match{}) })
}

// handle returns a function that serves requests to a route.
func (rt *Router) handle(route *Route) func(http.ResponseWriter, *http.Request, Match) {
	rt.setDefaults()
	var answered func(status int, took time.Duration)
	if rt.Meter != nil {
		answered = rt.Meter.Route(route.Method, route.Path)
	}
	return func(w http.ResponseWriter, r *http.Request, m Match) { rt.serve(w, r, route, m, answered) }
}

// Match has the values of the wildcards in a route's path, for an API whose paths net/http does not
// match.
type Match struct {
	Names, Values [4]string
}

// HandleMatch is like [Router.Handle] for an API that also finds the values of wildcards.
func (rt *Router) HandleMatch(route *Route) func(http.ResponseWriter, *http.Request, Match) {
	route.mustHaveAccess()
	return rt.handle(route)
}

// mustHaveAccess panics if the route has no right.
func (r *Route) mustHaveAccess() {
	if r.Access == auth.Undeclared {
		panic("server: the route " + r.Method + " " + r.Path + " declares no right")
	}
}

func (rt *Router) serve(
	w http.ResponseWriter, r *http.Request, route *Route, m Match, answered func(int, time.Duration),
) {
	c := calls.Get().(*Call)
	*c = Call{
		W: w, R: r, router: rt, route: route, path: m, answered: answered,
		in: c.in[:0], out: c.out[:0], start: clock.Monotonic(), id: duly.NewNumber().String(),
	}
	if rt.Tracer != nil && route.Access != auth.Open {
		var ctx context.Context
		ctx, c.traced = rt.Tracer.Begin(r, route.Path)
		c.R = r.WithContext(ctx)
	}
	defer c.finish()

	// Answers to errors and panics have these headers too.
	header := w.Header()
	header["X-Request-Id"] = []string{c.id}
	header["Cache-Control"] = noStore
	header["X-Content-Type-Options"] = noSniff
	if rt.Leaving.Load() {
		header["Connection"] = closing
	}

	c.run()
	// The caller may have closed only its half of the connection. Without the panic, net/http would
	// send it a status 200.
	if c.status == statusGone {
		panic(http.ErrAbortHandler)
	}
}

// PathValue returns the value of a wildcard of the route's path.
func (c *Call) PathValue(name string) string {
	for i, n := range c.path.Names {
		if n == name {
			return c.path.Values[i]
		}
	}
	return c.R.PathValue(name)
}

func (c *Call) run() {
	defer c.recoverPanic()
	if err := c.serve(); err != nil {
		c.Problem(err)
	}
}

func (c *Call) serve() (err error) {
	c.Namespace = c.PathValue("namespace")
	d := c.route.Dialect
	if d != nil {
		c.grant, err = d.Admit(c)
	} else {
		err = c.admit()
	}
	if err != nil {
		c.countRefusal(err)
		return err
	}

	// Only admitted calls count, so requests with bad tokens use nothing of a limit.
	if c.counted, err = c.router.Guard.Spend(c.Context(), c.grant, c.route.LimitedBy); err != nil {
		if c.router.Meter != nil && errors.Is(err, duly.ErrLimited) {
			c.router.Meter.Limited()
		}
		if d != nil {
			err = d.RateLimitError(c, err)
		}
		return err
	}
	return c.route.Handler(c)
}

// Query returns a query parameter of the route, or "" if it is absent.
func (c *Call) Query(name string) string {
	if c.R.URL.RawQuery == "" {
		return ""
	}
	return c.R.URL.Query().Get(name)
}

// Page reads the query parameters cursor and limit.
func (c *Call) Page() (p duly.PageParams, err error) {
	p.Cursor = c.Query("cursor")
	if text := c.Query("limit"); text != "" {
		// In PageParams, 0 means the default, so a limit of 0 in a request is a mistake.
		if p.Limit, err = strconv.Atoi(text); err != nil || p.Limit == 0 {
			return p, contract.Invalid("limit", "must be a number between 1 and %d", duly.MaxBatch)
		}
	}
	return p, contract.ValidatePage(&p)
}

// Method returns the request's method, or "other" if HTTP does not define the method.
func (c *Call) Method() string { return Method(c.R.Method) }

// Context ends when the caller hangs up.
func (c *Call) Context() context.Context { return c.R.Context() }

// Draining ends when the server stops.
func (c *Call) Draining() context.Context { return c.router.Draining }

// Gone reports whether the caller is known to have hung up.
func (c *Call) Gone() bool { return c.R.Context().Err() != nil }

// ID returns the ID of the request, which the answer and the log have too.
func (c *Call) ID() string { return c.id }

// Log returns a logger for events of this call that the access log does not have.
func (c *Call) Log() *slog.Logger { return c.router.Log.With("request", c.id, "route", c.route.Path) }

// recoverPanic answers after a panic. It cuts off an answer that has begun, so that no caller
// mistakes a part for the whole answer.
func (c *Call) recoverPanic() {
	p := recover()
	if p == nil {
		return
	}
	// This panic is how a handler asks net/http to cut the connection.
	if p == http.ErrAbortHandler {
		panic(p)
	}

	c.router.Panics.Add(1)
	c.Log().Error("panic in a route", "panic", Line(fmt.Sprint(p)), "stack", string(debug.Stack()))
	if c.status != 0 {
		panic(http.ErrAbortHandler)
	}
	c.Problem(duly.ErrInternal)
}

// finish returns the call's memory, reports and logs the call, and puts it back.
func (c *Call) finish() {
	// Long bodies are most of the garbage, so their memory decides when to run the garbage
	// collector.
	if c.share.account != nil {
		c.router.collect(c.share.held)
		c.router.requests.release(&c.share)
	}
	c.ReleaseMemory()
	c.report(clock.Monotonic() - c.start)
	c.log()

	// Closing may take seconds, so it comes after the report, and after the memory was returned.
	if c.closes && c.status != statusGone {
		c.discard()
	}
	// The buffer of one long call must not keep its memory in the pool.
	if cap(c.in) > maxKept {
		c.in = nil
	}
	if cap(c.out) > maxKept {
		c.out = nil
	}
	*c = Call{in: c.in, out: c.out}
	calls.Put(c)
}

// report reports the end of the call to the meter, the tracer and the dialect.
func (c *Call) report(took time.Duration) {
	if c.answered != nil {
		c.answered(c.status, took)
	}
	if c.traced != nil {
		c.traced(c.status)
	}
	if d := c.route.Dialect; d != nil && d.Answered != nil {
		d.Answered(c, c.status, took)
	}
}

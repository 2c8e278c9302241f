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
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/auth"
)

// Call is one request on its way. It is used by its handler alone, and not
// after that has returned.
type Call struct {
	W http.ResponseWriter
	R *http.Request
	// Namespace is that of the path, "" where it has none.
	Namespace string

	host  *Host
	route *Route
	path  Match
	pass  *auth.Grant
	spent time.Time // the window of the token's limit
	id    string
	start time.Duration
	// answered and traced are told when the request is over; they may be nil.
	answered func(status int, took time.Duration)
	traced   func(status int)

	in, out       []byte   // kept for the next call
	pieces        [][]byte // of a long body, while it is read
	bodyRead      bool
	sends         bool        // a read of the body began and did not reach its end
	closes        bool        // the connection is closed after the answer, see leave
	cut           atomic.Bool // the body was too slow while other calls waited
	share         share       // of the requests' budget
	answerShare   share       // of the answers' budget
	room          *share      // answerShare, nil while it has none
	problemStatus int         // instead of the code's, see notRouted
	status        int         // 0 until it is answered
	sent          int
	err           error
}

var calls = sync.Pool{New: func() any { return &Call{} }}

// keep is the size up to which buffers are used again.
const keep = 64 << 10

// Handle is a route behind everything that comes before its handler, for an API
// that finds its routes by itself. It panics on a route without a right.
func (h *Host) Handle(route *Route) http.Handler {
	route.mustDeclare()
	serve := h.handle(route)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, Match{}) })
}

// handle is what all requests to a route share.
func (h *Host) handle(route *Route) func(http.ResponseWriter, *http.Request, Match) {
	h.fill()
	var answered func(status int, took time.Duration)
	if h.Meter != nil {
		answered = h.Meter.Route(route.Method, route.Path)
	}
	return func(w http.ResponseWriter, r *http.Request, m Match) { h.serve(w, r, route, m, answered) }
}

// Match is what the wildcards of a route's path stand for, where net/http does
// not know it.
type Match struct {
	Names, Values [4]string
}

// HandleMatch is [Host.Handle] for an API that finds the wildcards' values, too.
func (h *Host) HandleMatch(route *Route) func(http.ResponseWriter, *http.Request, Match) {
	route.mustDeclare()
	return h.handle(route)
}

// mustDeclare panics on a route without a right.
func (r *Route) mustDeclare() {
	if r.Need == auth.Undeclared {
		panic("server: the route " + r.Method + " " + r.Path + " declares no right")
	}
}

func (h *Host) serve(w http.ResponseWriter, r *http.Request, route *Route, m Match, answered func(int, time.Duration)) {
	c := calls.Get().(*Call)
	*c = Call{W: w, R: r, host: h, route: route, path: m, answered: answered, in: c.in[:0], out: c.out[:0], start: clock.Monotonic(), id: duly.NewNumber().String()}
	if h.Tracer != nil && route.Need != auth.Open {
		var ctx context.Context
		ctx, c.traced = h.Tracer.Begin(r, route.Path)
		c.R = r.WithContext(ctx)
	}
	defer c.finish()
	header := w.Header()
	header["X-Request-Id"] = []string{c.id}
	header["Cache-Control"] = noStore
	header["X-Content-Type-Options"] = noSniff
	if h.Leaving.Load() {
		header["Connection"] = closing
	}
	c.run()
	if c.status == statusGone {
		// To return would answer 200 to one that has only closed its own half.
		panic(http.ErrAbortHandler)
	}
}

// PathValue is what a wildcard of the route's path stands for.
func (c *Call) PathValue(name string) string {
	for i, n := range c.path.Names {
		if n == name {
			return c.path.Values[i]
		}
	}
	return c.R.PathValue(name)
}

func (c *Call) run() {
	defer c.rescue()
	if err := c.serve(); err != nil {
		c.Problem(err)
	}
}

func (c *Call) serve() (err error) {
	c.Namespace = c.PathValue("namespace")
	d := c.route.Dialect
	if d != nil {
		c.pass, err = d.Admit(c)
	} else {
		err = c.admit()
	}
	if err != nil {
		c.refused(err)
		return err
	}
	if c.spent, err = c.host.Guard.Spend(c.Context(), c.pass, c.route.Spends); err != nil {
		if c.host.Meter != nil && errors.Is(err, duly.ErrLimited) {
			c.host.Meter.Limited()
		}
		if d != nil {
			err = d.Uncounted(c, err)
		}
		return err
	}
	return c.route.Handler(c)
}

// Query is a query parameter that the route declares; "" if it is absent.
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
		if p.Limit, err = strconv.Atoi(text); err != nil || p.Limit == 0 {
			return p, duly.Invalid("limit", "must be a number between 1 and %d", duly.MaxBatch)
		}
	}
	return p, p.Validate()
}

// Method is the request's, or "other" for one that has no name.
func (c *Call) Method() string { return Method(c.R.Method) }

// Context ends when the caller has hung up.
func (c *Call) Context() context.Context { return c.R.Context() }

// Draining ends when the server wants to stop.
func (c *Call) Draining() context.Context { return c.host.Draining }

// Gone tells whether the caller has hung up, as far as is known.
func (c *Call) Gone() bool { return c.R.Context().Err() != nil }

// Log is for what the access log does not tell.
func (c *Call) Log() *slog.Logger { return c.host.Log.With("request", c.id, "route", c.route.Path) }

// rescue answers a panic. What was answered half is cut off, so that nobody
// takes it for whole.
func (c *Call) rescue() {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler {
		panic(p)
	}
	c.host.Panics.Add(1)
	c.Log().Error("panic in a route", "panic", Line(fmt.Sprint(p)), "stack", string(debug.Stack()))
	if c.status != 0 {
		panic(http.ErrAbortHandler)
	}
	c.Problem(duly.ErrInternal)
}

// finish logs the call and puts its buffers back.
func (c *Call) finish() {
	if c.share.account != nil {
		c.host.collect(c.share.held)
		c.host.requests.give(&c.share)
	}
	c.Release()
	c.tell(clock.Monotonic() - c.start)
	c.log()

	if c.closes && c.status != statusGone {
		c.discard()
	}
	if cap(c.in) > keep {
		c.in = nil
	}
	if cap(c.out) > keep {
		c.out = nil
	}
	*c = Call{in: c.in, out: c.out}
	calls.Put(c)
}

// tell tells everybody who wants to know that the request is over.
func (c *Call) tell(took time.Duration) {
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

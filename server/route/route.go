package route

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
)

// Route is one entry of a server's table of routes.
type Route struct {
	Method string
	// Path is a pattern of net/http's mux: "/v1/{namespace}/push".
	Path string
	// Need is the right that a caller must have. A route without one is not
	// mounted.
	Need auth.Access
	// Spends is the right whose limit a call counts under, if the token has
	// one; 0: the route is never limited.
	Spends duly.Right
	// Query lists the query parameters that the route takes; any other one is
	// refused.
	Query []string
	// MaxBody bounds the request's body, in bytes; 0: the route takes none.
	MaxBody int64
	Handler Handler
	// Dialect is how the route's API speaks; nil: as the native one.
	Dialect *Dialect
	// anyQuery is set where the path is wrong already.
	anyQuery bool
	// Doc says what the route does, for the documents made from the table.
	Doc Doc
}

// Dialect is how an API speaks that is not the native one: what a caller shows
// to be let in, and how an error looks. Its routes take any query and are not
// in the documents made from the table.
type Dialect struct {
	// JSON is the content type of answers.
	JSON []string
	// Admit judges the caller and what stands in the URL before a byte of the
	// body is read. The pass is nil where none is needed.
	Admit func(c *Call) (*auth.Grant, error)
	// Uncounted makes the API's own error of that of a call that its token's
	// limit does not let through.
	Uncounted func(c *Call, err error) error
	// Fail is the answer to an error.
	Fail func(c *Call, err error) (status int, body []byte)
	// Answered, if set, is told of every call that is over: the status of its
	// answer and how long it took.
	Answered func(c *Call, status int, took time.Duration)
}

// Doc describes a route to people and to generators of clients.
type Doc struct {
	// ID names the operation for generated clients: a verb and what it acts on,
	// such as pushJobs.
	ID string
	// Summary is one line, Text more of them.
	Summary, Text string
	// Request and Answer are the forms of the bodies. Nil: there is none.
	Request, Answer wire.Described
	// Status is that of success; 0 is 200.
	Status int
	// ContentType of the answer; "" is application/json.
	ContentType string
	// Errors are the codes that the request as a whole may be answered, beside
	// those of every route.
	Errors []duly.Code
	// Example is a request's body and ExampleAnswer the answer to it, in JSON;
	// ExampleQuery goes behind the path, and ExampleFile is where the answer
	// goes that is no JSON.
	Example, ExampleAnswer, ExampleQuery, ExampleFile string
}

// Handler serves one request. An error that it returns is the answer, unless
// it has answered already.
type Handler func(c *Call) error

// Host is what all routes of a server share.
type Host struct {
	Guard *auth.Guard
	Log   *slog.Logger
	Live
	// Leaving is set when the server is about to stop: answers then ask their
	// callers to close the connection and come again, by which they find another.
	Leaving atomic.Bool
	// Draining ends when the server wants to stop: long polls then answer
	// empty.
	Draining context.Context
	// Memory is for all request bodies over 64 KiB together, in bytes. Default
	// 64 MiB.
	Memory int64
	// AnswerMemory is for all answers over 64 KiB together and what they are
	// made of, in bytes. Default DefaultAnswerMemory.
	AnswerMemory int64
	// Panics counts those that handlers have ended with.
	Panics atomic.Int64
	// Meter, if set, is told what is served.
	Meter Meter
	// Tracer, if set, is told of requests to all routes that are not open.
	Tracer Tracer
	// AccessLog lets requests that went well be logged at info level, instead
	// of debug.
	AccessLog atomic.Bool

	requests, answers *budget
	pieces            pieces
	held              atomic.Int64 // of requests, since the collector was called
	origin            http.CrossOriginProtection
	applied           atomic.Pointer[Live]
}

// Live is what all routes share that may change while they serve.
type Live struct {
	// Proxies are the networks whose X-Forwarded-For is believed, see
	// [auth.Remote].
	Proxies []netip.Prefix
	// Grace is for how long a body may take to arrive, and an answer to be
	// taken, before they must come at 1 KiB a second. Default 10 s.
	Grace time.Duration
}

func (l Live) withDefaults() Live {
	if l.Grace == 0 {
		l.Grace = 10 * time.Second
	}
	return l
}

// Apply takes over what has changed. What is on its way keeps the deadlines that
// it has.
func (h *Host) Apply(l Live) {
	l = l.withDefaults()
	h.applied.Store(&l)
}

// live is what holds now.
func (h *Host) live() *Live { return h.applied.Load() }

// Meter counts what a Host serves. It is told in the middle of requests, by
// several goroutines at once.
type Meter interface {
	// Route is asked once for each route that is mounted; method is "" where
	// there is none. What it answers is told of every request to it: the status
	// of the answer, 0 where there is none, and how long it took.
	Route(method, path string) (answered func(status int, took time.Duration))
	// Refused: a request was not let in, with that code.
	Refused(code duly.Code)
	// Limited: a call was over the limit of its token.
	Limited()
}

// Tracer puts requests into traces.
type Tracer interface {
	// Begin is told of a request to a route. Its context is that of the request
	// from then on; end is told the status of the answer, 0 where there is none.
	Begin(r *http.Request, pattern string) (ctx context.Context, end func(status int))
}

// DefaultAnswerMemory is in bytes.
const DefaultAnswerMemory = 128 << 20

// minRate is in bytes per second.
const minRate = 1 << 10

// MaxURL bounds a request's URL, in bytes.
const MaxURL = 8 << 10

// fill takes the defaults. It is called while a server is put together, by one
// goroutine.
func (h *Host) fill() {
	if h.live() == nil {
		h.Apply(h.Live)
	}
	if h.Memory == 0 {
		h.Memory = 64 << 20
	}
	if h.AnswerMemory == 0 {
		h.AnswerMemory = DefaultAnswerMemory
	}
	if h.requests == nil {
		h.requests, h.answers = newBudget(h.Memory), newBudget(h.AnswerMemory)
	}
}

// Mount returns a handler that serves the routes. It panics on a table that is
// wrong: a route without a right, or two of one path.
func (h *Host) Mount(routes []Route) http.Handler {
	mux := http.NewServeMux()
	for i := range routes {
		r := &routes[i]
		mux.Handle(r.Method+" "+r.Path, h.Handle(r))
	}
	lost := &Route{Path: "unknown", Need: auth.Open, anyQuery: true}
	lost.Handler = func(c *Call) error { return c.notRouted(mux) }
	mux.Handle("/", h.Handle(lost))
	unclean := &Route{Path: "unclean", Need: auth.Open, anyQuery: true}
	unclean.Handler = func(c *Call) error { return checkPath(c.R) }
	refuse := h.Handle(unclean)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if checkPath(r) != nil {
			refuse.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// notRouted answers a request that no route takes: 405 where another method
// would be taken.
func (c *Call) notRouted(mux *http.ServeMux) error {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		other := *c.R
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if allowed == nil {
		return duly.Errorf(duly.CodeNotFound, "there is nothing at this path; /docs on the API's address lists what there is")
	}
	list := strings.Join(allowed, ", ")
	c.W.Header().Set("Allow", list)
	c.problemStatus = http.StatusMethodNotAllowed
	return duly.Invalid("method", "%s is not taken here; this path takes %s", Method(c.R.Method), list)
}

// checkPath refuses what could be read in two ways.
func checkPath(r *http.Request) error {
	if len(r.RequestURI) > MaxURL {
		return duly.TooLarge("url", "has %d bytes, may have at most %d", len(r.RequestURI), MaxURL)
	}
	p := r.URL.Path
	switch {
	case p == "" || p[0] != '/':
		return duly.Invalid("path", "does not begin with a slash")
	case r.URL.RawPath != "" && encodedSlash(r.URL.RawPath):
		return duly.Invalid("path", "has an encoded slash")
	case strings.IndexByte(p, 0) >= 0:
		return duly.Invalid("path", "has a NUL")
	case strings.Contains(p, "//"):
		return duly.Invalid("path", "has an empty segment")
	case len(p) > 1 && p[len(p)-1] == '/':
		return duly.Invalid("path", "ends with a slash")
	case dotted(p):
		return duly.Invalid("path", "has a segment . or ..")
	}
	return nil
}

func encodedSlash(raw string) bool {
	return strings.Contains(raw, "%2f") || strings.Contains(raw, "%2F")
}

func dotted(p string) bool {
	for i := strings.Index(p, "/."); i >= 0; {
		rest := strings.TrimPrefix(p[i+2:], ".")
		if rest == "" || rest[0] == '/' {
			return true
		}
		next := strings.Index(rest, "/.")
		if next < 0 {
			return false
		}
		i = len(p) - len(rest) + next
	}
	return false
}

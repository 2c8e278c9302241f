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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
)

// Route is one entry of a server's table of routes.
type Route struct {
	Method string
	// Path is a pattern of net/http's mux: "/v1/{namespace}/push".
	Path string
	// Access is the right that a caller must have. A route whose Access is the zero value is not
	// mounted.
	Access auth.Access
	// LimitedBy is the right whose limit counts a call, if the token has one. 0 means that no limit
	// counts the route.
	LimitedBy contract.Right
	// Query lists the query parameters of the route. All other parameters are refused.
	Query []string
	// MaxBody is the maximum size of the request's body, in bytes. 0 means that the route takes no
	// body.
	MaxBody int64
	Handler Handler
	// Dialect belongs to an API with its own errors. nil means the native API.
	Dialect *Dialect
	// anyQuery is set if query parameters are not checked, because the path has no route anyway.
	anyQuery bool
	// Doc describes the route in the documents.
	Doc Doc
}

// Dialect is how an API other than the native one authenticates callers and reports errors. Its
// routes take any query, and are not in the documents of the API.
type Dialect struct {
	// JSON is the content type of answers.
	JSON []string
	// Admit checks the caller and the URL before the body is read. The grant is nil if the route
	// needs no right.
	Admit func(c *Call) (*auth.Grant, error)
	// RateLimitError converts the error of a token's rate limit to that of the API.
	RateLimitError func(c *Call, err error) error
	// Fail returns the answer to an error.
	Fail func(c *Call, err error) (status int, body []byte)
	// Answered, if set, is called after every call with its status and duration.
	Answered func(c *Call, status int, took time.Duration)
}

// Form is the form of a body. Package describe generates the documents of the API from it.
type Form interface {
	// Check returns an error if a body does not match the form.
	Check(text string) error
}

// Doc describes a route for people and for generators of clients.
type Doc struct {
	// ID names the operation for generated clients: a verb and an object, as in pushJobs.
	ID string
	// Summary is one line. Text has the details.
	Summary, Text string
	// Request and Answer are the forms of the bodies. nil means that there is no body.
	Request, Answer Form
	// Status is the status of success. Default 200.
	Status int
	// ContentType is the content type of the answer. Default application/json.
	ContentType string
	// Errors are the codes that a whole request may get, in addition to those that every route may
	// get.
	Errors []duly.Code
	// Example is the body of a request, and ExampleAnswer the answer to it, in JSON. ExampleQuery
	// is the query after the path. ExampleFile is the file to which an answer is written that is
	// not JSON.
	Example, ExampleAnswer, ExampleQuery, ExampleFile string
}

// Handler serves one request. If it returns an error, the router answers with that error, unless
// the handler has already answered.
type Handler func(c *Call) error

// Router has the state that all routes of a server share.
type Router struct {
	Guard *auth.Guard
	Log   *slog.Logger
	// Settings are the settings at the start; see [Router.Apply].
	Settings
	// Leaving is set when the server is about to stop. Answers then ask their callers to close the
	// connection, so that the callers reconnect to another server.
	Leaving atomic.Bool
	// Draining ends when the server stops. Long polls then end with an empty answer.
	Draining context.Context
	// Memory is for all request bodies over 64 KiB together, in bytes. Default 64 MiB.
	Memory int64
	// AnswerMemory is the memory, in bytes, for all answers over 64 KiB together and the data that
	// they are built from. Default DefaultAnswerMemory.
	AnswerMemory int64
	// Panics counts panics of handlers.
	Panics atomic.Int64
	// Meter, if set, counts requests.
	Meter Meter
	// Tracer, if set, traces requests to all routes that require a right.
	Tracer Tracer
	// AccessLog logs successful requests at info level instead of debug.
	AccessLog atomic.Bool

	requests, answers *budget
	chunks            chunkPool
	sinceGC           atomic.Int64 // bytes of requests since the last garbage collection; see collect
	origin            http.CrossOriginProtection
	current           atomic.Pointer[Settings]
}

// Settings are the settings that may change while a router serves.
type Settings struct {
	// Proxies are the networks whose X-Forwarded-For is trusted, see [auth.Remote].
	Proxies []netip.Prefix
	// Grace is the time that a body may take to arrive, and an answer to be read, at any speed.
	// After it, both must flow at 1 KiB a second. Default 10 s.
	Grace time.Duration
}

func (s Settings) withDefaults() Settings {
	if s.Grace == 0 {
		s.Grace = 10 * time.Second
	}
	return s
}

// Apply changes the settings. Running requests keep the deadlines that they have.
func (rt *Router) Apply(s Settings) {
	s = s.withDefaults()
	rt.current.Store(&s)
}

// settings returns the current settings.
func (rt *Router) settings() *Settings { return rt.current.Load() }

// Meter counts the requests of a Router. Its methods are called during requests, so they must be
// safe for concurrent use.
type Meter interface {
	// Route is called once for each mounted route. method is "" for a route that takes any method.
	// The function that Route returns is called after every request to the route, with the status
	// of the answer, or 0 without an answer, and the duration.
	Route(method, path string) (answered func(status int, took time.Duration))
	// Refused is called with the code of a request that is not admitted.
	Refused(code duly.Code)
	// Limited is called for a call over the limit of its token.
	Limited()
}

// Tracer traces requests.
type Tracer interface {
	// Begin is called at the beginning of a request to a route. The request continues with the
	// returned context. end is called with the status of the answer, or 0 without an answer.
	Begin(r *http.Request, pattern string) (ctx context.Context, end func(status int))
}

// DefaultAnswerMemory is the default of AnswerMemory, in bytes.
const DefaultAnswerMemory = 128 << 20

// minRate is the lowest speed of a body and an answer after the grace, in bytes per second.
const minRate = 1 << 10

// MaxURL is the maximum length of a request's URL, in bytes.
const MaxURL = 8 << 10

// setDefaults sets the defaults. It needs no lock, because one goroutine builds a router.
func (rt *Router) setDefaults() {
	if rt.settings() == nil {
		rt.Apply(rt.Settings)
	}
	if rt.Memory == 0 {
		rt.Memory = 64 << 20
	}
	if rt.AnswerMemory == 0 {
		rt.AnswerMemory = DefaultAnswerMemory
	}
	// A router has one pair of budgets, even if it mounts several tables.
	if rt.requests == nil {
		rt.requests, rt.answers = newBudget(rt.Memory), newBudget(rt.AnswerMemory)
	}
}

// Mount returns a handler that serves the routes. It panics if the table is wrong: a route declares
// no right, or two routes have the same path.
func (rt *Router) Mount(routes []Route) http.Handler {
	mux := http.NewServeMux()
	for i := range routes {
		r := &routes[i]
		mux.Handle(r.Method+" "+r.Path, rt.Handle(r))
	}
	unknown := &Route{Path: "unknown", Access: auth.Open, anyQuery: true}
	unknown.Handler = func(c *Call) error { return c.notRouted(mux) }
	mux.Handle("/", rt.Handle(unknown))

	// The mux would redirect such a path to its clean form.
	unclean := &Route{Path: "unclean", Access: auth.Open, anyQuery: true}
	unclean.Handler = func(c *Call) error { return checkPath(c.R) }
	refuse := rt.Handle(unclean)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if checkPath(r) != nil {
			refuse.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// notRouted answers a request without a route: 405 if the path has a route for another
// method, else 404.
func (c *Call) notRouted(mux *http.ServeMux) error {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		// The mux finds a route by method and path, so it is asked with every method.
		other := *c.R
		other.Method = method
		// "/" is the pattern of the requests without a route.
		if _, pattern := mux.Handler(&other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if allowed == nil {
		return contract.Errorf(duly.CodeNotFound,
			"there is no route at this path; /docs on the API's address lists the routes")
	}

	list := strings.Join(allowed, ", ")
	c.W.Header().Set("Allow", list)
	c.problemStatus = http.StatusMethodNotAllowed
	return contract.Invalid("method", "%s is not allowed here; this path takes only %s", Method(c.R.Method), list)
}

// checkPath refuses paths that have two spellings, and URLs that are too long.
func checkPath(r *http.Request) error {
	if len(r.RequestURI) > MaxURL {
		return contract.TooLarge("url", "has %d bytes, may have at most %d", len(r.RequestURI), MaxURL)
	}

	p := r.URL.Path
	switch {
	case p == "" || p[0] != '/':
		return contract.Invalid("path", "must begin with a slash")
	case r.URL.RawPath != "" && encodedSlash(r.URL.RawPath):
		return contract.Invalid("path", "has an encoded slash")
	case strings.IndexByte(p, 0) >= 0:
		return contract.Invalid("path", "has a NUL")
	case strings.Contains(p, "//"):
		return contract.Invalid("path", "has an empty segment")
	case len(p) > 1 && p[len(p)-1] == '/':
		return contract.Invalid("path", "ends with a slash")
	case dotted(p):
		return contract.Invalid("path", "has a segment . or ..")
	}
	return nil
}

func encodedSlash(raw string) bool {
	return strings.Contains(raw, "%2f") || strings.Contains(raw, "%2F")
}

// dotted reports whether a path has a segment "." or "..".
func dotted(p string) bool {
	for i := strings.Index(p, "/."); i >= 0; {
		// A segment "." or ".." ends at this place, because a slash or the end of the path follows.
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

package lmstfy

import (
	"net/http"
	"strings"
	"time"

	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// pathRouter finds routes as lmstfy does. Unlike net/http's mux it decodes the path before it
// matches it, and neither cleans it nor redirects. HEAD is not GET, and a path with another
// method is unknown.
type pathRouter struct {
	entries []entry
	unknown http.Handler
}

type entry struct {
	method   string
	segments []string
	handle   func(http.ResponseWriter, *http.Request, route.Match)
}

// maxSegments is larger than the number of segments in any route.
const maxSegments = 8

// newPathRouter mounts the routes. Requests to other paths go to unknown.
func newPathRouter(
	rt *route.Router, routes []route.Route, answered func(*route.Call, int, time.Duration), unknown route.Handler,
) *pathRouter {
	r := &pathRouter{unknown: rt.Handle(&route.Route{
		Path: "unknown", Access: auth.Open, Handler: unknown,
		Dialect: &route.Dialect{JSON: jsonType, Fail: fail, Answered: answered, Admit: admitAll},
	})}
	for i := range routes {
		segments := strings.Split(routes[i].Path, "/")
		r.entries = append(r.entries, entry{routes[i].Method, segments, rt.HandleMatch(&routes[i])})
	}
	return r
}

// ServeHTTP implements http.Handler.
func (r *pathRouter) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var room [maxSegments]string
	segments := room[:0]
	for s := range strings.SplitSeq(req.URL.Path, "/") {
		// No route is that long. The bound keeps the segments on the stack.
		if len(segments) == maxSegments {
			r.unknown.ServeHTTP(w, req)
			return
		}
		segments = append(segments, s)
	}

	for i := range r.entries {
		e := &r.entries[i]
		if e.method != req.Method {
			continue
		}
		if m, ok := e.match(segments); ok {
			e.handle(w, req, m)
			return
		}
	}
	r.unknown.ServeHTTP(w, req)
}

// match reports whether the segments match the route, and returns the values of its wildcards.
// A wildcard matches every segment that is not empty.
func (e *entry) match(segments []string) (m route.Match, ok bool) {
	if len(segments) != len(e.segments) {
		return m, false
	}

	n := 0
	for i, s := range e.segments {
		switch {
		case !wildcard(s):
			if segments[i] != s {
				return m, false
			}
		case segments[i] == "":
			return m, false
		default:
			m.Names[n], m.Values[n] = s[1:len(s)-1], segments[i]
			n++
		}
	}
	return m, true
}

func wildcard(segment string) bool { return strings.HasPrefix(segment, "{") }

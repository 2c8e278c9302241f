package lmstfy

import (
	"net/http"
	"strings"
	"time"

	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

// router finds routes as lmstfy does, and as net/http's mux does not: the path
// is decoded before it is matched, nothing is cleaned or redirected, HEAD is
// not GET, and another method is no route.
type router struct {
	entries []entry
	lost    http.Handler
}

type entry struct {
	method   string
	segments []string
	handle   func(http.ResponseWriter, *http.Request, route.Match)
}

// mostSegments is more than any route has.
const mostSegments = 8

// newRouter mounts the routes; what is none of them goes to lost.
func newRouter(h *route.Router, routes []route.Route, answered func(*route.Call, int, time.Duration), lost route.Handler) *router {
	r := &router{lost: h.Handle(&route.Route{
		Path: "unknown", Access: auth.Open, Handler: lost, Dialect: &route.Dialect{JSON: jsonType, Fail: fail, Answered: answered, Admit: anybody},
	})}
	for i := range routes {
		r.entries = append(r.entries, entry{routes[i].Method, strings.Split(routes[i].Path, "/"), h.HandleMatch(&routes[i])})
	}
	return r
}

// ServeHTTP implements http.Handler.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var room [mostSegments]string
	segments := room[:0]
	for s := range strings.SplitSeq(req.URL.Path, "/") {
		if len(segments) == mostSegments {
			r.lost.ServeHTTP(w, req)
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
	r.lost.ServeHTTP(w, req)
}

// match tells whether the segments are those of the route, and what its
// wildcards stand for: each takes anything but nothing.
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

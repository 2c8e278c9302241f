package lmstfy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/server/auth"
	own "github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// Admin is lmstfy's admin API.
//
// lmstfy asks for no credentials there unless it has accounts. Here a caller shows
// a token with the right admin for all namespaces, or an account. If Open is set,
// a request from the same machine needs neither: one that names the machine by a
// loopback address, has no proxy in front of it, and was not sent by another site
// through a browser. Such a request gets no metrics, and tokens with the right
// admin do not exist for it.
type Admin struct {
	Engine   duly.Contract
	Registry duly.Registry
	Pools    *pools.Pools // nil: there is one engine
	Guard    *auth.Guard
	Router   *route.Router
	// Open reports whether callers from the same machine are let in without a
	// token. It is for a loopback address without accounts.
	Open func() bool
	// Gatherer is what /metrics tells, see [API.Collectors].
	Gatherer prometheus.Gatherer
	// Version is told by /version.
	Version string
}

// Routes is the table of the admin address.
func (a *Admin) Routes() []route.Route {
	const tokens, one = "/token/{namespace}", "/token/{namespace}/{token}"
	const limit = one + "/limit"
	routes := []route.Route{
		{Method: "POST", Path: tokens, MaxBody: smallBody, Handler: a.createToken},
		{Method: "GET", Path: tokens, Handler: a.listTokens},
		{Method: "DELETE", Path: one, Handler: a.deleteToken},
		{Method: "POST", Path: limit, MaxBody: smallBody, Handler: a.addLimiter},
		{Method: "PUT", Path: limit, MaxBody: smallBody, Handler: a.setLimiter},
		{Method: "GET", Path: limit, Handler: a.limiter},
		{Method: "DELETE", Path: limit, Handler: a.deleteLimiter},
		{Method: "GET", Path: "/limits", Handler: a.limiters},
		{Method: "GET", Path: "/info", Handler: a.info},
		{Method: "GET", Path: "/metrics", Handler: func(c *route.Call) error { return own.Serve(a.Gatherer, c) }},
		{Method: "GET", Path: "/pools", Handler: a.pools},
		{Method: "GET", Path: "/version", Handler: a.version},
		{Method: "GET", Path: "/accesslog", Handler: a.accessLog},
		{Method: "POST", Path: "/accesslog", Handler: a.setAccessLog},
	}
	for i := range routes {
		routes[i].Access = auth.Operator
		routes[i].Dialect = &route.Dialect{JSON: jsonType, Fail: failAdmin, Admit: a.admit}
		if routes[i].Path == "/metrics" {
			routes[i].Dialect.Admit = admitKnown
		}
	}
	return routes
}

// smallBody bounds what forms and limiters may have, in bytes.
const smallBody = 64 << 10

// Handler serves the routes, and hands what is none of them on.
func (a *Admin) Handler(next http.Handler) http.Handler {
	r := newRouter(a.Router, a.Routes(), nil, func(c *route.Call) error {
		return c.ReplyAs(http.StatusNotFound, "text/plain", []byte("404 page not found"))
	})
	own := map[string]bool{}
	for i := range r.entries {
		own[r.entries[i].segments[1]] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		if own[first] {
			r.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// admitKnown lets in callers with credentials.
func admitKnown(c *route.Call) (*auth.Grant, error) {
	if len(c.R.RequestURI) > route.MaxURL {
		return nil, errTooLongURL
	}
	return c.CheckToken()
}

// admit is admitKnown, and lets in callers on this machine if it is open to them.
func (a *Admin) admit(c *route.Call) (*auth.Grant, error) {
	scheme, _, _ := strings.Cut(c.R.Header.Get("Authorization"), " ")
	if a.Open() && len(c.R.RequestURI) <= route.MaxURL && !strings.EqualFold(scheme, "Bearer") && local(c.R) {
		return nil, c.CheckOrigin()
	}
	return admitKnown(c)
}

// shows reports whether a caller may see and change a token. One without
// credentials may not if the token has the right admin, nor may anybody here if
// it is for all namespaces, which lmstfy does not know.
func shows(c *route.Call, t *duly.Token) bool {
	return t.Namespace != duly.AllNamespaces && (c.Authenticated() || !t.Rights.Includes(duly.RightAdmin))
}

// local tells whether a request comes from this machine and means it: a name
// that somebody else has pointed here, as for a browser, is none.
func local(r *http.Request) bool {
	for _, header := range [...]string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}
	return loopback(r.RemoteAddr) && loopback(r.Host)
}

// loopback judges host or host:port.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

// failAdmin is the answer to an error on the admin address. Where credentials are
// missing it asks for them as lmstfy does.
func failAdmin(c *route.Call, err error) (status int, body []byte) {
	if errors.Is(err, duly.ErrUnauthorized) {
		c.W.Header().Set("WWW-Authenticate", `Basic realm="Authorization Required"`)
		return http.StatusUnauthorized, nil
	}
	if errors.Is(err, duly.ErrForbidden) {
		return http.StatusForbidden, toJSON(failure{messageOf(err)})
	}
	return fail(c, err)
}

// each walks over all pages of a list; page is called with the cursor of each
// and tells the next.
func each(ctx context.Context, page func(p duly.PageParams) (next string, err error)) error {
	p := duly.PageParams{Limit: duly.MaxBatch}
	for {
		next, err := page(p)
		if err != nil || next == "" {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p.Cursor = next
	}
}

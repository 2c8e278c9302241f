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
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
	own "github.com/dulymq/duly/server/metrics"
	"github.com/dulymq/duly/server/pools"
	"github.com/dulymq/duly/server/route"
)

// Admin is lmstfy's admin API.
//
// lmstfy's own admin API requires no credentials unless accounts are configured. This API requires
// a token with the right admin for all namespaces, or an account. If Open returns true, a request
// from the same machine needs neither. Such a request names the machine by a loopback address,
// passes no proxy, and does not come from another site through a browser. Such a request gets no
// metrics, and cannot see or change tokens with the right admin.
type Admin struct {
	Engine   contract.Engine
	Registry contract.Registry
	Pools    *pools.Pools // nil if there is only one engine
	Guard    *auth.Guard
	Router   *route.Router
	// Open reports whether callers from the same machine need no token. It must return false unless
	// the address is on the loopback and there are no accounts.
	Open func() bool
	// Gatherer has the metrics for /metrics, see [API.Collectors].
	Gatherer prometheus.Gatherer
	// Version is the answer of /version.
	Version string
}

// Routes returns the routes of the admin address.
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
			// Metrics name every namespace, so they require credentials even if the API is open.
			routes[i].Dialect.Admit = admitAuthenticated
		}
	}
	return routes
}

// smallBody is the maximum size of the bodies of forms and limiters, in bytes.
const smallBody = 64 << 10

// Handler returns a handler of the routes. Requests to other paths go to next.
func (a *Admin) Handler(next http.Handler) http.Handler {
	r := newPathRouter(a.Router, a.Routes(), nil, func(c *route.Call) error {
		return c.ReplyAs(http.StatusNotFound, "text/plain", []byte("404 page not found"))
	})
	// Only paths that begin like a route belong to lmstfy's API. Other paths belong to duly's admin
	// API.
	firsts := map[string]bool{}
	for i := range r.entries {
		firsts[r.entries[i].segments[1]] = true
	}

	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		first, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
		if firsts[first] {
			r.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// admitAuthenticated admits callers with credentials.
func admitAuthenticated(c *route.Call) (*auth.Grant, error) {
	if len(c.R.RequestURI) > route.MaxURL {
		return nil, errTooLongURL
	}
	return c.CheckToken()
}

// admit is like admitAuthenticated. If the API is open, it also admits callers on this machine.
func (a *Admin) admit(c *route.Call) (*auth.Grant, error) {
	scheme, _, _ := strings.Cut(c.R.Header.Get("Authorization"), " ")
	if a.Open() && len(c.R.RequestURI) <= route.MaxURL && !strings.EqualFold(scheme, "Bearer") && isLocal(c.R) {
		// A browser on this machine may send a request for another site.
		return nil, c.CheckOrigin()
	}
	return admitAuthenticated(c)
}

// shows reports whether a caller may see and change a token. A caller without credentials may not
// see a token with the right admin. No caller of this API may see a token for all namespaces,
// because lmstfy has no such tokens.
func shows(c *route.Call, t *contract.Token) bool {
	return t.Namespace != contract.AllNamespaces && (c.Authenticated() || !t.Rights.Includes(contract.RightAdmin))
}

// isLocal reports whether a request comes from this machine and names it by a loopback address. The
// name is checked because a page in a browser may use another name that resolves to this machine.
func isLocal(r *http.Request) bool {
	// A proxy on this machine forwards requests of other machines.
	for _, header := range [...]string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via"} {
		if r.Header.Get(header) != "" {
			return false
		}
	}
	return loopback(r.RemoteAddr) && loopback(r.Host)
}

// loopback reports whether a host, or host:port, is on the loopback.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		// A Host header may have no port.
		host = strings.Trim(hostport, "[]")
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

// failAdmin returns the answer to an error on the admin address. If credentials are missing, the
// answer asks for them as lmstfy does.
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

// eachPage calls page for each page of a list. page returns the cursor of the next page.
func eachPage(ctx context.Context, page func(p duly.PageParams) (next string, err error)) error {
	p := duly.PageParams{Limit: duly.MaxBatch}
	for {
		next, err := page(p)
		if err != nil || next == "" {
			return err
		}
		// A list may be long, so it ends with its caller.
		if err := ctx.Err(); err != nil {
			return err
		}
		p.Cursor = next
	}
}

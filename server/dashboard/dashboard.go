package dashboard

import (
	"context"
	"embed"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/turns"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/assets"
	"github.com/dulymq/duly/server/dashboard/attention"
	"github.com/dulymq/duly/server/dashboard/feed"
	"github.com/dulymq/duly/server/dashboard/history"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/failures"
	"github.com/dulymq/duly/server/operations"
	"github.com/dulymq/duly/server/route"
)

//go:embed templates/*.html
var templates embed.FS

// Config configures a Dashboard. The fields up to Key must be set.
type Config struct {
	Engine    contract.Engine
	Surveyor  contract.Surveyor
	Explainer contract.Explainer
	Finder    contract.Finder
	KeyLister contract.KeyLister
	Guard     *auth.Guard
	Clock     duly.Clock
	Audit     Auditor
	// Operations are those of the server, and Server is its name.
	Operations *operations.Manager
	Server     string
	Version    string
	// Key seals the cookies.
	Key []byte
	// Insecure permits a login over plain HTTP on an address that is not the loopback. Secure is set if the address has
	// TLS. ReadOnly refuses every action. HideBodies removes bodies, headers and results from the pages.
	Insecure, Secure, ReadOnly, HideBodies bool
	// Origin is the origin at which browsers reach the pages through a proxy, such as https://duly.example.com.
	Origin string
	// Label names the environment on every page. Color is blue, green, orange or red, "" for none.
	Label, Color string
	// History configures the charts. Look and Clock are set here.
	History history.Config
	Facts   Facts
	// Scheduler is nil for an engine without schedules.
	Scheduler duly.Scheduler
	// Targets returns the targets of a namespace. It is nil for a server without HTTP push.
	Targets func(namespace string) contract.PushTargets
	// CheckDestination returns an error for a URL that no job may be sent to. Nil permits every URL.
	CheckDestination func(field, text string) error
	// Targeted, if set, is called after the configuration of a group's target.
	Targeted func()
}

// Dashboard serves the pages.
type Dashboard struct {
	cfg    Config
	pages  *render.Set
	files  *assets.Set
	sealer *session.Sealer
	codes  *session.Codes
	origin http.CrossOriginProtection
	// host is the host of a proxy's origin, "" without one.
	host string

	nav     []view.Nav // their paths are those below the overview
	results results
	feed    *feed.Feed
	history *history.History
	vitals  vitals
	// attention has what needs an operator.
	attention attention.Tracker
	failures  failures.Tracker
	streams   streams
	searches  searches
	exports   searches
	// saving has the queue of a request from its review until its end.
	saving turns.Turns[duly.QueueRef]
}

// New returns a Dashboard.
func New(c Config) (*Dashboard, error) {
	d := &Dashboard{cfg: c, codes: &session.Codes{Clock: c.Clock}, results: results{clock: c.Clock, list: map[string]*result{}},
		streams: streams{each: map[string]int{}}}
	d.feed = &feed.Feed{Surveyor: c.Surveyor, Clock: c.Clock}
	c.History.Look, c.History.Clock = d.feed.Look, c.Clock
	d.history = history.New(c.History)
	d.failures.Engine, d.failures.Clock = c.Engine, c.Clock
	d.vitals.facts, d.feed.Seen = c.Facts, d.observe
	var err error
	if c.Origin != "" {
		at, err := url.Parse(c.Origin)
		if err == nil {
			err = d.origin.AddTrustedOrigin(c.Origin)
		}
		if err != nil {
			return nil, contract.Invalid("origin", "is %q, must be like https://duly.example.com", c.Origin)
		}
		d.host = at.Hostname()
		// Browsers see the proxy's connection.
		d.cfg.Secure = c.Secure || at.Scheme == "https"
	}
	if d.pages, err = render.Parse(templates, "templates/*.html", funcs); err != nil {
		return nil, err
	}
	if d.files, err = assets.Load(); err != nil {
		return nil, err
	}
	d.sealer, err = session.NewSealer(c.Key, "duly_ui")
	return d, err
}

// Run keeps the history until ctx ends. Without a session it makes no call to the engine.
func (d *Dashboard) Run(ctx context.Context) { d.history.Run(ctx) }

// Routes returns the table of routes. Every page has the right of the API's route with the same answer.
func (d *Dashboard) Routes() []route.Route {
	list := slices.Concat([]route.Route{
		d.route("GET", Prefix, auth.Open, d.start),
		d.route("GET", Prefix+"/login", auth.Open, d.loginPage),
		d.route("POST", Prefix+"/login", auth.Open, d.login),
		d.route("POST", Prefix+"/logout", auth.Open, d.logout),
		d.route("GET", Prefix+"/assets/{hash}/{file...}", auth.Open, d.asset),

		d.route("POST", Prefix+"/theme", auth.Open, d.theme),
		d.route("GET", atNamespace+"/live", auth.Either, d.live),
		d.route("GET", ofOperation.at, auth.Either, d.operation),
		d.route("GET", atQueue, auth.Either, d.queue),
		d.route("GET", atQueue+"/find", auth.Consume, d.openJob),
		d.route("GET", atQueue+"/keys", auth.Consume, d.keys),
		d.route("GET", atNamespace+"/find", auth.Consume, d.find),
		d.route("GET", atQueue+"/{state}", auth.Consume, d.jobs),
		d.route("GET", atQueue+"/j/{id}", auth.Consume, d.job),
		d.route("GET", atQueue+"/export/{state}", auth.Consume, d.export),
		d.route("", Prefix+"/{rest...}", auth.Open, d.unknown),
	}, d.actionRoutes(), d.formRoutes(&pushForm, &settingsForm, &startForm))

	d.nav = nil
	page := func(text, key, to string, access auth.Access, handler route.Handler) {
		d.nav = append(d.nav, view.Nav{Text: text, Key: key, To: render.Path(to), Access: access})
		list = append(list, d.route("GET", atNamespace+to, access, handler))
	}
	page("Overview", "o", "", auth.Either, d.overview)
	page("Queues", "q", "/queues", auth.Either, d.queues)
	page("Dead letters", "d", "/dead", auth.Consume, d.dead)
	page("Operations", "b", "/ops", auth.Either, d.operations)
	if d.has(ofSchedule) {
		page("Schedules", "s", "/schedules", auth.Either, d.schedules)
		list = append(append(list, d.route("GET", ofSchedule.at, auth.Either, d.schedule)), d.formRoutes(&scheduleForm)...)
	}
	if d.has(ofTarget) {
		page("Push targets", "p", "/targets", auth.Produce, d.targets)
		list = append(append(list, d.route("GET", ofTarget.at, auth.Produce, d.target)), d.formRoutes(&targetForm)...)
	}
	return list
}

// has reports whether the server has a feature.
func (d *Dashboard) has(of *kind) bool {
	return (of != ofSchedule || d.cfg.Scheduler != nil) && (of != ofTarget || d.cfg.Targets != nil)
}

// maxForm bounds the form of a login, in bytes.
const maxForm = 8 << 10

func (d *Dashboard) route(method, pattern string, access auth.Access, handler route.Handler) route.Route {
	r := route.Route{Method: method, Path: pattern, Access: access, Handler: handler, Dialect: &route.Dialect{
		JSON:           []string{"text/html; charset=utf-8"},
		Admit:          func(c *route.Call) (*auth.Grant, error) { return d.admit(c, access) },
		RateLimitError: func(_ *route.Call, err error) error { return err },
		Fail:           d.fail,
	}}
	if method == "POST" {
		r.MaxBody = maxForm
	}
	return r
}

// Handler adds the security headers to every answer below [Prefix], also to those of the router itself, and
// sends other requests to next.
func (d *Dashboard) Handler(pages, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != Prefix && !strings.HasPrefix(r.URL.Path, Prefix+"/") {
			next.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", assets.Policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "")
		pages.ServeHTTP(w, r)
	})
}

// asset serves a file. Its URL has the hash of all files, so it never changes.
func (d *Dashboard) asset(c *route.Call) error {
	f, ok := d.files.File(c.PathValue("file"))
	if !ok || c.PathValue("hash") != d.files.Hash {
		return d.unknown(c)
	}
	h := c.W.Header()
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(c.R.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		return c.ReplyAs(http.StatusOK, f.Type, f.Gzip)
	}
	return c.ReplyAs(http.StatusOK, f.Type, f.Raw)
}

func (d *Dashboard) unknown(*route.Call) error {
	return contract.Errorf(duly.CodeNotFound, "there is no page at this address")
}

// seeOther answers with a redirect to another page.
func seeOther(c *route.Call, to render.Path) error {
	c.W.Header().Set("Location", string(to))
	return c.ReplyAs(http.StatusSeeOther, "text/plain; charset=utf-8", nil)
}

package dashboard

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/audit"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/session"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// admit returns the grant of a session, and checks where a change comes from.
func (d *Dashboard) admit(c *route.Call, access auth.Access) (*auth.Grant, error) {
	if err := d.checkHost(c.R); err != nil {
		return nil, err
	}
	if c.R.Method == "POST" {
		if err := d.checkOrigin(c.R); err != nil {
			return nil, err
		}
	}
	if access == auth.Open {
		return nil, nil
	}

	s, grant, err := d.caller(c)
	if err != nil {
		return nil, err
	}
	if !access.Allows(&grant.Token, contract.NamespaceOr(c.Namespace)) {
		return grant, access.Refusal()
	}
	if now := d.cfg.Clock.Now(); s.Stale(now) {
		s.Used = now
		d.setSession(c, s)
	}
	return grant, nil
}

// checkOrigin refuses a change that another site sends. Go's check permits requests without both headers, which are
// not from a browser, but every caller of a page is one.
func (d *Dashboard) checkOrigin(r *http.Request) error {
	named := r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
	if !named || d.origin.Check(r) != nil {
		return contract.Errorf(duly.CodeForbidden,
			"another site has sent this form; open the dashboard and repeat it there")
	}
	return nil
}

// localOf returns the address of this server that a request has reached.
func localOf(r *http.Request) (local *net.TCPAddr, ok bool) {
	local, ok = r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return local, ok
}

// checkHost refuses foreign host names on the loopback: a foreign site may point its own name to this address.
func (d *Dashboard) checkHost(r *http.Request) error {
	if local, ok := localOf(r); !ok || !local.IP.IsLoopback() {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	at, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if host == "localhost" || host == d.host || err == nil && at.IsLoopback() {
		return nil
	}
	return contract.Errorf(duly.CodeForbidden, "the host of the request is not the dashboard's; open it under localhost")
}

func (d *Dashboard) session(c *route.Call) (s session.Session, err error) {
	cookie, err := c.R.Cookie(d.cookieName(c.R))
	if err != nil {
		return s, contract.Errorf(duly.CodeUnauthorized, "there is no session; log in")
	}
	return d.sealer.Open(cookie.Value, d.cfg.Clock.Now())
}

// caller returns the session of a request, and what it may do now.
func (d *Dashboard) caller(c *route.Call) (s session.Session, grant *auth.Grant, err error) {
	if s, err = d.session(c); err == nil {
		grant, err = d.grant(c, s.Login)
	}
	return s, grant, err
}

// grant returns what the caller of a login may do now.
func (d *Dashboard) grant(c *route.Call, of session.Login) (*auth.Grant, error) {
	if of.Account != "" {
		return d.cfg.Guard.AdmitAccount(of.Account, of.Credential)
	}
	return d.cfg.Guard.Admit(c.Context(), of.Credential)
}

// cookieName has the port, because browsers send a cookie to every port of a host.
func (d *Dashboard) cookieName(r *http.Request) string {
	name := "duly_ui"
	if local, ok := localOf(r); ok {
		name += "_" + strconv.Itoa(local.Port)
	}
	// The prefix makes the browser refuse the cookie of a subdomain or of plain HTTP.
	if d.cfg.Secure {
		return "__Host-" + name
	}
	return name
}

// setCookie sets a cookie for some seconds. A negative number removes it.
func (d *Dashboard) setCookie(c *route.Call, name, path, value string, seconds int) {
	http.SetCookie(c.W, &http.Cookie{
		Name: name, Value: value, Path: path, MaxAge: seconds,
		HttpOnly: true, Secure: d.cfg.Secure, SameSite: http.SameSiteStrictMode,
	})
}

// setSession keeps a session in its cookie.
func (d *Dashboard) setSession(c *route.Call, s session.Session) {
	d.setCookie(c, d.cookieName(c.R), "/", d.sealer.Seal(s), int(session.Lifetime.Seconds()))
}

// start sends a caller to the first page of its session, or to that of another namespace.
func (d *Dashboard) start(c *route.Call) error {
	_, grant, err := d.caller(c)
	if err != nil {
		return err
	}
	return seeOther(c, path("n", cmp.Or(c.Query("namespace"), home(grant))))
}

// home returns the namespace of the first page.
func home(grant *auth.Grant) string {
	if grant.Token.Namespace == contract.AllNamespaces {
		return duly.DefaultNamespace
	}
	return grant.Token.Namespace
}

// loginPage shows the form. The page of a login code has the code in a form, so that a preview of its link does not
// use it up.
func (d *Dashboard) loginPage(c *route.Call) error {
	return d.replyLogin(c, http.StatusOK, view.Login{Code: c.Query("code")})
}

func (d *Dashboard) replyLogin(c *route.Call, status int, v view.Login) error {
	v.Frame = d.frame(c, "Log in")
	if d.exposed(c) {
		v.Refused = "This connection is not encrypted, so a token would be readable on the way. " +
			"Use TLS for the admin address, or open the dashboard on the server's own machine."
	}
	return d.reply(c, status, "login.html", v)
}

// exposed reports whether others may read the connection.
func (d *Dashboard) exposed(c *route.Call) bool {
	// Without a proxy, the connection itself may be plain although the origin is not.
	if d.cfg.Insecure || d.cfg.Secure && d.host == "" {
		return false
	}
	local, ok := localOf(c.R)
	return ok && !local.IP.IsLoopback()
}

// login begins a session. Every wrong secret has the same answer.
func (d *Dashboard) login(c *route.Call) error {
	if d.exposed(c) {
		return d.replyLogin(c, http.StatusForbidden, view.Login{})
	}
	form, err := readForm(c)
	if err != nil {
		return err
	}

	grant, err := d.identify(c, form)
	if errors.Is(err, duly.ErrUnauthorized) {
		// A login that fails is refused in any case, so it needs no line before it.
		if end, failed := d.auditLogin(c, "", ""); failed == nil {
			end(audit.Outcome{Err: err})
		}
		v := view.Login{Problem: "The token, or the name and password, are wrong."}
		if form.Get("code") != "" {
			v.Problem = "This link has been used, or is older than a minute. Run duly ui again."
		}
		return d.replyLogin(c, http.StatusUnauthorized, v)
	}
	if err != nil {
		return err
	}
	s := session.New(loginOf(grant), d.cfg.Clock.Now())
	end, err := d.auditLogin(c, grant.Name(), s.Mark())
	if err != nil {
		return err
	}
	end(audit.Outcome{})
	d.setSession(c, s)
	return seeOther(c, path("n", home(grant)))
}

// auditLogin writes the intent of a login. A failed one has neither a caller nor the mark of a session.
func (d *Dashboard) auditLogin(c *route.Call, caller, mark string) (end func(audit.Outcome), err error) {
	return d.begin(audit.Action{
		Caller: caller, Session: mark, Remote: c.R.RemoteAddr, Via: "dashboard", Route: "POST " + Prefix + "/login", Request: c.ID(),
	})
}

// readForm reads the fields of a form.
func readForm(c *route.Call) (url.Values, error) {
	text, err := c.Body()
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(text)
	if err != nil {
		return nil, contract.Invalid("form", "can't be read")
	}
	return form, nil
}

func (d *Dashboard) identify(c *route.Call, form url.Values) (*auth.Grant, error) {
	if name := form.Get("name"); name != "" {
		basic := base64.StdEncoding.EncodeToString([]byte(name + ":" + form.Get("password")))
		credentials := auth.Credentials{Header: "Basic " + basic, Remote: c.Remote()}
		return d.cfg.Guard.Check(c.Context(), credentials, auth.Operator, "")
	}
	secret := strings.TrimSpace(form.Get("token"))
	if code := form.Get("code"); code != "" {
		if login, ok := d.codes.Redeem(code); ok {
			return d.grant(c, login)
		}
		secret = code
	}
	// The hash of any other text is unknown, and counts as a failed try too.
	return d.cfg.Guard.AdmitChosen(c.Context(), c.Remote(), "dashboard", sha256.Sum256([]byte(secret)))
}

// loginOf returns what a session holds of a grant.
func loginOf(grant *auth.Grant) session.Login {
	l := session.Login{Credential: grant.Credential()}
	if grant.Account() {
		l.Account = grant.Token.Description
	}
	return l
}

// NewLoginCode creates a code for one session with the rights of a grant. It returns the page that takes the code.
func (d *Dashboard) NewLoginCode(grant *auth.Grant) (page string, expires time.Time) {
	code := d.codes.Create(loginOf(grant))
	return string(path("login")) + "?code=" + url.QueryEscape(code), d.cfg.Clock.Now().Add(session.CodeLifetime)
}

// logout ends the session of this browser.
func (d *Dashboard) logout(c *route.Call) error {
	d.setCookie(c, d.cookieName(c.R), "/", "", -1)
	return seeOther(c, path("login"))
}

// themeCookie names the theme of a browser. The server reads it, so no page flashes.
const themeCookie = "duly_ui_theme"

// nextTheme has the theme that follows another one. "" is the theme of the system.
var nextTheme = map[string]string{"": "light", "light": "dark", "dark": "system"}

// theme returns light or dark, "" for that of the system.
func theme(c *route.Call) string {
	cookie, err := c.R.Cookie(themeCookie)
	if err != nil || cookie.Value != "light" && cookie.Value != "dark" {
		return ""
	}
	return cookie.Value
}

// theme changes the theme of a browser, and returns to the page of the form.
func (d *Dashboard) theme(c *route.Call) error {
	form, err := readForm(c)
	if err != nil {
		return err
	}
	if chosen := form.Get("theme"); chosen == "light" || chosen == "dark" {
		d.setCookie(c, themeCookie, Prefix, chosen, 365*24*3600)
	} else {
		d.setCookie(c, themeCookie, Prefix, "", -1)
	}

	// The page must be one of the dashboard: another site may not choose it.
	back := form.Get("back")
	if !strings.HasPrefix(back, Prefix+"/") || strings.ContainsAny(back, "\\\r\n") {
		back = Prefix
	}
	return seeOther(c, render.Path(back))
}

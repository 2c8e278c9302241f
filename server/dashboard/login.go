package dashboard

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/auth"
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

	s, err := d.session(c)
	if err != nil {
		return nil, err
	}
	grant, err := d.grant(c, &s)
	if err != nil {
		return nil, err
	}
	if !access.Allows(&grant.Token, contract.NamespaceOr(c.Namespace)) {
		return grant, access.Refusal()
	}
	if now := d.cfg.Clock.Now(); s.Stale(now) {
		s.Used = now
		d.setCookie(c, d.sealer.Seal(s), int(session.Lifetime.Seconds()))
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

// checkHost refuses foreign host names on the loopback: a foreign site may point its own name to this address.
func (d *Dashboard) checkHost(r *http.Request) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !local.IP.IsLoopback() {
		return nil
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	at, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if host == "localhost" || err == nil && at.IsLoopback() {
		return nil
	}
	return contract.Errorf(duly.CodeForbidden, "this address does not serve the host of the request; open it as localhost")
}

func (d *Dashboard) session(c *route.Call) (s session.Session, err error) {
	cookie, err := c.R.Cookie(d.cookieName(c.R))
	if err != nil {
		return s, contract.Errorf(duly.CodeUnauthorized, "there is no session; log in")
	}
	return d.sealer.Open(cookie.Value, d.cfg.Clock.Now())
}

// grant returns what a session may do now.
func (d *Dashboard) grant(c *route.Call, s *session.Session) (*auth.Grant, error) {
	if s.Account != "" {
		return d.cfg.Guard.AdmitAccount(s.Account)
	}
	return d.cfg.Guard.Admit(c.Context(), s.Token)
}

// cookieName has the port, because browsers send a cookie to every port of a host.
func (d *Dashboard) cookieName(r *http.Request) string {
	name := "duly_ui"
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if _, port, err := net.SplitHostPort(local.String()); err == nil {
			name += "_" + port
		}
	}
	// The prefix makes the browser refuse the cookie of a subdomain or of plain HTTP.
	if d.cfg.Secure {
		return "__Host-" + name
	}
	return name
}

func (d *Dashboard) setCookie(c *route.Call, value string, maxAge int) {
	http.SetCookie(c.W, &http.Cookie{
		Name: d.cookieName(c.R), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: d.cfg.Secure, SameSite: http.SameSiteStrictMode,
	})
}

// start sends a caller to the first page of its session.
func (d *Dashboard) start(c *route.Call) error {
	s, err := d.session(c)
	if err != nil {
		return err
	}
	grant, err := d.grant(c, &s)
	if err != nil {
		return err
	}
	return seeOther(c, queuesPath(home(grant)))
}

// home returns the namespace of the first page.
func home(grant *auth.Grant) string {
	if grant.Token.Namespace == contract.AllNamespaces {
		return duly.DefaultNamespace
	}
	return grant.Token.Namespace
}

func (d *Dashboard) loginPage(c *route.Call) error { return d.replyLogin(c, http.StatusOK, "") }

func (d *Dashboard) replyLogin(c *route.Call, status int, problem string) error {
	v := view.Login{Frame: d.frame(c, "Log in"), Problem: problem}
	if d.exposed(c) {
		v.Refused = "This connection is not encrypted, so a token would be readable on the way. " +
			"Use TLS for the admin address, or open the dashboard on the server's own machine."
	}
	return d.reply(c, status, "login.html", v)
}

// exposed reports whether others may read the connection.
func (d *Dashboard) exposed(c *route.Call) bool {
	if d.cfg.Secure || d.cfg.Insecure {
		return false
	}
	local, ok := c.R.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && !local.IP.IsLoopback()
}

// login begins a session. Every wrong secret has the same answer.
func (d *Dashboard) login(c *route.Call) error {
	if d.exposed(c) {
		return d.replyLogin(c, http.StatusForbidden, "")
	}
	text, err := c.Body()
	if err != nil {
		return err
	}
	form, err := url.ParseQuery(text)
	if err != nil {
		return contract.Invalid("form", "can't be read")
	}

	grant, err := d.identify(c, form)
	if errors.Is(err, duly.ErrUnauthorized) {
		return d.replyLogin(c, http.StatusUnauthorized, "The token, or the name and password, are wrong.")
	}
	if err != nil {
		return err
	}
	s := session.New(grant.Token.Hash, "", d.cfg.Clock.Now())
	if grant.Account() {
		s = session.New([32]byte{}, grant.Token.Description, d.cfg.Clock.Now())
	}
	d.setCookie(c, d.sealer.Seal(s), int(session.Lifetime.Seconds()))
	return seeOther(c, queuesPath(home(grant)))
}

func (d *Dashboard) identify(c *route.Call, form url.Values) (*auth.Grant, error) {
	if name := form.Get("name"); name != "" {
		basic := base64.StdEncoding.EncodeToString([]byte(name + ":" + form.Get("password")))
		credentials := auth.Credentials{Header: "Basic " + basic, Remote: c.Remote()}
		return d.cfg.Guard.Check(c.Context(), credentials, auth.Operator, "")
	}
	// The hash of any other text is unknown, and counts as a failed try too.
	token := strings.TrimSpace(form.Get("token"))
	return d.cfg.Guard.AdmitChosen(c.Context(), c.Remote(), "dashboard", sha256.Sum256([]byte(token)))
}

// logout ends the session of this browser.
func (d *Dashboard) logout(c *route.Call) error {
	d.setCookie(c, "", -1)
	return seeOther(c, path("login"))
}

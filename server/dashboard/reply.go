package dashboard

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/dashboard/assets"
	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/dashboard/view"
	"github.com/dulymq/duly/server/route"
)

// frame returns what is around the content of a page.
func (d *Dashboard) frame(c *route.Call, title string) view.Frame {
	f := view.Frame{
		Title: title, Namespace: c.Namespace, Version: d.cfg.Version, Hash: d.files.Hash, Theme: theme(c),
		Now: moment(d.cfg.Clock.Now()), Label: d.cfg.Label, Color: d.cfg.Color, ReadOnly: d.cfg.ReadOnly,
	}
	f.NextTheme = nextTheme[f.Theme]
	if c.R.Method == http.MethodGet {
		f.Here = c.R.URL.RequestURI()
	}
	s, grant, err := d.caller(c)
	if err != nil {
		return f
	}
	f.Session, f.Rights = grant.Name(), strings.Join(grant.Token.Rights.Names(), ", ")
	f.Namespace, f.Start = cmp.Or(f.Namespace, home(grant)), grant.Token.Namespace == contract.AllNamespaces
	f.Result = d.results.text(s.ID + " " + c.Query("result"))
	if auth.Consume.Allows(&grant.Token, f.Namespace) {
		f.Find = path("n", f.Namespace, "find")
	}
	for _, n := range d.nav {
		if n.Access.Allows(&grant.Token, f.Namespace) {
			n.To = path("n", f.Namespace) + n.To
			f.Pages = append(f.Pages, n)
		}
	}
	return f
}

// also adds the page as a command and as a request.
func also(f view.Frame, command, request string) view.Frame {
	f.Command, f.Request = "duly "+command, "GET "+request
	return f
}

// stream makes a page show live numbers, of one queue or of all. Its namespace gets a history.
func (d *Dashboard) stream(f view.Frame, queue string) view.Frame {
	d.history.Visit(f.Namespace)
	f.Live, f.Stream = true, withQuery(path("n", f.Namespace, "live"), "queue", queue)
	return f
}

func (d *Dashboard) reply(c *route.Call, status int, page string, data any) error {
	html, err := d.pages.Execute(c.Out(), page, data)
	if err != nil {
		return err
	}
	c.W.Header().Set("Vary", "Accept-Encoding")
	if len(html) < minPacked || !strings.Contains(c.R.Header.Get("Accept-Encoding"), "gzip") {
		return c.Reply(status, html)
	}
	// No site can make a browser send the cookie and see the length of the answer, because the cookie is SameSite=Strict.
	packed, err := assets.Compress(html)
	if err != nil {
		return err
	}
	c.W.Header().Set("Content-Encoding", "gzip")
	return c.Reply(status, packed)
}

// minPacked is the size from which a page is compressed, in bytes. A smaller one fits into one packet.
const minPacked = 1400

// fail returns the page of an error. A caller without a session gets the login page.
func (d *Dashboard) fail(c *route.Call, err error) (int, []byte) {
	if errors.Is(err, duly.ErrUnauthorized) && c.R.Method == "GET" {
		c.W.Header().Set("Location", string(path("login")))
		return http.StatusSeeOther, nil
	}

	var e *duly.Error
	if !errors.As(err, &e) {
		e = &duly.Error{Code: duly.CodeInternal, Message: "the log has the reason"}
	}
	// The API has the same status for the same error.
	_, status := wire.AppendProblem(nil, err, 0)
	v := view.Problem{Frame: d.frame(c, "This did not work"), Code: string(e.Code), Text: e.Message}
	html, failed := d.pages.Execute(nil, "problem.html", v)
	if failed != nil {
		c.Log().Error("the page of an error fails", "error", route.Fault(failed))
		return status, []byte(render.Escape(string(e.Code)))
	}
	return status, html
}

package dashboard

import (
	"net/http"
	"strings"

	"github.com/dulymq/duly/server/dashboard/render"
	"github.com/dulymq/duly/server/route"
)

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
	chosen := &http.Cookie{
		Name: themeCookie, Value: form.Get("theme"), Path: Prefix, MaxAge: 365 * 24 * 3600,
		HttpOnly: true, Secure: d.cfg.Secure, SameSite: http.SameSiteStrictMode,
	}
	if chosen.Value != "light" && chosen.Value != "dark" {
		chosen.Value, chosen.MaxAge = "", -1
	}
	http.SetCookie(c.W, chosen)

	// The page must be one of the dashboard: another site may not choose it.
	back := form.Get("back")
	if !strings.HasPrefix(back, Prefix+"/") || strings.ContainsAny(back, "\\\r\n") {
		back = Prefix
	}
	return seeOther(c, render.Path(back))
}

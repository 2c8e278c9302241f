package httpengine

import (
	"net/url"
	"strings"

	"github.com/dulymq/duly/contract"
)

// hidden stands where a token was.
const hidden = "***"

// address is where a server is, and who asks.
type address struct {
	scheme, host string
	namespace    string // of an engine's URL; "" of an admin's
	token        string // "" asks as nobody
}

// String is the address as it may be printed.
func (a address) String() string {
	text := a.scheme + "://"
	if a.token != "" {
		text += hidden + "@"
	}
	text += a.host
	if a.namespace != "" {
		text += "/" + a.namespace
	}
	return text
}

const (
	engineForm = "http(s)://TOKEN@HOST/NAMESPACE"
	adminForm  = "http(s)://TOKEN@HOST"
)

// parseAddress reads a URL of the form. No error repeats any of it: a mistyped
// URL still holds a token. A token of the URL counts more than the other one.
func parseAddress(text, token, form string) (a address, err error) {
	bad := func(problem string) (address, error) {
		return address{}, contract.Invalid("url", "%s; write it like %s", problem, form)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return bad("is not one")
	case u.Scheme != "http" && u.Scheme != "https":
		return bad("does not begin with http:// or https://")
	case u.Hostname() == "":
		return bad("names no host")
	case u.RawQuery != "" || u.ForceQuery:
		return bad("has options, and there are none")
	case u.Fragment != "":
		return bad("has a fragment")
	}
	if u.User != nil {
		if _, ok := u.User.Password(); ok {
			return bad("has a password behind its token")
		}
		token = u.User.Username()
	}
	if !sendable(token) {
		return address{}, contract.Invalid("token", "has a character that no token has; copy it whole, without spaces")
	}
	a = address{scheme: u.Scheme, host: u.Host, token: token}
	a.namespace = strings.Trim(u.EscapedPath(), "/")
	if form == adminForm && a.namespace != "" {
		return bad("has a path")
	}
	return a, nil
}

// sendable tells whether a header can carry the token.
func sendable(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return false
		}
	}
	return true
}

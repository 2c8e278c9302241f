package httpengine

import (
	"net/url"
	"strings"

	"github.com/dulymq/duly/contract"
)

// hidden replaces a token in printed texts.
const hidden = "***"

// address is a server and the token for it.
type address struct {
	scheme, host string
	namespace    string // namespace in an engine's URL; "" in an admin's URL
	token        string // token for the requests; "" for requests without a token
}

// String returns the address without its token.
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

// parseAddress reads a URL of the form. No error repeats a part of the URL, because even a mistyped
// URL may contain a token. A token in the URL overrides the parameter token.
func parseAddress(text, token, form string) (a address, err error) {
	bad := func(problem string) (address, error) {
		return address{}, contract.Invalid("url", "%s; write it like %s", problem, form)
	}

	u, err := url.Parse(text)
	switch {
	case err != nil:
		return bad("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return bad("does not begin with http:// or https://")
	case u.Hostname() == "":
		return bad("names no host")
	case u.RawQuery != "" || u.ForceQuery:
		return bad("has options, which are not supported")
	case u.Fragment != "":
		return bad("has a fragment")
	}

	if u.User != nil {
		if _, ok := u.User.Password(); ok {
			return bad("has a password behind its token")
		}
		token = u.User.Username()
	}
	// Otherwise each request would fail because of its header.
	if !isPrintable(token) {
		return address{}, contract.Invalid("token", "has a character that no token has; copy the token completely, without spaces")
	}

	a = address{scheme: u.Scheme, host: u.Host, token: token}
	// An escaped slash stays escaped, so the check of the namespace's name refuses it.
	a.namespace = strings.Trim(u.EscapedPath(), "/")
	if form == adminForm && a.namespace != "" {
		return bad("has a path")
	}
	return a, nil
}

// isPrintable reports whether a header can carry the token.
func isPrintable(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] >= 0x7f {
			return false
		}
	}
	return true
}

package guard

import (
	"net/netip"
	"net/url"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/hook"
)

// CheckURL parses and checks the URL of a destination. It returns [duly.ErrInvalid]
// with the field, the rule and the fix. The error has no part of the URL's path or
// query.
func (g *Guard) CheckURL(field, text string) (*url.URL, error) {
	u, reason := hook.ParseURL(text)
	if reason == "" {
		reason = g.policy.Load().checkURL(u)
	}
	if reason != "" {
		return nil, contract.Invalid(field, "%s", reason)
	}
	return u, nil
}

// checkURL returns the reason to refuse a parsed URL, or "".
func (p *policy) checkURL(u *url.URL) string {
	port, ok := hook.Port(u)
	if !ok || !p.cfg.Ports.Contains(port) {
		return "has the port " + u.Port() + ", push.ports has " + p.cfg.Ports.String()
	}

	addr, err := netip.ParseAddr(u.Hostname())
	literal := err == nil
	if p.cfg.Proxy == nil {
		if literal {
			if r := p.checkAddress(netip.AddrPortFrom(addr, port), u.Scheme == "https"); r != nil {
				return "can't be called: " + r.Reason
			}
		}
		return ""
	}

	// The proxy checks addresses, but not that http needs push.allow, and not whether an
	// address is a listener of this server.
	if literal && p.isOwn(netip.AddrPortFrom(addr.Unmap(), port)) {
		return "can't be called: it is this server itself"
	}
	if u.Scheme == "http" && !p.cfg.PlainHTTP && !(literal && contains(p.cfg.Allow, addr.Unmap())) {
		return "can't be called: http reaches only addresses in push.allow; use https, or set push.plain_http"
	}
	return ""
}

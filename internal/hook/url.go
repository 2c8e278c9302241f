package hook

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/dulymq/duly"
)

const hasFragment = "has a fragment, which no server gets; remove #…"

// ParseURL parses a URL and checks its form. It returns the reason to refuse the URL, or "".
// The reason never contains the path or the query, which may hold secrets.
func ParseURL(text string) (u *url.URL, reason string) {
	if len(text) > duly.MaxURL {
		return nil, "has " + strconv.Itoa(len(text)) + " bytes, may have at most " + strconv.Itoa(duly.MaxURL)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return nil, `has a space, a backslash, a control character or a character outside of ASCII; encode it with %, and a host as "xn--…"`
	}

	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return nil, "is not an absolute URL; write https://HOST/PATH"
	}
	if strings.HasSuffix(text, "#") { // u does not have an empty fragment
		return nil, hasFragment
	}
	if reason := CheckForm(u); reason != "" {
		return nil, reason
	}
	return u, ""
}

// CheckForm checks the parts of a URL that decide which host is called. It returns the reason
// to refuse the URL, or "".
func CheckForm(u *url.URL) string {
	switch {
	case u.Opaque != "":
		return "is not an absolute URL; write https://HOST/PATH"
	case u.Scheme != "http" && u.Scheme != "https":
		return "has the scheme " + u.Scheme + ", must have https or http"
	case u.User != nil || strings.Contains(u.Host, "@"):
		return "has a user name or a password; send it in a header of a target"
	case u.Fragment != "":
		return hasFragment
	}
	return checkHost(u)
}

// checkHost checks the host and the port of a URL.
func checkHost(u *url.URL) string {
	if strings.HasSuffix(u.Host, ":") {
		return "has a colon without a port"
	}
	if _, ok := Port(u); !ok {
		return "has no valid port; write a number from 1 to 65535"
	}

	host := u.Hostname()
	if strings.HasPrefix(u.Host, "[") || strings.Contains(host, ":") {
		addr, err := netip.ParseAddr(host)
		switch {
		case strings.Contains(host, "%"):
			return "has an address with a zone, which is never allowed"
		case err != nil || !addr.Is6() || !strings.HasPrefix(u.Host, "["):
			return "has no valid IPv6 address; write https://[2001:db8::1]/"
		}
		return ""
	}
	if !isName(host) {
		return "has no valid host; write a name such as example.com, or an address"
	}
	// Resolvers read 127.1, 0x7f.1 and 2130706433 as 127.0.0.1. No Internet domain name ends
	// in a number, so every such host is refused.
	if last := lastLabel(host); isNumber(last) {
		if _, err := netip.ParseAddr(host); err != nil {
			return "has a host that ends in a number; write an IPv4 address as four decimal numbers, such as 192.0.2.1"
		}
	}
	return ""
}

// Port returns the port of a URL, or the default port of its scheme.
func Port(u *url.URL) (uint16, bool) {
	text := u.Port()
	if text == "" {
		if u.Scheme == "http" {
			return 80, true
		}
		return 443, true
	}
	port, err := strconv.ParseUint(text, 10, 16)
	return uint16(port), err == nil && port > 0 && text[0] != '0'
}

// isName reports whether a host is a DNS name: labels of 1 to 63 letters, digits, - and _,
// at most 253 bytes in total, with an optional dot at the end.
func isName(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

func lastLabel(host string) string {
	host = strings.TrimSuffix(host, ".")
	return host[strings.LastIndexByte(host, '.')+1:]
}

// isNumber reports whether a resolver may read a label as a number: decimal digits, or 0x
// followed by hexadecimal digits.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

package guard

import (
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
)

// last returns the last address of a range.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		for bit := range 8 {
			if i*8+bit >= p.Bits() {
				b[i] |= 0x80 >> bit
			}
		}
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// C16.122: the tables of the contract and of the code have the same ranges, without public
// addresses.
func TestTableMatchesTheContract(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "**[C16.122]**")
	text, _, _ = strings.Cut(text, "**[C16.123]**")

	promised := map[netip.Prefix]bool{}
	for _, m := range regexp.MustCompile("`([0-9a-f:.]+(?:/[0-9]+)?)`").FindAllStringSubmatch(text, -1) {
		p, err := netip.ParsePrefix(m[1])
		if err != nil {
			a := netip.MustParseAddr(m[1])
			p = netip.PrefixFrom(a, a.BitLen())
		}
		promised[p] = true
	}
	delete(promised, unicast) // the docs name this range as the part that is not refused

	for _, c := range table {
		for _, p := range c.ranges {
			if !promised[p] {
				t.Errorf("%s (%s) is not in the contract", p, c.name)
			}
			delete(promised, p)
			for _, a := range []netip.Addr{p.Addr(), last(p)} {
				if classOf(a) == "" {
					t.Errorf("%s of %s is public", a, p)
				}
			}
		}
	}
	for p := range promised {
		t.Errorf("%s of the contract is not in the table", p)
	}
}

// The addresses next to the ranges are public, so the ranges are no larger than in the
// registries.
func TestNeighboursArePublic(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0",
		"192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
		"198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255",
		"2000::", "2001:200::", "2001:db7:ffff::", "2001:db9::", "2600::1", "3ffe:ffff::", "3fff:1000::",
	} {
		if c := classOf(netip.MustParseAddr(text)); c != "" {
			t.Errorf("%s is %s, want public", text, c)
		}
	}
}

// C16.123: an IPv6 address that embeds an IPv4 address is checked as that address.
func TestEmbeddedIPv4AddressIsChecked(t *testing.T) {
	t.Parallel()
	p := newGuard(t, Config{Allow: ranges("10.1.0.0/16")}, nowhere).policy.Load()
	forms := map[string]func(v4 string) string{
		"mapped":      func(v4 string) string { return "::ffff:" + v4 },
		"compatible":  func(v4 string) string { return "::" + v4 },
		"translated":  func(v4 string) string { return "::ffff:0:" + v4 },
		"NAT64":       func(v4 string) string { return "64:ff9b::" + v4 },
		"ISATAP":      func(v4 string) string { return "2600::5efe:" + v4 },
		"ISATAP, u=1": func(v4 string) string { return "2600::200:5efe:" + v4 },
		"6to4": func(v4 string) string {
			b := netip.MustParseAddr(v4).As4()
			return netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3], 15: 1}).String()
		},
	}
	for name, form := range forms {
		for v4, want := range map[string]bool{"127.0.0.1": false, "10.0.0.1": false, "169.254.169.254": false,
			"100.64.0.1": false, "10.1.0.1": true, "8.8.8.8": true} {
			a := netip.MustParseAddr(form(v4))
			if r := p.checkAddress(netip.AddrPortFrom(a, 443), true); (r == nil) != want {
				t.Errorf("%s: %s is judged as %v, want allowed: %v", name, a, r, want)
			}
		}
	}

	// The prefix of an ISATAP address counts too.
	for _, text := range []string{"fc00::5efe:8.8.8.8", "fe80::5efe:8.8.8.8", "2001:db8::5efe:8.8.8.8"} {
		if p.checkAddress(netip.AddrPortFrom(netip.MustParseAddr(text), 443), true) == nil {
			t.Errorf("%s is allowed", text)
		}
	}
	// The table has the whole Teredo range.
	if p.checkAddress(netip.MustParseAddrPort("[2001:0:808:808::1]:443"), true) == nil {
		t.Error("a Teredo address is allowed")
	}
}

// C16.125: allow permits, deny overrides allow, and both see embedded addresses.
func TestDenyOverridesAllow(t *testing.T) {
	t.Parallel()
	p := newGuard(t, Config{
		Allow: ranges("10.0.0.0/8", "fc00::/7", "::ffff:192.168.0.0/112"),
		Deny:  ranges("10.9.0.0/16", "8.8.8.8/32", "2600:bad::/32", "::ffff:9.9.9.9/128"),
	}, nowhere).policy.Load()
	for text, want := range map[string]bool{
		"10.0.0.1": true, "fc00::1": true, "192.168.7.7": true, "8.8.4.4": true, "2600::1": true,
		"10.9.0.1": false, "8.8.8.8": false, "2600:bad::1": false, "9.9.9.9": false,
		"::ffff:10.9.0.1": false, "64:ff9b::8.8.8.8": false, "2002:808:808::": false, "2600:bad::5efe:8.8.4.4": false,
		"172.16.0.1": false, "127.0.0.1": false, "fe80::1": false, "fc00::1%eth0": false, "fc00::5efe:127.0.0.1": false,
	} {
		if r := p.checkAddress(netip.AddrPortFrom(netip.MustParseAddr(text), 443), true); (r == nil) != want {
			t.Errorf("%s is judged as %v, want allowed: %v", text, r, want)
		}
	}
}

// C16.29: http reaches only addresses inside push.allow, or every public address with
// push.plain_http.
func TestPlainHTTPNeedsPermission(t *testing.T) {
	t.Parallel()
	for _, permitted := range []bool{false, true} {
		p := newGuard(t, Config{Allow: ranges("10.0.0.0/8"), PlainHTTP: permitted}, nowhere).policy.Load()
		for text, want := range map[string]bool{"10.0.0.1": true, "8.8.8.8": permitted, "2600::1": permitted,
			"127.0.0.1": false} {
			if r := p.checkAddress(netip.AddrPortFrom(netip.MustParseAddr(text), 80), false); (r == nil) != want {
				t.Errorf("plain_http %v: http to %s is judged as %v, want allowed: %v", permitted, text, r, want)
			}
		}
	}
}

// C16.124: the server's own listeners are refused, even if push.allow contains them.
func TestOwnListenersAreRefused(t *testing.T) {
	t.Parallel()
	local := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("10.0.0.7")}, &net.IPNet{IP: net.ParseIP("2600::7")},
			&net.UnixAddr{}}, nil
	}

	for _, listener := range []string{"127.0.0.1:7777", "0.0.0.0:7777", "[::]:7777", "10.0.0.7:7777",
		"[::ffff:10.0.0.7]:7777"} {
		p, err := newPolicy(Config{
			Allow: ranges("0.0.0.0/0", "::/0"), Listeners: []netip.AddrPort{netip.MustParseAddrPort(listener)},
		}, network{addresses: local})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{
			"127.0.0.1:7777": false, "127.9.9.9:7777": false, "[::1]:7777": false, "0.0.0.0:7777": false,
			"[::]:7777":     false,
			"10.0.0.7:7777": false, "[2600::7]:7777": false, "[::ffff:10.0.0.7]:7777": false,
			"[64:ff9b::10.0.0.7]:7777": false,
			"[2002:a00:7::]:7777":      false, "127.0.0.1:7778": true, "10.0.0.8:7777": true,
		} {
			if r := p.checkAddress(netip.MustParseAddrPort(text), true); (r == nil) != want {
				t.Errorf("with a listener on %s, %s is judged as %v, want allowed: %v", listener, text, r, want)
			}
		}
	}
}

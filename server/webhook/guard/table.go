package guard

import "net/netip"

// class is a kind of address that the guard refuses.
type class struct {
	name   string
	ranges []netip.Prefix
}

// table has the addresses that are refused unless push.allow has them. Sources:
//
//   - IANA IPv4 Special-Purpose Address Registry
//     https://www.iana.org/assignments/iana-ipv4-special-registry
//   - IANA IPv6 Special-Purpose Address Registry (as of 2025-10-09)
//     https://www.iana.org/assignments/iana-ipv6-special-registry
//   - IANA Multicast Address Space registries: 224.0.0.0/4 (RFC 5771), ff00::/8 (RFC 4291)
//   - IANA Internet Protocol Version 6 Address Space: unicast is only 2000::/3;
//     fec0::/10 was site-local until RFC 3879
//   - RFC 7526: 192.88.99.0/24 was the 6to4 relay anycast
//
// The registry lists single addresses inside some ranges as globally reachable, such as
// 192.0.0.9/32. The table refuses these as well, because no receiver has such an address.
//
// The table never changes.
var table = []class{
	{"unspecified", ranges("0.0.0.0/8", "::/128")},
	{"loopback", ranges("127.0.0.0/8", "::1/128")},
	{"private", ranges("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")},
	{"link-local", ranges("169.254.0.0/16", "fe80::/10")},
	{"shared by a provider (CGNAT)", ranges("100.64.0.0/10")},
	{"for benchmarks", ranges("198.18.0.0/15", "2001:2::/48")},
	{"ORCHIDv2", ranges("2001:20::/28")},
	{"for protocols", ranges("192.0.0.0/24", "2001::/23")},
	{"for documentation", ranges("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")},
	{"a 6to4 relay", ranges("192.88.99.0/24")},
	{"multicast", ranges("224.0.0.0/4", "ff00::/8")},
	{"reserved", ranges("240.0.0.0/4", "255.255.255.255/32")},
	{"for discarding", ranges("100::/64")},
	{"SRv6", ranges("5f00::/16")},
	{"local NAT64", ranges("64:ff9b:1::/48")},
}

// unallocated is the class of an IPv6 address outside the table and of unicast.
const unallocated = "not allocated"

// unicast has the IPv6 addresses that IANA allocates to hosts.
var unicast = netip.MustParsePrefix("2000::/3")

func ranges(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		list[i] = netip.MustParsePrefix(t)
	}
	return list
}

// classOf returns the class of an address, or "" for a public address.
func classOf(a netip.Addr) string {
	for _, c := range table {
		if contains(c.ranges, a) {
			return c.name
		}
	}
	// An IPv6 range that is not allocated now may become private later.
	if a.Is6() && !unicast.Contains(a) {
		return unallocated
	}
	return ""
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// The IPv6 forms that embed an IPv4 address in their last bytes.
var embedding = ranges(
	"::/96",           // IPv4-compatible, RFC 4291
	"::ffff:0:0:0/96", // IPv4-translated, RFC 2765
	"64:ff9b::/96",    // NAT64, RFC 6052
)

var sixToFour = netip.MustParsePrefix("2002::/16") // 6to4, RFC 3056

// effective returns the addresses to check for an address: the embedded IPv4 address, or else the
// address itself. ISATAP (RFC 5214) embeds an IPv4 address in any prefix, so both addresses are
// checked.
func effective(a netip.Addr) []netip.Addr {
	// An IPv4-mapped address reaches the IPv4 address.
	a = a.Unmap()
	if a.Is4() || a == netip.IPv6Unspecified() || a == netip.IPv6Loopback() {
		return []netip.Addr{a}
	}

	b := a.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case contains(embedding, a):
		return []netip.Addr{last}
	// 6to4 has the IPv4 address of its gateway in the middle.
	case sixToFour.Contains(a):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[2:6]))}
	// ISATAP has the IPv4 address at the end, behind any prefix.
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe:
		return []netip.Addr{a, last}
	}
	return []netip.Addr{a}
}

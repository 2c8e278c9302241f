package guard

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dulymq/duly/contract"
)

// Config has the permissions of the operator. Its zero value permits public
// addresses over https.
type Config struct {
	// Allow has permitted ranges of the table. Deny overrides it.
	Allow, Deny []netip.Prefix
	// Ports has the permitted ports. Default: [DefaultPorts].
	Ports Ports
	// PlainHTTP permits http to public addresses.
	PlainHTTP bool
	// Proxy is the URL of a proxy, with http or https, or nil for direct connections.
	Proxy *url.URL
	// Listeners has the server's own addresses, which are always refused.
	Listeners []netip.AddrPort
}

// Guard checks destinations. It is safe for concurrent use.
type Guard struct {
	policy atomic.Pointer[policy]
	net    network

	mu         sync.Mutex
	transports map[*Transport]bool
}

// network has the name resolver and the addresses of the machine. Tests replace this field.
type network struct {
	resolver  *net.Resolver
	addresses func() ([]net.Addr, error)
}

// New returns a guard with these settings.
func New(cfg Config) (*Guard, error) {
	g := &Guard{net: network{addresses: net.InterfaceAddrs}, transports: map[*Transport]bool{}}
	if err := g.Update(cfg); err != nil {
		return nil, err
	}
	return g, nil
}

// Update replaces the settings. It closes idle connections, because the new settings
// may refuse them.
func (g *Guard) Update(cfg Config) error {
	p, err := newPolicy(cfg, g.net)
	if err != nil {
		return err
	}
	// Requests in flight continue with the old settings.
	g.policy.Store(p)

	g.mu.Lock()
	defer g.mu.Unlock()
	for t := range g.transports {
		t.connections()
	}
	return nil
}

// policy is one version of the settings. It is never changed.
type policy struct {
	cfg Config
	net network
}

func newPolicy(cfg Config, n network) (*policy, error) {
	var f contract.BadFields
	cfg.Allow = unmapped(&f, "push.allow", cfg.Allow)
	cfg.Deny = unmapped(&f, "push.deny", cfg.Deny)
	if len(cfg.Ports) == 0 {
		cfg.Ports = DefaultPorts()
	}
	if p := cfg.Proxy; p != nil && (p.Scheme != "http" && p.Scheme != "https" || p.Host == "") {
		f.Add("push.proxy", "is not the URL of a proxy; write http://HOST:PORT or https://HOST:PORT")
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	// The caller may change its list later.
	cfg.Listeners = slices.Clone(cfg.Listeners)
	return &policy{cfg, n}, nil
}

// unmapped returns ranges without the IPv4-mapped form, which contains no unmapped
// address.
func unmapped(f *contract.BadFields, field string, list []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(list))
	for _, p := range list {
		switch {
		case !p.IsValid() || p.Addr().Zone() != "":
			f.Add(field, "has %s, which is not a network; write 10.0.0.0/8 or fc00::/7", p)
		case p.Addr().Is4In6() && p.Bits() >= 96:
			out = append(out, netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96))
		default:
			out = append(out, p)
		}
	}
	return out
}

// Refused is the error of a destination that the guard refuses. Its text has the
// reason and the setting, but no address: producers can read a job's error, and must
// not learn the server's network.
type Refused struct {
	// Reason has the fault and the fix.
	Reason string
	// Addr is the refused address, for the server's log.
	Addr netip.AddrPort
}

// Error implements error.
func (r *Refused) Error() string { return r.Reason }

func refused(at netip.AddrPort, format string, args ...any) *Refused {
	return &Refused{Reason: fmt.Sprintf(format, args...), Addr: at}
}

// checkAddress returns the reason to refuse an address, or nil. encrypted is false
// for the scheme http.
func (p *policy) checkAddress(at netip.AddrPort, encrypted bool) *Refused {
	if at.Addr().Zone() != "" {
		return refused(at, "its address has a zone, which is never allowed")
	}

	// An IPv6 address may embed an IPv4 address, which the request would reach.
	addrs := effective(at.Addr())
	for _, a := range append(addrs, at.Addr().Unmap()) {
		if p.isOwn(netip.AddrPortFrom(a, at.Port())) {
			return refused(at, "it is this server itself")
		}
		if contains(p.cfg.Deny, a) {
			return refused(at, "its address is in push.deny")
		}
	}
	for _, a := range addrs {
		allowed := contains(p.cfg.Allow, a)
		// A private address may be allowed. Deny was checked before, so it wins.
		if c := classOf(a); c != "" && !allowed {
			return refused(at, "its address is %s; add its network to push.allow if the server may call it", c)
		}
		if !encrypted && !allowed && !p.cfg.PlainHTTP {
			return refused(at, "http reaches only addresses in push.allow; use https, or set push.plain_http")
		}
	}
	return nil
}

// isOwn reports whether a connection to the address may reach this server: every
// address of this machine counts with the port of every listener, because a listener
// may be bound to all addresses.
func (p *policy) isOwn(at netip.AddrPort) bool {
	// If no listener has this port, the list of the machine's interfaces is not needed.
	if !slices.ContainsFunc(p.cfg.Listeners, func(l netip.AddrPort) bool { return l.Port() == at.Port() }) {
		return false
	}
	a := at.Addr()
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	if slices.ContainsFunc(p.cfg.Listeners, func(l netip.AddrPort) bool { return l.Addr().Unmap() == a }) {
		return true
	}

	// The list is read each time, because addresses come and go.
	local, err := p.net.addresses()
	if err != nil {
		// If the interfaces can't be read, a refused delivery is better than a request to this
		// server.
		return true
	}
	return slices.ContainsFunc(local, func(l net.Addr) bool {
		n, ok := l.(*net.IPNet)
		if !ok {
			return false
		}
		addr, ok := netip.AddrFromSlice(n.IP)
		return ok && addr.Unmap() == a
	})
}

// Ports is a set of ports, as ranges.
type Ports []PortRange

// PortRange has the ports from First to Last.
type PortRange struct{ First, Last uint16 }

// DefaultPorts returns 80, 443 and 1024 to 65535, without the ports of other system
// services, such as 22 or 25.
func DefaultPorts() Ports { return Ports{{80, 80}, {443, 443}, {1024, 65535}} }

// ParsePorts reads a list such as "80, 443, 1024-65535".
func ParsePorts(text string) (Ports, error) {
	var list Ports
	for _, part := range strings.Split(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.ParseUint(first, 10, 16)
		to, err2 := strconv.ParseUint(last, 10, 16)
		if cmp.Or(err1, err2) != nil || from == 0 || from > to {
			return nil, contract.Invalid("push.ports",
				"has %q, which is neither a port nor a range of ports; write a list like 80, 443, 1024-65535", part)
		}
		list = append(list, PortRange{uint16(from), uint16(to)})
	}
	return list, nil
}

// Contains reports whether a port is in the set.
func (p Ports) Contains(port uint16) bool {
	return slices.ContainsFunc(p, func(r PortRange) bool { return r.First <= port && port <= r.Last })
}

// String returns the list in the form of ParsePorts.
func (p Ports) String() string {
	parts := make([]string, len(p))
	for i, r := range p {
		parts[i] = strconv.Itoa(int(r.First))
		if r.Last != r.First {
			parts[i] += "-" + strconv.Itoa(int(r.Last))
		}
	}
	return strings.Join(parts, ", ")
}

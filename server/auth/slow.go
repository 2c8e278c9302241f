package auth

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// mostFailures is how many attempts of one address may fail in one window.
	mostFailures = 10
	// failureWindow begins with the first of them.
	failureWindow = time.Minute
	// mostAddresses bounds the addresses that are remembered.
	mostAddresses = 10_000
)

// attempts counts failed attempts per address. There are two generations: what
// happens goes into the young one, which becomes the old one when a window has
// passed or when it is full. So nothing is ever looked through, and an attacker
// with more addresses than that is not slowed down by counting them.
type attempts struct {
	clock      clock.Clock
	mu         sync.Mutex
	young, old map[netip.Addr]failures
	turned     time.Duration // when young began
}

type failures struct {
	begin time.Duration // monotonic
	n     int
}

// wait is how long an address has to wait until another attempt of its is
// looked at; 0: not at all.
func (a *attempts) wait(from netip.Addr) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Mono()
	return a.findLocked(from, now).wait(now)
}

// fail counts an attempt that has failed, or tells how long its address has to
// wait.
func (a *attempts) fail(from netip.Addr) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Mono()
	f := a.findLocked(from, now)
	if wait := f.wait(now); wait > 0 {
		return wait
	}
	if a.young == nil || len(a.young) >= mostAddresses/2 || now >= a.turned+failureWindow {
		a.young, a.old, a.turned = map[netip.Addr]failures{}, a.young, now
	}
	f.n++
	a.young[from] = f
	return 0
}

// findLocked tells the failures of an address in the window that is under way
// or begins now.
func (a *attempts) findLocked(from netip.Addr, now time.Duration) failures {
	f, ok := a.young[from]
	if !ok {
		f, ok = a.old[from]
	}
	if !ok || now >= f.begin+failureWindow {
		return failures{begin: now}
	}
	return f
}

func (f failures) wait(now time.Duration) time.Duration {
	if f.n < mostFailures {
		return 0
	}
	return f.begin + failureWindow - now
}

func slowDown(wait time.Duration) error {
	return &duly.Error{Code: duly.CodeLimited, RetryAfter: wait,
		Message: "too many attempts from this address have failed; repeat in " + duly.FormatDuration(wait.Round(time.Second)) + " with a good token"}
}

// Remote is where a request comes from.
type Remote struct {
	// Peer is the other end of the connection, host:port.
	Peer string
	// Forwarded is the X-Forwarded-For header, in which proxies tell their
	// clients. It counts only where Peer is a proxy.
	Forwarded string
	// Proxies are trusted to tell their clients; so is the loopback.
	Proxies []netip.Prefix
}

// address is what attempts are counted by: the nearest one that is no proxy.
// An IPv6 client has a whole /64 to choose from, so that is one address. What
// has none, as a socket in memory, is the zero address.
func (r Remote) address() netip.Addr {
	host, _, err := net.SplitHostPort(r.Peer)
	if err != nil {
		host = r.Peer
	}
	at := parseAddress(host)
	for rest := r.Forwarded; rest != "" && r.proxy(at); {
		last := rest
		i := strings.LastIndexByte(rest, ',')
		if i >= 0 {
			last = rest[i+1:]
		}
		rest = rest[:max(i, 0)]
		client := parseAddress(strings.TrimSpace(last))
		if !client.IsValid() {
			break
		}
		at = client
	}
	if at.Is6() {
		network, _ := at.Prefix(64)
		return network.Addr()
	}
	return at
}

func (r Remote) proxy(at netip.Addr) bool {
	if at.IsLoopback() {
		return true
	}
	for _, p := range r.Proxies {
		if p.Contains(at) {
			return true
		}
	}
	return false
}

func parseAddress(text string) netip.Addr {
	at, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return at.Unmap().WithZone("")
}

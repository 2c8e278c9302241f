package auth

import (
	"crypto/sha256"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// mostFailures is the number of guesses of one kind that may fail per window.
	mostFailures = 10
	// failureWindow begins with the first failure.
	failureWindow = time.Minute
	// mostGuesses bounds the kinds of guesses in memory.
	mostGuesses = 10_000
)

// guess is the key by which failed attempts are counted: their address and the
// account that they name.
type guess struct {
	from    netip.Addr
	account [8]byte // of a hash, because callers choose the name and its length
}

func guessOf(from Remote, account string) guess {
	sum := sha256.Sum256([]byte(account))
	return guess{from: from.address(), account: [8]byte(sum[:8])}
}

// attempts counts failed guesses in two generations. A failure goes into the
// young one, which becomes the old one when it is full or its window is over. So
// memory is bounded without a search. An attacker with more addresses than the
// bound is not slowed down.
type attempts struct {
	clock      clock.Clock
	mu         sync.Mutex
	young, old map[guess]failures
	turned     time.Duration // when young began
}

type failures struct {
	begin time.Duration // monotonic
	n     int
}

// fail counts a guess that has failed. Beyond the bound it counts nothing and
// returns how long the window still lasts.
func (a *attempts) fail(of guess) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Mono()

	f := a.findLocked(of, now)
	if f.n >= mostFailures {
		return f.begin + failureWindow - now
	}

	if a.young == nil || len(a.young) >= mostGuesses/2 || now >= a.turned+failureWindow {
		a.young, a.old, a.turned = map[guess]failures{}, a.young, now
	}
	f.n++
	a.young[of] = f
	return 0
}

// findLocked returns the failures of the window that is open, or of one that
// begins now.
func (a *attempts) findLocked(of guess, now time.Duration) failures {
	f, ok := a.young[of]
	if !ok {
		f, ok = a.old[of]
	}
	if !ok || now >= f.begin+failureWindow {
		return failures{begin: now}
	}
	return f
}

func slowDown(wait time.Duration) error {
	return &duly.Error{Code: duly.CodeLimited, RetryAfter: wait,
		Message: "too many attempts from this address have failed; repeat in " + duly.FormatDuration(wait.Round(time.Second)) +
			", or at once with the right secret"}
}

// Remote is where a request comes from.
type Remote struct {
	// Peer is the other end of the connection, host:port.
	Peer string
	// Forwarded has the values of all X-Forwarded-For lines, in their order. A
	// proxy appends to the last line or adds its own line. A client can send any
	// text before that.
	Forwarded []string
	// Proxies are the networks whose X-Forwarded-For is believed. The header of
	// any other peer is ignored, on the loopback too.
	Proxies []netip.Prefix
}

// address returns the nearest address that is not a proxy. An IPv6 client can
// choose from a whole /64, which counts as one address. A peer without an
// address, such as a socket in memory, has the zero one.
func (r Remote) address() netip.Addr {
	host, _, err := net.SplitHostPort(r.Peer)
	if err != nil {
		host = r.Peer
	}
	at := parseAddress(host)

	// Each proxy appends the address of its own peer, so the list is read from
	// its end, and only as far as proxies have written it.
	for rest := strings.Join(r.Forwarded, ","); rest != "" && r.proxy(at); {
		i := strings.LastIndexByte(rest, ',')
		client := parseAddress(strings.TrimSpace(rest[i+1:]))
		if !client.IsValid() {
			break
		}
		rest, at = rest[:max(i, 0)], client
	}

	if at.Is6() {
		network, _ := at.Prefix(64)
		return network.Addr()
	}
	return at
}

// proxy reports whether the address is one of the configured proxies.
func (r Remote) proxy(at netip.Addr) bool {
	return slices.ContainsFunc(r.Proxies, func(p netip.Prefix) bool { return p.Contains(at) })
}

func parseAddress(text string) netip.Addr {
	at, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return at.Unmap().WithZone("")
}

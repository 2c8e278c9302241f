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
)

const (
	// maxFailures is the largest number of failed guesses of one key in a window.
	maxFailures = 10
	// failureWindow is the length of a window, which begins with the first failure.
	failureWindow = time.Minute
	// maxGuesses bounds the keys in memory.
	maxGuesses = 10_000
)

// guess is the key under which failed attempts are counted: an address and an account.
type guess struct {
	from    netip.Addr
	account [8]byte // part of a hash of the account, because callers choose the name and its length
}

func guessOf(from Remote, account string) guess {
	sum := sha256.Sum256([]byte(account))
	return guess{from: from.address(), account: [8]byte(sum[:8])}
}

// attempts counts failed guesses in two maps. A failure goes into the recent map, which becomes the
// previous one when it is full or its window is over. So the memory is limited, without a search
// for old keys. The cost: an attacker with more addresses than the maximum is not slowed down.
type attempts struct {
	clock            duly.Clock
	mu               sync.Mutex
	recent, previous map[guess]failures
	rotated          time.Duration // monotonic time at which recent was created
}

type failures struct {
	begin time.Duration // start of the window, on the monotonic clock
	n     int
}

// fail counts a failed guess. If the key has maxFailures already, it counts nothing and returns the
// time until the window ends.
func (a *attempts) fail(of guess) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Mono()

	f := a.findLocked(of, now)
	if f.n >= maxFailures {
		return f.begin + failureWindow - now
	}

	if a.recent == nil || len(a.recent) >= maxGuesses/2 || now >= a.rotated+failureWindow {
		a.recent, a.previous, a.rotated = map[guess]failures{}, a.recent, now
	}
	f.n++
	a.recent[of] = f
	return 0
}

// findLocked returns the failures of the key's open window, or of a new window.
func (a *attempts) findLocked(of guess, now time.Duration) failures {
	f, ok := a.recent[of]
	if !ok {
		f, ok = a.previous[of]
	}
	if !ok || now >= f.begin+failureWindow {
		return failures{begin: now}
	}
	return f
}

func slowDown(wait time.Duration) error {
	return &duly.Error{Code: duly.CodeLimited, RetryAfter: wait,
		Message: "too many failed attempts from this address; retry in " + duly.FormatDuration(wait.Round(time.Second)) +
			", or at once with the right secret"}
}

// Remote describes the origin of a request.
type Remote struct {
	// Peer is the address of the other end of the connection, as host:port.
	Peer string
	// Forwarded has the values of all X-Forwarded-For lines, in their order. A proxy appends to the
	// last line or adds its own line. The text before that may come from the client.
	Forwarded []string
	// Proxies are the networks whose X-Forwarded-For is trusted. The header of any other peer is
	// ignored, even on the loopback.
	Proxies []netip.Prefix
}

// address returns the nearest address that is not a proxy. It returns one address for an IPv6 /64,
// because a client can use any address of its network. For a peer without an address, such as a
// socket in memory, it returns the zero address.
func (r Remote) address() netip.Addr {
	host, _, err := net.SplitHostPort(r.Peer)
	// A peer may have no port.
	if err != nil {
		host = r.Peer
	}
	at := parseAddress(host)

	// Each proxy appends the address of its own peer. So the loop reads the list from
	// its end, and only the part that proxies have written.
	for rest := strings.Join(r.Forwarded, ","); rest != "" && r.proxy(at); {
		i := strings.LastIndexByte(rest, ',')
		client := parseAddress(strings.TrimSpace(rest[i+1:]))
		if !client.IsValid() {
			break
		}
		rest, at = rest[:max(i, 0)], client
	}

	// A client can use every address of its /64.
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

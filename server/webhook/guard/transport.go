package guard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/hook"
)

// The limits of an answer and of a connection.
const (
	// MaxHeaders is the size of an answer's headers, in bytes.
	MaxHeaders = 32 << 10
	// MaxBody is the maximum that ReadBody reads, in bytes as sent.
	MaxBody = 64 << 10
	// IdleTime is how long an idle connection stays open.
	IdleTime = 30 * time.Second
)

const (
	idlePerHost = 128 // half of all slots, which is the maximum of one host
	idleInAll   = 1024
	// connectTime bounds the setup of a connection. It matters only after the request has ended,
	// because until then the context of the request ends the setup.
	connectTime = 30 * time.Second
)

// errNoAddress is the error of a name if some of its addresses are refused and the
// others do not answer.
var errNoAddress = errors.New("none of the host's allowed addresses answers, and the other addresses are refused")

// Transport sends requests to destinations that the guard permits. It is safe
// for concurrent use. Close it when its target is deleted.
type Transport struct {
	guard *Guard
	roots *x509.CertPool
	conns atomic.Pointer[connSet]
	mu    sync.Mutex // held while a new connSet is created
}

// connSet has the connections of one policy.
type connSet struct {
	policy *policy
	// pooled has transports with reusable connections, fresh those with one connection per request.
	// The key is true for https.
	pooled, fresh map[bool]*http.Transport
}

// NewTransport returns a transport that trusts these authorities; nil: the system's.
// See [Authorities].
func (g *Guard) NewTransport(roots *x509.CertPool) *Transport {
	t := &Transport{guard: g, roots: roots}
	g.mu.Lock()
	g.transports[t] = true
	g.mu.Unlock()
	return t
}

// Authorities returns the system's certificate authorities together with those of a target's CA,
// which is in PEM.
func Authorities(pem []byte) (*x509.CertPool, error) {
	// A target may have receivers with public certificates too.
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, contract.Invalid("ca", "has no certificate; write it as PEM, with -----BEGIN CERTIFICATE-----")
	}
	return pool, nil
}

// RoundTrip implements [http.RoundTripper]. It returns a [Refused] for a
// destination that the guard refuses.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.send(req, func(s *connSet) map[bool]*http.Transport { return s.pooled })
}

// Fresh sends a request on a new connection, and closes it after the request.
func (t *Transport) Fresh(req *http.Request) (*http.Response, error) {
	return t.send(req, func(s *connSet) map[bool]*http.Transport { return s.fresh })
}

func (t *Transport) send(req *http.Request, from func(*connSet) map[bool]*http.Transport) (*http.Response, error) {
	set := t.connections()

	// The settings may have changed since the push.
	reason := hook.CheckForm(req.URL)
	if reason == "" {
		reason = set.policy.checkURL(req.URL)
	}
	if reason != "" {
		return nil, &Refused{Reason: "the URL " + reason}
	}
	return from(set)[req.URL.Scheme == "https"].RoundTrip(req)
}

// Close closes the idle connections. The transport can't be used afterwards.
func (t *Transport) Close() {
	t.guard.mu.Lock()
	delete(t.guard.transports, t)
	t.guard.mu.Unlock()
	if set := t.conns.Load(); set != nil {
		set.close()
	}
}

// connections returns the connections of the guard's current settings. It closes the connections of
// older settings: idle connections now, and the others after their request.
func (t *Transport) connections() *connSet {
	// The common case takes no lock.
	p := t.guard.policy.Load()
	if set := t.conns.Load(); set != nil && set.policy == p {
		return set
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	// Another goroutine may have replaced the connections since.
	p = t.guard.policy.Load()
	old := t.conns.Load()
	if old != nil && old.policy == p {
		return old
	}

	set := &connSet{policy: p, pooled: map[bool]*http.Transport{}, fresh: map[bool]*http.Transport{}}
	for _, encrypted := range []bool{false, true} {
		set.pooled[encrypted] = p.transport(encrypted, t.roots)
		set.fresh[encrypted] = p.transport(encrypted, t.roots)
		// A repeated request needs a connection that no receiver has closed.
		set.fresh[encrypted].DisableKeepAlives = true
	}
	t.conns.Store(set)
	if old != nil {
		old.close()
	}
	return set
}

// close closes the idle connections.
func (s *connSet) close() {
	for _, t := range s.pooled {
		t.CloseIdleConnections()
	}
}

// transport returns the transport for the scheme https or http.
func (p *policy) transport(encrypted bool, roots *x509.CertPool) *http.Transport {
	t := &http.Transport{
		DialContext:            p.dialer(encrypted),
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    connectTime,
		DisableCompression:     true,
		MaxResponseHeaderBytes: MaxHeaders,
		IdleConnTimeout:        IdleTime,
		MaxIdleConns:           idleInAll,
		MaxIdleConnsPerHost:    idlePerHost,
		// A map that is not nil disables HTTP/2.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	// The proxy resolves the names, so the proxy must check the addresses.
	if p.cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(p.cfg.Proxy)
	}
	return t
}

// dialer returns the function that makes connections. It checks the address of each
// socket before it connects.
func (p *policy) dialer(encrypted bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	if p.cfg.Proxy != nil { // the operator has set the proxy's address, so it is not checked
		return (&net.Dialer{Timeout: connectTime, Resolver: p.net.resolver}).DialContext
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		// Control runs on several goroutines, for IPv4 and IPv6.
		var checked, denied atomic.Int32
		var first atomic.Pointer[Refused]
		// The check is made on the resolved address, so a name cannot change between check and use.
		d := net.Dialer{Timeout: connectTime, Resolver: p.net.resolver}
		d.Control = func(_, address string, _ syscall.RawConn) error {
			checked.Add(1)
			r := p.checkSocket(address, encrypted)
			if r == nil {
				return nil
			}
			denied.Add(1)
			first.CompareAndSwap(nil, r)
			return r
		}

		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn, nil
		}
		// A name with a permitted address is not reported as refused if that address does not
		// answer.
		if r := first.Load(); r != nil && checked.Load() == denied.Load() && ctx.Err() == nil {
			return nil, r
		}
		if r := (*Refused)(nil); errors.As(err, &r) {
			return nil, errNoAddress
		}
		return nil, err
	}
}

// checkSocket returns the reason to refuse the address of a socket, or nil.
func (p *policy) checkSocket(address string, encrypted bool) *Refused {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &Refused{Reason: "its address can't be read"}
	}
	if !p.cfg.Ports.Contains(at.Port()) {
		return refused(at, "its port is not in push.ports")
	}
	return p.checkAddress(at, encrypted)
}

// ReadBody reads the body of an answer, up to [MaxBody], and closes it. If the body breaks off, it
// returns the part that was read. The connection is reused only if the body has ended. An answer
// 101 has no body: its Body is the connection, which has no deadline.
func ReadBody(resp *http.Response) []byte {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == http.NoBody {
		return nil
	}

	// Reading one more byte shows whether the body has ended. An error of the connection does not
	// change the meaning of the status.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	return body[:min(len(body), MaxBody)]
}

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

// The bounds of an answer and of a connection.
const (
	// MaxHeaders is the size of an answer's headers, in bytes.
	MaxHeaders = 32 << 10
	// MaxBody is how much of an answer's body is read, in bytes, as sent.
	MaxBody = 64 << 10
	// IdleTime is how long an idle connection stays open.
	IdleTime = 30 * time.Second
)

const (
	idlePerHost = 128 // half of the slots, which one host may use
	idleInAll   = 1024
	// connectTime is for a connection whose request has ended already. The
	// context of the request bounds all others.
	connectTime = 30 * time.Second
)

// errNoAddress is the failure of a name of whose addresses some are refused and
// the others do not answer.
var errNoAddress = errors.New("no allowed address of the host answers")

// Transport sends requests to destinations that the guard permits. It is safe
// for concurrent use. Close it when its target is gone.
type Transport struct {
	guard *Guard
	roots *x509.CertPool
	bound atomic.Pointer[bound]
	mu    sync.Mutex // one at a time makes a new bound
}

// bound has the connections that were made under one policy.
type bound struct {
	policy *policy
	// Kept connections, by encrypted or not, and such for one request alone.
	kept, fresh map[bool]*http.Transport
}

// NewTransport returns a transport that trusts these authorities; nil: those of
// the system. See [Authorities].
func (g *Guard) NewTransport(roots *x509.CertPool) *Transport {
	t := &Transport{guard: g, roots: roots}
	g.mu.Lock()
	g.transports[t] = true
	g.mu.Unlock()
	return t
}

// Authorities returns the system's authorities and those of a target's CA, in
// PEM.
func Authorities(pem []byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, contract.Invalid("ca", "has no certificate; write PEM, with -----BEGIN CERTIFICATE-----")
	}
	return pool, nil
}

// RoundTrip implements [http.RoundTripper]. It returns a [Refused] for a
// destination that the guard refuses.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.send(req, func(b *bound) map[bool]*http.Transport { return b.kept })
}

// Fresh sends a request on a new connection, which serves no other request.
func (t *Transport) Fresh(req *http.Request) (*http.Response, error) {
	return t.send(req, func(b *bound) map[bool]*http.Transport { return b.fresh })
}

func (t *Transport) send(req *http.Request, from func(*bound) map[bool]*http.Transport) (*http.Response, error) {
	b := t.current()
	// The settings may have changed since the push.
	reason := hook.CheckForm(req.URL)
	if reason == "" {
		reason = b.policy.checkURL(req.URL)
	}
	if reason != "" {
		return nil, &Refused{Reason: "the URL " + reason}
	}
	return from(b)[req.URL.Scheme == "https"].RoundTrip(req)
}

// Close closes the kept connections. The transport can't be used afterwards.
func (t *Transport) Close() {
	t.guard.mu.Lock()
	delete(t.guard.transports, t)
	t.guard.mu.Unlock()
	if b := t.bound.Load(); b != nil {
		b.close()
	}
}

// current returns what belongs to the guard's settings of now. Connections of
// older settings are closed: idle ones now, the others after their request.
func (t *Transport) current() *bound {
	p := t.guard.policy.Load()
	if b := t.bound.Load(); b != nil && b.policy == p {
		return b
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	p = t.guard.policy.Load()
	old := t.bound.Load()
	if old != nil && old.policy == p {
		return old
	}
	b := &bound{policy: p, kept: map[bool]*http.Transport{}, fresh: map[bool]*http.Transport{}}
	for _, encrypted := range []bool{false, true} {
		b.kept[encrypted] = p.transport(encrypted, t.roots)
		b.fresh[encrypted] = p.transport(encrypted, t.roots)
		b.fresh[encrypted].DisableKeepAlives = true
	}
	t.bound.Store(b)
	if old != nil {
		old.close()
	}
	return b
}

func (b *bound) close() {
	for _, t := range b.kept {
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
		// Not nil: HTTP/2 is off.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
	if p.cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(p.cfg.Proxy)
	}
	return t
}

// dialer returns the function that makes connections. It judges the address of
// each socket before it connects.
func (p *policy) dialer(encrypted bool) func(ctx context.Context, network, address string) (net.Conn, error) {
	if p.cfg.Proxy != nil { // whose address the operator has set
		return (&net.Dialer{Timeout: connectTime, Resolver: p.net.resolver}).DialContext
	}
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		var asked, no atomic.Int32
		var first atomic.Pointer[Refused]
		d := net.Dialer{Timeout: connectTime, Resolver: p.net.resolver}
		d.Control = func(_, address string, _ syscall.RawConn) error {
			asked.Add(1)
			r := p.judgeSocket(address, encrypted)
			if r == nil {
				return nil
			}
			no.Add(1)
			first.CompareAndSwap(nil, r)
			return r
		}

		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return conn, nil
		}
		if r := first.Load(); r != nil && asked.Load() == no.Load() && ctx.Err() == nil {
			return nil, r
		}
		if r := (*Refused)(nil); errors.As(err, &r) {
			return nil, errNoAddress
		}
		return nil, err
	}
}

// judgeSocket judges the address that a socket connects to.
func (p *policy) judgeSocket(address string, encrypted bool) *Refused {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &Refused{Reason: "its address can't be read"}
	}
	if !p.cfg.Ports.Contains(at.Port()) {
		return refused(at, "its port is not in push.ports")
	}
	return p.judge(at, encrypted)
}

// ReadBody reads the body of an answer, up to [MaxBody], and closes it. A body
// that breaks off is what came of it. The connection serves another request only
// if the body ended. A 101 has no body: net/http hands out the connection instead, whose
// reads no deadline ends.
func ReadBody(resp *http.Response) []byte {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == http.NoBody {
		return nil
	}

	// One byte more shows whether the body has ended. Errors are those of the
	// connection, which the status does not depend on.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	return body[:min(len(body), MaxBody)]
}

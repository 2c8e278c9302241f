package link

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// unsent marks the error of a connection on which certainly no call was sent: it could not be
// opened, or was lost before its first call.
type unsent struct {
	error
	stage stage
}

func (u unsent) Unwrap() error { return u.error }

// stage says how far the setup of a connection came before it failed.
type stage int

const (
	atConnect stage = iota // the connection was not accepted
	atTLS                  // the TLS handshake failed
	atGreet                // the connection was lost during the greeting, or just after it
)

// errSilent is the error of a greeting without an answer. It is not a timeout error, because the
// client library would replace that with its own.
var errSilent = errors.New("no answer in time")

// dialer opens and records the connections, so that none outlives the link.
type dialer struct {
	network string // "tcp" or "unix"
	timeout time.Duration
	clock   clock.Clock

	ctx  context.Context // ends when the link is closed
	stop context.CancelFunc

	mu      sync.Mutex
	conns   map[*conn]struct{}
	avoided map[string]time.Duration // by address: the reading of Clock.Mono until which it is not dialed
}

func newDialer(o Options) *dialer {
	d := &dialer{network: "tcp", timeout: o.Dial, clock: clock.System(), conns: map[*conn]struct{}{},
		avoided: map[string]time.Duration{}}
	if o.Unix {
		d.network = "unix"
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// dial opens a connection for the client library. The context belongs to the first caller. Other
// callers wait for the same connection.
func (d *dialer) dial(ctx context.Context, addr string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
	return d.connect(ctx, addr, config, false)
}

// dialWatched opens a connection for calls with an immediate answer. The watchdog notices a call
// without an answer.
func (d *dialer) dialWatched(ctx context.Context, addr string, _ *net.Dialer, config *tls.Config) (net.Conn, error) {
	return d.connect(ctx, addr, config, true)
}

func (d *dialer) connect(ctx context.Context, addr string, config *tls.Config, watched bool) (net.Conn, error) {
	// A new connection to a replaced server would hang like the old ones.
	if d.avoids(addr) {
		return nil, unsent{errReplaced, atConnect}
	}

	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	// Closing the link must not wait for a server that does not accept connections.
	defer context.AfterFunc(d.ctx, cancel)()
	raw, err := (&net.Dialer{Control: vanished}).DialContext(ctx, d.network, addr)
	if err != nil {
		return nil, unsent{err, atConnect}
	}

	if config != nil {
		if raw, err = encrypt(ctx, raw, addr, config); err != nil {
			return nil, unsent{err, atTLS}
		}
	}

	c := &conn{Conn: raw, home: d, addr: addr, watched: watched}
	d.mu.Lock()
	defer d.mu.Unlock()
	// The link was closed while dialing, and close has not seen this connection.
	if d.ctx.Err() != nil {
		raw.Close()
		return nil, unsent{net.ErrClosed, atConnect}
	}

	d.conns[c] = struct{}{}
	return c, nil
}

func encrypt(ctx context.Context, raw net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		// Other connections use the same config at the same time.
		config = config.Clone()
		config.ServerName = host
	}
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// close closes all connections and refuses new ones.
func (d *dialer) close() {
	d.stop()
	d.drop()
}

// drop closes all connections. The next calls open new ones.
func (d *dialer) drop() {
	for _, c := range d.open() {
		c.Close()
	}
}

// open lists the connections.
func (d *dialer) open() []*conn {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.conns))
}

// These are the states of a connection.
const (
	connGreeting int32 = iota // the client library introduces itself
	connGreeted               // the server has answered the greeting, and nothing else was sent
	connUsed                  // a call may have been sent
	connLost                  // the connection broke before a call was sent, and accepts no writes any more
)

// conn is a connection that distinguishes an error before the first call from an error after that
// call.
type conn struct {
	net.Conn
	home  *dialer
	addr  string // the dialed address
	state atomic.Int32
	// watched is set if the watchdog checks that calls are answered.
	watched bool
	asked   atomic.Int64 // monotonic time at which the oldest unanswered call was sent; 0 if there is none
}

func (c *conn) Write(p []byte) (int, error) {
	if c.state.Load() != connUsed {
		c.state.CompareAndSwap(connGreeted, connUsed)
		// The connection broke at the same time, so the call was not sent.
		if c.state.Load() == connLost {
			return 0, unsent{net.ErrClosed, atGreet}
		}
	}
	// The time is stored before the call is sent, because the answer may arrive before Write returns.
	c.asked.CompareAndSwap(0, int64(c.home.clock.Mono()))
	n, err := c.Conn.Write(p)
	return n, c.judge(err)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.asked.Store(0)
		c.state.CompareAndSwap(connGreeting, connGreeted)
	}
	return n, c.judge(err)
}

// judge returns the error of a read or write. Before the first call it marks the connection as
// lost, and the error as unsent.
func (c *conn) judge(err error) error {
	if err == nil {
		return nil
	}
	c.state.CompareAndSwap(connGreeting, connLost)
	c.state.CompareAndSwap(connGreeted, connLost)
	if c.state.Load() != connLost {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSilent
	}
	return unsent{err, atGreet}
}

func (c *conn) Close() error {
	d := c.home
	d.mu.Lock()
	delete(d.conns, c)
	d.mu.Unlock()
	return c.Conn.Close()
}

var errReplaced = errors.New("the server hangs and was replaced")

const (
	// silence is how long a call waits for an answer before its server counts as hanging.
	silence = 2 * time.Second
	// avoidFor is how long no connection is opened to a server that was replaced. The client
	// library needs less time to find the new primary.
	avoidFor = 3 * time.Second
)

// silent returns the addresses of servers with a call that has waited too long for its answer.
func (d *dialer) silent() (addrs []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Mono()
	for c := range d.conns {
		if asked := time.Duration(c.asked.Load()); c.watched && asked != 0 && now-asked >= silence &&
			!slices.Contains(addrs, c.addr) {
			addrs = append(addrs, c.addr)
		}
	}
	return addrs
}

// avoid closes the connections to a server and opens no new ones for avoidFor.
func (d *dialer) avoid(addr string) {
	d.mu.Lock()
	d.avoided[addr] = d.clock.Mono() + avoidFor
	d.mu.Unlock()
	// d.lock must be free here, because Close takes it.
	for _, c := range d.open() {
		if c.addr == addr {
			c.Close()
		}
	}
}

func (d *dialer) avoids(addr string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	until, ok := d.avoided[addr]
	if ok && d.clock.Mono() >= until {
		delete(d.avoided, addr)
		ok = false
	}
	return ok
}

package faultproxy

import (
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/porttest"
)

// Direction is one of the two directions through the proxy, or both.
type Direction int

// The directions.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// dialLimit is the time limit for a connection to the server.
const dialLimit = 10 * time.Second

// Proxy forwards between clients and one server.
type Proxy struct {
	t     testing.TB
	addr  string
	redis bool
	wg    sync.WaitGroup

	mu       sync.Mutex
	server   string
	listener net.Listener // nil while the proxy is stopped
	links    map[*link]bool
	accepted int
	delay    time.Duration
	cut      Direction
	healed   chan struct{} // closed when cut changes
	faults   []*Injected
	ended    bool
}

// New starts a proxy for any protocol. Its server is at the given address: host:port, or the path
// of a unix socket.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	return start(t, server, false)
}

// Redis starts a proxy that understands the requests of Redis.
func Redis(t testing.TB, server string) *Proxy {
	t.Helper()
	return start(t, server, true)
}

func start(t testing.TB, server string, redis bool) *Proxy {
	t.Helper()
	p := &Proxy{t: t, redis: redis, server: server, addr: porttest.Address(t), links: map[*link]bool{},
		healed: make(chan struct{})}
	p.Resume()
	t.Cleanup(func() {
		p.mu.Lock()
		// After Stop has broken the connections, a connection that is accepted now must not be
		// registered.
		p.ended = true
		p.mu.Unlock()
		p.Stop()
		p.wg.Wait()
	})
	return p
}

// Addr returns the proxy's address for clients, as host:port. It stays the same, and reserved,
// while the proxy is stopped.
func (p *Proxy) Addr() string { return p.addr }

// Retarget sends new connections to another server.
func (p *Proxy) Retarget(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Delay delays each reply by d. Requests are not delayed, and the throughput stays the same.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut holds back all bytes in that direction, on every connection, until Heal. With Both, the
// proxy accepts connections and never answers.
func (p *Proxy) Cut(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setCut(p.cut | d)
}

// Heal ends every Cut and delivers the bytes that were held back.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setCut(0)
}

func (p *Proxy) setCut(d Direction) {
	p.cut = d
	// Every waiting line then checks again whether its direction is cut.
	close(p.healed)
	p.healed = make(chan struct{})
}

// barrier returns nil if the direction is open, and otherwise a channel that is closed when that
// may have changed.
func (p *Proxy) barrier(d Direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut&d == 0 {
		return nil
	}
	return p.healed
}

// Reset breaks all connections with a RST, like a server that no longer knows them.
func (p *Proxy) Reset() {
	p.mu.Lock()
	links := slices.Collect(maps.Keys(p.links))
	// Reset locks again.
	p.mu.Unlock()
	for _, l := range links {
		l.reset()
	}
}

// Stop breaks all connections and refuses new ones, until Resume.
func (p *Proxy) Stop() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.Reset()
}

// Resume ends a Stop.
func (p *Proxy) Resume() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return
	}
	// A process that is being started has a copy of the old listener until it runs its program.
	var l net.Listener
	eventually.True(p.t, "the proxy listens on "+p.addr+" again", func() bool {
		var err error
		l, err = net.Listen("tcp", p.addr)
		return err == nil
	})
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
}

// Accepted returns how many connections the proxy has accepted.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open returns how many connections are open.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) accept(from net.Listener) {
	for {
		client, err := from.Accept()
		if err != nil {
			return // the proxy was stopped
		}
		l := newLink(p, client)
		if !p.enter(l, from) {
			// Accepted just before Stop closed the listener.
			l.reset()
			continue
		}
		p.wg.Go(l.run)
	}
}

// enter registers a connection, so that it can be broken. It returns false if the proxy was
// stopped.
func (p *Proxy) enter(l *link, from net.Listener) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != from || p.ended {
		return false
	}
	p.links[l] = true
	p.accepted++
	return true
}

func (p *Proxy) leave(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) dial() (net.Conn, error) {
	p.mu.Lock()
	server := p.server
	p.mu.Unlock()
	network := "tcp"
	if server[0] == '/' {
		network = "unix"
	}
	return net.DialTimeout(network, server, dialLimit)
}

func (p *Proxy) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.delay)
}

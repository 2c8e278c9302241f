package faultproxy

import (
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/porttest"
)

// Direction is a way through the proxy.
type Direction int

// The two ways, and both.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// dialLimit bounds how long a connection to the server may take to come up.
const dialLimit = 10 * time.Second

// Proxy stands between clients and one server.
type Proxy struct {
	t     testing.TB
	addr  string
	redis bool
	wg    sync.WaitGroup

	mu       sync.Mutex
	server   string
	listener net.Listener // nil while stopped
	links    map[*link]bool
	accepted int
	delay    time.Duration
	cut      Direction
	healed   chan struct{} // closed when cut has changed
	faults   []*Injected
	ended    bool
}

// New starts a proxy, for any protocol, before the server at an address:
// host:port, or the path of a unix socket.
func New(t testing.TB, server string) *Proxy {
	t.Helper()
	return start(t, server, false)
}

// Redis starts a proxy that knows the requests of Redis.
func Redis(t testing.TB, server string) *Proxy {
	t.Helper()
	return start(t, server, true)
}

func start(t testing.TB, server string, redis bool) *Proxy {
	t.Helper()
	p := &Proxy{t: t, redis: redis, server: server, addr: porttest.Address(t), links: map[*link]bool{}, healed: make(chan struct{})}
	p.Resume()
	t.Cleanup(func() {
		p.mu.Lock()
		p.ended = true
		p.mu.Unlock()
		p.Stop()
		p.wg.Wait()
	})
	return p
}

// Addr is where clients connect to, as host:port. It stays the same, and the
// proxy's, while it is stopped as well.
func (p *Proxy) Addr() string { return p.addr }

// Retarget sends the connections that come from now on to another server.
func (p *Proxy) Retarget(server string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Delay lets every reply arrive that much later. The requests are not delayed,
// and nothing gets slower to send.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut lets nothing through in that direction, on no connection, until Heal.
// With Both, the proxy accepts and never answers.
func (p *Proxy) Cut(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setCut(p.cut | d)
}

// Heal ends every Cut. What was held back arrives.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setCut(0)
}

func (p *Proxy) setCut(d Direction) {
	p.cut = d
	close(p.healed)
	p.healed = make(chan struct{})
}

// barrier is nil if the direction is open, else what is closed when that may
// have changed.
func (p *Proxy) barrier(d Direction) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut&d == 0 {
		return nil
	}
	return p.healed
}

// Reset breaks all connections, as a server does that forgets them: the client
// gets a RST.
func (p *Proxy) Reset() {
	p.mu.Lock()
	links := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	for _, l := range links {
		l.reset()
	}
}

// Stop breaks all connections and lets new ones be refused.
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
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatalf("the proxy can't listen: %v", err)
	}
	p.listener = l
	p.wg.Go(func() { p.accept(l) })
}

// Accepted is how many connections came so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Open is how many connections there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) accept(from net.Listener) {
	for {
		client, err := from.Accept()
		if err != nil {
			return // stopped
		}
		l := newLink(p, client)
		if !p.enter(l, from) {
			l.reset()
			continue
		}
		p.wg.Go(l.run)
	}
}

// enter notes a connection, so that it can be broken; false if the proxy was
// stopped meanwhile.
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

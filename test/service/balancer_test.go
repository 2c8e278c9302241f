package service

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// balancer distributes connections to the servers behind it in turn. It skips a server that
// refuses a connection, and one that was not ready at the last check.
type balancer struct {
	listener net.Listener
	ask      bool // whether to check /readyz
	stopped  chan struct{}
	running  sync.WaitGroup

	mu   sync.Mutex
	next int
	back []string        // addresses of the servers
	red  map[string]bool // servers that were not ready at the last check
	open map[net.Conn]bool
}

// readyEvery is how often a balancer checks /readyz.
const readyEvery = 20 * time.Millisecond

// balance starts a balancer that ends with the test.
func balance(t *testing.T, ask bool, back ...string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: l, ask: ask, stopped: make(chan struct{}), back: back, red: map[string]bool{},
		open: map[net.Conn]bool{}}
	b.running.Go(b.accept)
	if ask {
		for _, address := range back {
			b.running.Go(func() { b.watch(address) })
		}
	}
	t.Cleanup(b.stop)
	return b
}

func (b *balancer) url() string { return "http://" + b.listener.Addr().String() }

func (b *balancer) stop() {
	close(b.stopped)
	b.listener.Close()
	b.mu.Lock()
	for conn := range b.open {
		conn.Close()
	}
	b.open = nil
	b.mu.Unlock()
	b.running.Wait()
}

func (b *balancer) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		b.running.Go(func() { b.join(conn) })
	}
}

// watch repeatedly checks whether one server is ready.
func (b *balancer) watch(address string) {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	for {
		select {
		case <-b.stopped:
			return
		case <-tick.C:
		}
		resp, err := client.Get("http://" + address + "/readyz")
		if err == nil {
			resp.Body.Close()
		}
		b.mu.Lock()
		b.red[address] = err != nil || resp.StatusCode != http.StatusOK
		b.mu.Unlock()
	}
}

// turns returns the servers in the order in which they are tried.
func (b *balancer) turns() (order []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	var red []string
	for i := range b.back {
		address := b.back[(b.next+i)%len(b.back)]
		if b.red[address] {
			red = append(red, address)
		} else {
			order = append(order, address)
		}
	}
	return append(order, red...)
}

// keep stores an open connection. It returns false if the balancer has stopped.
func (b *balancer) keep(conn net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		conn.Close()
		return false
	}
	b.open[conn] = true
	return true
}

func (b *balancer) drop(conn net.Conn) {
	conn.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, conn)
}

// join connects a client to the first server that accepts it. If one of them closes the
// connection, the balancer closes the other.
func (b *balancer) join(client net.Conn) {
	if !b.keep(client) {
		return
	}
	defer b.drop(client)
	for _, address := range b.turns() {
		server, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			continue
		}
		if !b.keep(server) {
			return
		}
		defer b.drop(server)
		var sent sync.WaitGroup
		sent.Go(func() {
			io.Copy(server, client)
			server.(*net.TCPConn).CloseWrite()
		})
		io.Copy(client, server)
		client.Close()
		sent.Wait()
		return
	}
}

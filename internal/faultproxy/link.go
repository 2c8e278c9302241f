package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/dulymq/duly/internal/redistest/resp"
)

// link is one client's connection and its connection to the server.
type link struct {
	proxy    *Proxy
	client   net.Conn
	done     chan struct{}
	toServer *line
	toClient *line
	redis    exchange

	mu     sync.Mutex
	server net.Conn // nil until the server is reached
	closed bool
}

func newLink(p *Proxy, client net.Conn) *link {
	return &link{proxy: p, client: client, done: make(chan struct{})}
}

// run serves the connection until it ends.
func (l *link) run() {
	defer l.proxy.leave(l)
	defer l.close()
	server, err := l.proxy.dial()
	if err != nil {
		// If the server can't be reached, the client gets no connection either.
		l.reset()
		return
	}

	// The proxy was stopped while this link connected.
	if !l.reached(server) {
		server.Close()
		return
	}

	l.toServer = newLine(l.proxy, ToServer, server, l.done)
	l.toClient = newLine(l.proxy, ToClient, l.client, l.done)
	requests, replies := l.copyRequests, l.copyReplies
	if l.proxy.redis {
		requests, replies = l.requests, l.replies
	}

	var wg sync.WaitGroup
	// When this line fails, the link stays open: a server that closed may have sent replies
	// before.
	wg.Go(l.toServer.run)
	wg.Go(func() {
		l.toClient.run()
		l.close()
	})
	wg.Go(func() {
		l.report(requests())
		// Everything that the client sent before its end still arrives, and so do the replies.
		l.toServer.put(parcel{then: closeWrite})
	})
	wg.Go(func() {
		l.report(replies())
		l.finish()
	})
	wg.Wait()
}

// reached records the connection to the server, unless the link has been closed.
func (l *link) reached(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.server = server
	return true
}

// finish closes the connection after everything in flight to the client was delivered.
func (l *link) finish() { l.toClient.put(parcel{then: func(net.Conn) { l.close() }}) }

// close ends the connection.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	l.client.Close()
	if l.server != nil {
		l.server.Close()
	}
}

// reset ends the connection at once, with a RST to the client.
func (l *link) reset() {
	if c, ok := l.client.(*net.TCPConn); ok {
		// Without lingering, the close sends a RST instead of a FIN.
		c.SetLinger(0)
	}
	l.close()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

func (l *link) copyRequests() error { return l.copy(l.client, l.toServer) }
func (l *link) copyReplies() error  { return l.copy(l.server, l.toClient) }

func (l *link) copy(from net.Conn, to *line) error {
	for {
		// The line keeps the slice until its data is delivered, so each read needs a new slice.
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			to.send(buf[:n])
		}
		if err != nil {
			return err
		}
	}
}

// requests reads the client's requests and handles each with its fault.
func (l *link) requests() error {
	in := resp.NewReader(l.client)
	for {
		args, err := in.ReadCommand()
		if err != nil {
			return err
		}
		// The reader reuses its buffer for the next request.
		raw := bytes.Clone(in.Raw())
		fault := l.fault(args)
		if fault != nil && fault.Before != nil {
			fault.Before(args)
		}
		l.request(args, raw, fault)
	}
}

// replies reads the server's replies and handles each as its request's record says.
func (l *link) replies() error {
	in := resp.NewReader(l.server)
	for {
		v, err := in.Read()
		if err != nil {
			return err
		}
		_, push := v.(resp.Push)
		l.reply(bytes.Clone(in.Raw()), push)
	}
}

// report fails the test for any error except the end of a connection. Such an error means that
// bytes are not RESP.
func (l *link) report(err error) {
	var n net.Error
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &n) {
		return
	}
	l.proxy.t.Errorf("faultproxy: %v", err)
	l.reset()
}

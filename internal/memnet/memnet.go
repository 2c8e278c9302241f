package memnet

import (
	"context"
	"net"
	"sync"
)

// Listener accepts connections from its own Dial method. There is no buffer: a write returns when
// the other side has read it.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	close  sync.Once
}

var _ net.Listener = (*Listener)(nil)

// Listen returns a listener that only its own Dial can reach.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects to the listener; the address is ignored. It can be used as the DialContext of a
// net/http.Transport. After Close, Dial fails like a refused connection.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	var err error
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	near.Close()
	return nil, &net.OpError{Op: "dial", Net: "memory", Addr: addr{}, Err: err}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "memory", Addr: addr{}, Err: net.ErrClosed}
	}
}

// Close implements net.Listener. Close may be called repeatedly.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

// Network implements net.Addr.
func (addr) Network() string { return "memory" }

// String implements net.Addr.
func (addr) String() string { return "memory" }

package conformance

import (
	"net"
	"testing"
)

// turn waits for a turn of the runtime's network poller. Data between two sockets belongs to no
// goroutine until the poller has seen it, and no fixed time is long enough on a busy machine. A
// byte that is sent last over a separate pair of sockets is seen last. Goroutines that wait for
// other data are runnable by then.
type turn struct {
	near  net.Conn
	taken chan error // one value per byte that has arrived
}

// take sends a byte and returns when it has arrived or the pair is closed. The other end must be
// blocked, because otherwise it reads the byte without the poller.
func (p *turn) take() {
	if _, err := p.near.Write([]byte{0}); err == nil {
		<-p.taken
	}
}

func newTurn(t testing.TB) *turn {
	t.Helper()
	p := &turn{taken: make(chan error, 1)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// One connection is enough, so the listener closes after it.
	defer l.Close()

	if p.near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.near.Close() })
	go func() {
		defer far.Close()
		for b := make([]byte, 1); ; {
			_, err := far.Read(b)
			p.taken <- err
			if err != nil {
				return
			}
		}
	}()
	return p
}

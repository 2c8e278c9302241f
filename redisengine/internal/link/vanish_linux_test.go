package link

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/redistest"
)

func TestConnectionsDetectAVanishedHost(t *testing.T) {
	t.Parallel()
	s, _ := redistest.Shared(t)
	l := open(t, s.URL())
	block(t.Context(), l, time.Millisecond, "none")
	for _, c := range l.dialer.open() {
		raw, err := c.Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var ms int
		if err := raw.Control(func(fd uintptr) {
			ms, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP,
				tcpUserTimeout)
		}); err != nil {
			t.Fatal(err)
		}
		if got := time.Duration(ms) * time.Millisecond; got != vanishAfter {
			t.Errorf("TCP_USER_TIMEOUT is %v", got)
		}
	}
}

package link

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, in milliseconds.
const tcpUserTimeout = 18

// vanishAfter is how long what was sent may stay without acknowledgement. A
// server that stands still acknowledges; its host does that.
const vanishAfter = 6 * time.Second

// vanished gives a connection up when what was sent stays without the other
// host's acknowledgement for vanishAfter. Linux would try for a quarter of an
// hour, and the client library asks only a connection that is idle.
func vanished(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return c.Control(func(fd uintptr) {
		// Without it things go on as before, only later.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(vanishAfter.Milliseconds()))
	})
}

package link

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, in milliseconds.
const tcpUserTimeout = 18

// vanishAfter is how long sent data may stay unacknowledged. The host of a server that hangs
// still acknowledges.
const vanishAfter = 6 * time.Second

// vanished makes Linux close a connection whose sent data stays unacknowledged for vanishAfter.
// By default Linux retries for a quarter of an hour, and the client library pings only idle
// connections.
func vanished(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return c.Control(func(fd uintptr) {
		// If this fails, the link detects a vanished host later.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(vanishAfter.Milliseconds()))
	})
}

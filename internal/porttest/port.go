// Package porttest gives tests ports of the loopback that stay theirs while
// nobody listens there: a server that is down comes back on its port, and
// whoever connects meanwhile is refused.
package porttest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// Ports are taken from below those that systems give to outgoing connections,
// and to servers that name none, so none of these sits on the port of a server
// that is about to come back.
const firstPort, ports = 15_000, 17_000

var lastPort atomic.Uint32

// Address is an address of the loopback for a server of the test's own. Nobody
// else is given it while the test runs, also while that server is down.
func Address(t testing.TB) string {
	t.Helper()
	port, claim, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { claim.Close() })
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// Claim is a port of the loopback that nobody listens on, and the claim to it:
// while that is held nobody else is given the port, in whatever test process,
// also while the server that it is for is down. Nothing speaks UDP here, so the
// same number there is the claim. Test processes begin at different places.
func Claim() (port int, claim io.Closer, err error) {
	for range ports {
		port := firstPort + (os.Getpid()*31+int(lastPort.Add(1)))%ports
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		claim, failed := net.ListenPacket("udp", at)
		if failed != nil {
			err = failed
			continue
		}
		l, failed := net.Listen("tcp", at)
		if failed == nil {
			return port, claim, l.Close()
		}
		err = errors.Join(failed, claim.Close())
	}
	return 0, nil, fmt.Errorf("no free port: %w", err)
}

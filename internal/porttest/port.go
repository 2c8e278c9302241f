// Package porttest reserves loopback ports for tests. A reserved port stays reserved while
// nothing listens on it: a stopped server can restart on its port, and clients that connect
// in between are refused.
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

// The range is below the ephemeral ports that systems use for outgoing connections and for
// listeners on port 0. So no other socket can take the port of a stopped server.
const firstPort, ports = 15_000, 17_000

var lastPort atomic.Uint32

// Address returns a loopback address for a server of the test. No other test gets it until
// this test ends, even while the server is down.
func Address(t testing.TB) string {
	t.Helper()
	port, claim, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { claim.Close() })
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// Claim returns a free loopback port and a claim to it. No test process gets the port while
// the claim is open, even if no server listens there. The claim is a UDP socket with the same
// number, which tests never use otherwise. Processes start their search at different ports.
func Claim() (port int, claim io.Closer, err error) {
	for range ports {
		port := firstPort + (os.Getpid()*31+int(lastPort.Add(1)))%ports
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		claim, failed := net.ListenPacket("udp", at)
		if failed != nil {
			err = failed
			continue
		}
		// Another program may be listening on the TCP port.
		l, failed := net.Listen("tcp", at)
		if failed == nil {
			return port, claim, l.Close()
		}
		err = errors.Join(failed, claim.Close())
	}
	return 0, nil, fmt.Errorf("no free port: %w", err)
}

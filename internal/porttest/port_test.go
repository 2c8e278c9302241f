package porttest

import "testing"

// The port of a server that is down is kept for it, also from other processes,
// which see that nobody listens there.
func TestThePortOfAServerThatIsDownIsKept(t *testing.T) {
	port, claim, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	lastPort.Store(lastPort.Load() - 1) // as another process, which counts for itself
	next, other, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if next == port {
		t.Errorf("port %d was given twice", port)
	}
}

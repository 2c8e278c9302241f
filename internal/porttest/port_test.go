package porttest

import "testing"

// The claim also protects a port from other processes, even while nothing listens there.
func TestThePortOfAServerThatIsDownIsKept(t *testing.T) {
	port, claim, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	lastPort.Store(lastPort.Load() - 1) // simulates another process, which has a separate counter
	next, other, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if next == port {
		t.Errorf("port %d was given twice", port)
	}
}

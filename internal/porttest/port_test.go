package porttest

import "testing"

// The claim protects a port also from other processes, which see that nothing listens there.
func TestThePortOfAServerThatIsDownIsKept(t *testing.T) {
	port, claim, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Close()
	lastPort.Store(lastPort.Load() - 1) // another process has its own counter
	next, other, err := Claim()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if next == port {
		t.Errorf("port %d was given twice", port)
	}
}

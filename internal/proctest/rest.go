package proctest

import (
	"testing"
	"time"
)

// A process is at rest if it takes no more than a twentieth of a processor. It
// has a minute to come to that.
const (
	window   = 500 * time.Millisecond
	atRest   = window / 20
	restless = time.Minute
)

// AwaitRest waits until a process is at rest: until it is done with what it had
// still to do, such as to collect garbage, when all its answers had been given.
func AwaitRest(t testing.TB, pid int) {
	t.Helper()
	for end := time.Now().Add(restless); time.Now().Before(end); {
		before := CPU(t, pid)
		time.Sleep(window)
		if CPU(t, pid)-before <= atRest {
			return
		}
	}
	t.Fatalf("process %d has not come to rest in %s", pid, restless)
}

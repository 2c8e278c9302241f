package proctest

import (
	"testing"
	"time"
)

// A process is at rest if it uses at most 5 % of a processor. It must reach that state
// within a minute.
const (
	window   = 500 * time.Millisecond
	atRest   = window / 20
	restless = time.Minute
)

// AwaitRest waits until a process is at rest. After its last response a process may still
// have work to do, such as garbage collection.
func AwaitRest(t testing.TB, pid int) {
	t.Helper()
	for end := time.Now().Add(restless); time.Now().Before(end); {
		before := CPU(t, pid)
		time.Sleep(window)
		if CPU(t, pid)-before <= atRest {
			return
		}
	}
	t.Fatalf("process %d is not idle after %s", pid, restless)
}

//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime returns the CPU time that this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		// A report shows 0 as unknown.
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

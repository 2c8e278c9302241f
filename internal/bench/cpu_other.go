//go:build !unix

package bench

import "time"

// cpuTime returns 0, because this system does not report it.
func cpuTime() time.Duration { return 0 }

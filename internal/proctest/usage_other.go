//go:build !linux

package proctest

import (
	"testing"
	"time"
)

const needsLinux = "reads /proc, so it runs on Linux"

// CPU skips the test: only Linux is supported.
func CPU(t testing.TB, _ int) time.Duration {
	t.Skip(needsLinux)
	return 0
}

// Memory skips the test: only Linux is supported.
func Memory(t testing.TB, _ int) int64 {
	t.Skip(needsLinux)
	return 0
}

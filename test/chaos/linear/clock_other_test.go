//go:build !linux

package linear

import "time"

// monotonic returns the wall clock, because Go has no other clock here that processes share.
func monotonic() int64 { return time.Now().UnixNano() }

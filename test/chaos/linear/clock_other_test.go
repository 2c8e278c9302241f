//go:build !linux

package linear

import "time"

// monotonic is the wall clock where Go shows no other one that processes share.
func monotonic() int64 { return time.Now().UnixNano() }

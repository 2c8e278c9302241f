package linear

import "golang.org/x/sys/unix"

// monotonic returns a time in ns that all processes of the machine share and that never jumps.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

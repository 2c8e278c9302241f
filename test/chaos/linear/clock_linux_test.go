package linear

import "golang.org/x/sys/unix"

// monotonic is a clock in ns that all processes of the machine share and that
// nobody sets.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

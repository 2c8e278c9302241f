//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups brings HUP until stop is called. Before, and in every other command,
// it ends the process.
func hangups(to chan<- os.Signal) (stop func()) {
	signal.Notify(to, syscall.SIGHUP)
	return func() { signal.Stop(to) }
}

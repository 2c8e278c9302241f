//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups sends HUP to a channel until stop is called. Without this call, HUP ends
// the process.
func hangups(to chan<- os.Signal) (stop func()) {
	signal.Notify(to, syscall.SIGHUP)

	// Stop restores the default action: a later HUP ends the process again.
	return func() { signal.Stop(to) }
}

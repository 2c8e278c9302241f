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
	return func() { signal.Stop(to) }
}

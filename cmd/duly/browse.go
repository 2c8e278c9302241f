package main

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
)

var errNoBrowser = errors.New("there is no desktop")

// browse opens a page in the user's browser. It does not wait for it.
func browse(url string) error {
	command := []string{"xdg-open", url}
	switch runtime.GOOS {
	case "darwin":
		command[0] = "open"
	case "windows":
		command = []string{"rundll32", "url.dll,FileProtocolHandler", url}
	default:
		// Without a desktop, xdg-open may start a browser in this terminal.
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errNoBrowser
		}
	}
	started := exec.Command(command[0], command[1:]...)
	if err := started.Start(); err != nil {
		return err
	}
	return started.Process.Release()
}

// Package sdnotify tells a service manager what a server does, in the protocol
// of systemd's sd_notify(3): a datagram of lines to the socket that the variable
// NOTIFY_SOCKET names. Where it names none, nobody is told.
package sdnotify

import (
	"net"
	"strings"
)

// Variable names the socket.
const Variable = "NOTIFY_SOCKET"

// What a server tells.
const (
	Ready     = "READY=1"
	Reloading = "RELOADING=1"
	Stopping  = "STOPPING=1"
)

// Status is a line for people, as `systemctl status` shows it.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Notifier tells one service manager. The zero Notifier tells nobody.
type Notifier struct{ socket string }

// New returns a notifier for a socket: a path, or a name in the abstract
// namespace behind "@"; "" is none.
func New(socket string) Notifier { return Notifier{socket} }

// Tell sends lines in one datagram. A server goes on without a manager that
// does not listen, so most callers drop the error.
func (n Notifier) Tell(lines ...string) error {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(strings.Join(lines, "\n")))
	return err
}

// Package sdnotify reports the state of a server to a service manager, in the
// protocol of systemd's sd_notify(3). A report is a datagram of lines to the socket
// in the variable NOTIFY_SOCKET. Without that variable, nothing is sent.
package sdnotify

import (
	"net"
	"strings"
)

// Variable is the environment variable with the path of the socket.
const Variable = "NOTIFY_SOCKET"

// The states of a server.
const (
	Ready     = "READY=1"
	Reloading = "RELOADING=1"
	Stopping  = "STOPPING=1"
)

// Status returns a line for people, which `systemctl status` shows.
func Status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", " ") }

// Notifier sends reports to one service manager. The zero Notifier sends nothing.
type Notifier struct{ socket string }

// New returns a Notifier for a socket. The socket is a path, or a name in the
// abstract namespace after "@". With "" the Notifier sends nothing.
func New(socket string) Notifier { return Notifier{socket} }

// Notify sends lines in one datagram. A server can run without a manager that
// listens, so most callers drop the error.
func (n Notifier) Notify(lines ...string) error {
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

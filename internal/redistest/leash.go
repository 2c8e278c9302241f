package redistest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// leashScript receives the pids of servers that start ("+ pid") and end ("- pid"). It kills the
// remaining ones when the pipe ends. Its argument is the common folder. It ignores the interrupt
// key, because its signal also reaches the shell.
const leashScript = `
trap '' INT TERM HUP
live=
while read -r what pid; do
	rest=
	for one in $live; do [ "$one" = "$pid" ] || rest="$rest $one"; done
	live=$rest
	[ "$what" = - ] || live="$live $pid"
done
for one in $live; do kill -9 "$one"; done
rm -rf "$1"
`

// leash has the shell that kills the servers when this test process ends.
type leash struct {
	folder string // common folder of all servers
	mu     sync.Mutex
	to     io.Writer // never closed; the shell reads its end when the process ends
}

// theLeash starts the shell, once per test process.
var theLeash = sync.OnceValues(func() (*leash, error) {
	folder, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("sh", "-c", leashScript, "sh", folder)
	to, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &leash{folder: folder, to: to}, nil
})

// hold makes the servers' shell kill a process when this test process ends.
func (l *leash) hold(pid int) error { return l.send("+ %d\n", pid) }

// release removes a process that has ended and was not reaped yet. After that, its pid may be
// reused.
func (l *leash) release(pid int) error { return l.send("- %d\n", pid) }

func (l *leash) send(format string, args ...any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintf(l.to, format, args...)
	return err
}

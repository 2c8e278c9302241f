package redistest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// leashScript is told the servers as they come ("+ pid") and go ("- pid"), and
// ends what is left when nobody can tell it any more. Its argument is the
// folder of all. A key that interrupts the tests reaches the shell too, and
// must not end it first.
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

// leash holds what ends with this test process.
type leash struct {
	folder string // of all its servers
	mu     sync.Mutex
	to     io.Writer // never closed: that the process has ended is what its end says
}

// theLeash starts the one shell of this test process.
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

// hold lets a process that this one has started end with it.
func (l *leash) hold(pid int) error { return l.send("+ %d\n", pid) }

// release is for a process that has ended and is not yet reaped: afterwards
// its pid may be another's.
func (l *leash) release(pid int) error { return l.send("- %d\n", pid) }

func (l *leash) send(format string, args ...any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintf(l.to, format, args...)
	return err
}

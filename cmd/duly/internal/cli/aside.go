package cli

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// mostAside is how many lines are kept while they can't be written.
const mostAside = 1000

// aside is where the log of an engine goes: to standard error, but while a view
// has the screen its lines are kept until the view has ended.
type aside struct {
	to io.Writer

	mu      sync.Mutex
	held    bool
	heard   chan<- string // of the view: the newest lines
	lines   [][]byte
	dropped int // the oldest, where there were more
}

// Write implements io.Writer; a call is a line.
func (a *aside) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.held {
		return a.to.Write(line)
	}
	if len(a.lines) == mostAside {
		a.lines, a.dropped = a.lines[1:], a.dropped+1
	}
	a.lines = append(a.lines, bytes.Clone(line))
	select {
	case a.heard <- string(bytes.TrimSpace(line)):
	default: // the view has enough to show
	}
	return len(line), nil
}

// hold keeps the lines back, and lets the view hear of them. release writes them,
// and may be called twice.
func (a *aside) hold() (heard <-chan string, release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := make(chan string, 8)
	a.held, a.heard = true, lines
	return lines, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.held = false
		if a.dropped > 0 {
			fmt.Fprintf(a.to, "%d earlier lines were dropped\n", a.dropped)
		}
		for _, line := range a.lines {
			_, _ = a.to.Write(line) // as a log does
		}
		a.lines, a.dropped = nil, 0
	}
}

package cli

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// maxHeldLines is the number of lines that a deferredLog holds.
const maxHeldLines = 1000

// deferredLog is the destination of an engine's log: standard error. While a live view
// uses the screen, deferredLog holds the lines and writes them afterwards.
type deferredLog struct {
	to io.Writer

	mu      sync.Mutex
	holding bool
	viewer  chan<- string // receives the newest lines
	lines   [][]byte
	dropped int // number of older lines that were dropped
}

// Write implements io.Writer. A call writes one line.
func (l *deferredLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.holding {
		return l.to.Write(line)
	}

	// The newest lines explain the present state, so the oldest line is dropped.
	if len(l.lines) == maxHeldLines {
		l.lines, l.dropped = l.lines[1:], l.dropped+1
	}

	// The logger reuses its buffer after Write returns.
	l.lines = append(l.lines, bytes.Clone(line))
	select {
	// A full channel must not block the engine that logs. Every line is also held.
	case l.viewer <- string(bytes.TrimSpace(line)):
	default: // the view has not shown earlier lines yet
	}
	return len(line), nil
}

// hold begins to hold lines and sends them to the returned channel too. release writes
// the held lines. It may be called twice.
func (l *deferredLog) hold() (held <-chan string, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()

	// A few lines are enough, because the view shows only the newest.
	lines := make(chan string, 8)
	l.holding, l.viewer = true, lines

	return lines, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holding = false
		if l.dropped > 0 {
			fmt.Fprintf(l.to, "%d earlier lines were dropped\n", l.dropped)
		}
		for _, line := range l.lines {
			_, _ = l.to.Write(line) // errors of the log itself are dropped
		}

		// A second release must not write the lines again.
		l.lines, l.dropped = nil, 0
	}
}

// Package logtest is a log that a test reads while it is written.
package logtest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Log is what was logged so far, by as many goroutines as like. The zero Log is
// empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger logs into it, in slog's text form, from the level info on.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements io.Writer, for a handler of another form.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count is how often a text stands in it.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }

// Lines are those in which a text stands.
func (l *Log) Lines(with string) (lines []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, with) {
			lines = append(lines, line)
		}
	}
	return lines
}

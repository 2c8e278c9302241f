// Package logtest provides a log that a test can read while it is being written.
package logtest

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Log collects log output. It is safe for concurrent use, and its zero value is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger returns a logger that writes to l in slog's text format, at level info and above.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements io.Writer, so that other slog handlers can also write to l.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns everything that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count returns the number of times a text occurs in the log.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }

// CountLines returns the number of lines that contain all of the texts.
func (l *Log) CountLines(with ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(with, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}

// Lines returns the lines that contain a string.
func (l *Log) Lines(with string) (lines []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, with) {
			lines = append(lines, line)
		}
	}
	return lines
}

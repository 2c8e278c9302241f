package top

import (
	"context"
	"io"
	"strings"

	"github.com/dulymq/duly/internal/clock"
)

// Terminal is a screen with a keyboard.
type Terminal interface {
	io.Writer
	// Size returns the size of the screen, in characters.
	Size() (width, height int)
	// Raw sets raw mode: every key is sent at once and not shown. restore restores the
	// mode. It may be called twice.
	Raw() (restore func(), err error)
	// Keys returns a channel that receives the typed text, until the input ends.
	Keys() <-chan string
}

// LiveView is a view that is refreshed until the user quits.
type LiveView struct {
	Model    *Model
	Sampler  *Sampler
	Terminal Terminal
	Format   *Format
	Clock    clock.Clock
	// Log, if set, sends lines to show above the table.
	Log <-chan string
}

// The escape sequences that the view sends to the terminal.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	// Each line is cleared before it is written. Clearing after a line that is as wide as
	// the screen would erase its last character in some terminals.
	clearFirst = "\x1b[H\x1b[K"
	clearNext  = "\r\n\x1b[K"
	resetStyle = "\x1b[m"
)

// Enter switches to the alternate screen and raw mode. leave restores both. It may be
// called twice, also while Run runs.
func (l *LiveView) Enter() (leave func(), err error) {
	restore, err := l.Terminal.Raw()
	if err != nil {
		return nil, err
	}
	// The terminal must not stay raw after an error.
	if _, err := io.WriteString(l.Terminal, enterScreen); err != nil {
		restore()
		return nil, err
	}
	return func() {
		io.WriteString(l.Terminal, leaveScreen)
		restore()
	}, nil
}

// sampleResult is the result of taking a sample.
type sampleResult struct {
	sample *Sample
	err    error
}

// Run shows the view until ctx ends, the input ends, or the user quits. The caller has
// called Enter and taken the first sample.
func (l *LiveView) Run(ctx context.Context, first *Sample) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	// At most one sample is taken at a time. The buffer lets its goroutine end after Run.
	samples := make(chan sampleResult, 1)
	sampling := false
	take := func() {
		if sampling {
			return
		}
		sampling = true
		go func() {
			s, err := l.Sampler.Take(ctx)
			samples <- sampleResult{s, err}
		}()
	}

	l.Model.Add(first, nil)
	keys := l.Terminal.Keys()
	timer := l.Clock.NewTimer(l.Model.Interval)
	defer timer.Stop()
	for {
		if err := l.draw(); err != nil {
			return err
		}
		select {
		// An interrupt is the normal end of a live view.
		case <-ctx.Done():
			return nil
		case text, ok := <-keys:
			if !ok || l.handleKeys(text, take) == Quit {
				return nil
			}
		case line := <-l.Log:
			l.Model.Show(line)
		case result := <-samples:
			sampling = false
			l.Model.Add(result.sample, result.err)

			// The interval begins after the sample, so that a slow engine gets a pause.
			timer.Reset(l.Model.Interval)
		case <-timer.C:
			if l.Model.Frozen() {
				// The timer continues, because a key may end the freeze.
				timer.Reset(l.Model.Interval)
			} else {
				take()
			}
		}
	}
}

// handleKeys handles typed text. It returns Quit if the user quits.
func (l *LiveView) handleKeys(text string, refresh func()) Command {
	for _, key := range splitKeys(text) {
		switch l.Model.HandleKey(key) {
		case Quit:
			return Quit
		case Refresh:
			refresh()
		}
	}
	return Nothing
}

// draw draws the whole view with one write.
func (l *LiveView) draw() error {
	width, height := l.Terminal.Size()
	lines := l.Model.View(l.Format, width, height)
	_, err := io.WriteString(l.Terminal, clearFirst+strings.Join(lines, clearNext)+resetStyle)
	return err
}

// splitKeys splits typed text into keys.
func splitKeys(text string) (keys []string) {
	for len(text) > 0 {
		n := 1

		// Escape alone is a key too. Only these two begin a longer sequence.
		if strings.HasPrefix(text, "\x1b[") || strings.HasPrefix(text, "\x1bO") {
			n = 2
			for n < len(text) && (text[n] < '@' || text[n] > '~') {
				n++
			}

			// The sequence may be cut off at the end of the text.
			n = min(n+1, len(text))
		}
		// Terminals send one of two sequences for an arrow.
		keys = append(keys, strings.Replace(text[:n], "\x1bO", "\x1b[", 1))
		text = text[n:]
	}
	return keys
}

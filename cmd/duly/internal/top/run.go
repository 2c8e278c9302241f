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
	// Size is that of the screen, in characters.
	Size() (width, height int)
	// Raw lets the keyboard bring every key at once and show none. restore
	// gives it back as it was; it may be called twice.
	Raw() (restore func(), err error)
	// Keys brings what is typed, piece by piece, until there is no more.
	Keys() <-chan string
}

// Live is a view that goes on until somebody ends it.
type Live struct {
	Model    *Model
	Sampler  *Sampler
	Terminal Terminal
	Words    *Words
	Clock    clock.Clock
	// Log, if set, brings what is to be shown beside the queues, a line each.
	Log <-chan string
}

// What is sent to the terminal beside the lines.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the second screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	// A line is cleared before it is written: behind one that is as wide as the
	// screen, terminals take the last character for what is to be cleared.
	firstLine = "\x1b[H\x1b[K"
	nextLine  = "\r\n\x1b[K"
	drawn     = "\x1b[m"
)

// Enter takes the terminal. leave gives it back as it was, and may be called
// twice, also while Run runs.
func (l *Live) Enter() (leave func(), err error) {
	restore, err := l.Terminal.Raw()
	if err != nil {
		return nil, err
	}
	if _, err := io.WriteString(l.Terminal, enterScreen); err != nil {
		restore()
		return nil, err
	}
	return func() {
		io.WriteString(l.Terminal, leaveScreen)
		restore()
	}, nil
}

// taken is a sample, or why there is none.
type taken struct {
	sample *Sample
	err    error
}

// Run shows the view until ctx ends, the keyboard does, or somebody quits. The
// terminal is entered; first is the first sample.
func (l *Live) Run(ctx context.Context, first *Sample) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.Model.See(first, nil)
	keys := l.Terminal.Keys()
	samples := make(chan taken, 1)
	under := false // a sample is under way
	take := func() {
		if !under {
			under = true
			go func() {
				s, err := l.Sampler.Take(ctx)
				samples <- taken{s, err}
			}()
		}
	}
	timer := l.Clock.NewTimer(l.Model.Interval)
	defer timer.Stop()
	for {
		if err := l.draw(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case text, more := <-keys:
			if !more {
				return nil
			}
			for _, key := range split(text) {
				switch l.Model.Key(key) {
				case Quit:
					return nil
				case Refresh:
					take()
				}
			}
		case line := <-l.Log:
			l.Model.Say(line)
		case s := <-samples:
			under = false
			l.Model.See(s.sample, s.err)
			timer.Reset(l.Model.Interval)
		case <-timer.C:
			if l.Model.Frozen() {
				timer.Reset(l.Model.Interval)
			} else {
				take()
			}
		}
	}
}

// draw writes the whole view at once.
func (l *Live) draw() error {
	width, height := l.Terminal.Size()
	lines := l.Model.View(l.Words, width, height)
	_, err := io.WriteString(l.Terminal, firstLine+strings.Join(lines, nextLine)+drawn)
	return err
}

// split takes what has come from a keyboard apart into keys.
func split(text string) (keys []string) {
	for len(text) > 0 {
		n := 1
		if strings.HasPrefix(text, "\x1b[") || strings.HasPrefix(text, "\x1bO") {
			n = 2
			for n < len(text) && (text[n] < '@' || text[n] > '~') {
				n++
			}
			n = min(n+1, len(text))
		}
		keys = append(keys, strings.Replace(text[:n], "\x1bO", "\x1b[", 1)) // arrows have two forms
		text = text[n:]
	}
	return keys
}

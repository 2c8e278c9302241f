package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// progress is a progress bar on standard error. If that is no terminal, the progress is
// nil and its methods do nothing.
type progress struct {
	out     io.Writer
	clock   clock.Clock
	name    string
	total   int64 // 0 if it is unknown
	done    int64
	counted int64 // the number to show instead of done; 0 means done
	bytes   bool  // whether the numbers are bytes
	start   time.Time
	drawn   time.Time
}

// barInterval is the shortest time between two drawings of a bar.
const barInterval = 100 * time.Millisecond

func (a *app) newProgress(name string, total int64) *progress {
	// Progress in a log file is noise, and with --json the stream may be read by a program.
	if a.json || !a.env.Terminal(a.env.Stderr) {
		return nil
	}
	return &progress{out: a.env.Stderr, clock: a.env.Clock, name: name, total: total, start: a.env.Clock.Now()}
}

// add adds n to the bar. counted is the number to show instead of done; 0 means done.
func (b *progress) add(n, counted int64) {
	if b != nil {
		b.set(b.done+n, b.total, counted)
	}
}

// set sets the bar to done of total.
func (b *progress) set(done, total, counted int64) {
	if b == nil {
		return
	}
	b.done, b.total, b.counted = done, total, counted

	// A fast loop calls set thousands of times per second. Drawing each time would slow it down.
	if now := b.clock.Now(); now.Sub(b.drawn) >= barInterval {
		b.drawn = now
		b.draw(now)
	}
}

// draw draws the bar, the number and the rate.
func (b *progress) draw(now time.Time) {
	const width = 30
	text := ""
	if b.total > 0 {
		// The number may exceed a total that was counted before the work began.
		part := min(float64(b.done)/float64(b.total), 1)
		full := int(part * width)
		text = fmt.Sprintf("[%s%s] %3.0f%%  ", strings.Repeat("█", full), strings.Repeat("░", width-full), part*100)
	}

	count := b.done
	if b.counted > 0 {
		count = b.counted
	}
	format := countText
	if b.bytes {
		format = bytesText
	}
	text += format(count)

	// In the first second the rate is too random to show.
	if passed := now.Sub(b.start).Seconds(); passed >= 1 {
		text += fmt.Sprintf("  %s/s", format(int64(float64(count)/passed)))
	}
	fmt.Fprintf(b.out, "\r\x1b[K%s  %s", b.name, text)
}

// end removes the bar.
func (b *progress) end() {
	// A bar that was never drawn leaves nothing to erase.
	if b != nil && !b.drawn.IsZero() {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

// inputSize returns the size of the file on standard input, 0 for a pipe.
func inputSize(in io.Reader) int64 {
	f, ok := in.(*os.File)
	if !ok {
		return 0
	}

	// Only a regular file has a size before it is read.
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

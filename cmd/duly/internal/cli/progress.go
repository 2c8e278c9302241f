package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// progress is a bar on standard error for work that takes long. It shows only
// on a terminal; else its methods do nothing. A nil progress is one that does
// not show.
type progress struct {
	out   io.Writer
	clock clock.Clock
	name  string
	total int64 // 0: not known
	done  int64
	items int64 // 0: not counted apart
	bytes bool  // what is counted
	begun time.Time
	shown time.Time
}

// barEvery is how often a bar is drawn.
const barEvery = 100 * time.Millisecond

func (a *app) newProgress(name string, total int64) *progress {
	if a.json || !a.env.Terminal(a.env.Stderr) {
		return nil
	}
	return &progress{out: a.env.Stderr, clock: a.env.Clock, name: name, total: total, begun: a.env.Clock.Now()}
}

// add moves the bar on; items is what is counted beside it, so far.
func (b *progress) add(n, items int64) {
	if b != nil {
		b.set(b.done+n, b.total, items)
	}
}

// set puts the bar to done of total.
func (b *progress) set(done, total, items int64) {
	if b == nil {
		return
	}
	b.done, b.total, b.items = done, total, items
	if now := b.clock.Now(); now.Sub(b.shown) >= barEvery {
		b.shown = now
		b.draw(now)
	}
}

func (b *progress) draw(now time.Time) {
	const width = 30
	text := ""
	if b.total > 0 {
		part := min(float64(b.done)/float64(b.total), 1)
		full := int(part * width)
		text = fmt.Sprintf("[%s%s] %3.0f%%  ", strings.Repeat("█", full), strings.Repeat("░", width-full), part*100)
	}
	count := b.done
	if b.items > 0 {
		count = b.items
	}
	say := countText
	if b.bytes {
		say = bytesText
	}
	text += say(count)
	if passed := now.Sub(b.begun).Seconds(); passed >= 1 {
		text += fmt.Sprintf("  %s/s", say(int64(float64(count)/passed)))
	}
	fmt.Fprintf(b.out, "\r\x1b[K%s  %s", b.name, text)
}

// end takes the bar away.
func (b *progress) end() {
	if b != nil && !b.shown.IsZero() {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

// inputSize is the size of the file behind standard input, 0 for a pipe.
func inputSize(in io.Reader) int64 {
	f, ok := in.(*os.File)
	if !ok {
		return 0
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

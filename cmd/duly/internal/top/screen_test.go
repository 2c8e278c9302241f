package top

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeTerminal is a terminal in memory. It fails the test on any escape sequence that it
// does not know.
type fakeTerminal struct {
	t             *testing.T
	width, height int
	keys          chan string

	mu      sync.Mutex
	lines   []string
	raw     bool
	second  bool // whether the alternate screen is shown
	hidden  bool // whether the cursor is hidden
	drawn   int
	changed chan struct{} // closed at the next drawing
}

func newTerminal(t *testing.T, width, height int) *fakeTerminal {
	return &fakeTerminal{
		t: t, width: width, height: height, keys: make(chan string), lines: make([]string, height),
		changed: make(chan struct{}),
	}
}

// Size implements Terminal.
func (f *fakeTerminal) Size() (int, int) { return f.width, f.height }

// Keys implements Terminal.
func (f *fakeTerminal) Keys() <-chan string { return f.keys }

// Raw implements Terminal.
func (f *fakeTerminal) Raw() (func(), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raw = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.raw = false
	}, nil
}

// Write implements Terminal.
func (f *fakeTerminal) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x, y := 0, 0
	for text := string(b); text != ""; {
		if rest, ok := f.sequence(text, &x, &y); ok {
			text = rest
			continue
		}

		r := []rune(text)[0]
		if r < ' ' {
			f.t.Errorf("the screen is sent %q", text[:min(len(text), 10)])
		}
		line := []rune(f.lines[y])
		for len(line) <= x {
			line = append(line, ' ')
		}
		line[x] = r
		f.lines[y] = string(line)
		if x++; x > f.width {
			f.t.Errorf("line %d is wider than the screen", y)
		}
		text = text[len(string(r)):]
	}
	return len(b), nil
}

// sequence executes the escape sequence at the beginning of a string.
func (f *fakeTerminal) sequence(text string, x, y *int) (rest string, ok bool) {
	for _, s := range []struct {
		text string
		do   func()
	}{
		{"\x1b[?1049h", func() { f.second = true }},
		{"\x1b[?1049l", func() { f.second = false }},
		{"\x1b[?25l", func() { f.hidden = true }},
		{"\x1b[?25h", func() { f.hidden = false }},
		{"\x1b[H", func() { *x, *y = 0, 0 }},
		{"\x1b[K", func() {
			line := []rune(f.lines[*y])
			f.lines[*y] = string(line[:min(*x, f.width-1, len(line))])
		}},
		{"\x1b[m", func() { f.drawn++; close(f.changed); f.changed = make(chan struct{}) }},
		{"\r\n", func() {
			if *x, *y = 0, *y+1; *y >= f.height {
				f.t.Errorf("the screen scrolls")
				*y = f.height - 1
			}
		}},
		{"\x1b[0m", func() {}}, {"\x1b[1m", func() {}}, {"\x1b[2m", func() {}}, {"\x1b[7m", func() {}},
		{"\x1b[31m", func() {}}, {"\x1b[33m", func() {}},
	} {
		if rest, ok := strings.CutPrefix(text, s.text); ok {
			s.do()
			return rest, true
		}
	}
	return text, false
}

// until waits until the screen satisfies a condition.
func (f *fakeTerminal) until(what string, is func(screen string) bool) {
	f.t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	for {
		f.mu.Lock()
		screen, changed := strings.Join(f.lines, "\n"), f.changed
		f.mu.Unlock()
		if is(screen) {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			f.t.Fatalf("never shown: %s; the screen is\n%s", what, screen)
		}
	}
}

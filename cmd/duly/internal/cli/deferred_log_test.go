package cli

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/cmd/duly/internal/top"
)

// console is a terminal on which a view and standard error come together, in the
// order in which they are written.
type console struct {
	keys chan string

	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed by the next write
}

func newConsole() *console {
	return &console{keys: make(chan string), changed: make(chan struct{})}
}

// Size implements top.Terminal.
func (*console) Size() (width, height int) { return 100, 10 }

// Raw implements top.Terminal.
func (*console) Raw() (func(), error) { return func() {}, nil }

// Keys implements top.Terminal.
func (c *console) Keys() <-chan string { return c.keys }

// Write implements io.Writer.
func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(b)
	close(c.changed)
	c.changed = make(chan struct{})
	return len(b), nil
}

// until waits for a string, and returns everything so far.
func (c *console) until(t *testing.T, text string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		c.mu.Lock()
		all, changed := c.text.String(), c.changed
		c.mu.Unlock()
		if strings.Contains(all, text) {
			return all
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q does not come in %q", text, all)
		}
	}
}

// C15.18: the view shows the engine's log while it uses the screen. Standard error gets the
// log afterwards.
func TestTopDefersLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tty = true
	c := newConsole()
	env := r.env(c, c, "top")
	env.Screen = func() top.Terminal { return c }
	a := &app{env: env, log: deferredLog{to: c}}
	s := &session{Engine: unclosable{r.engine}, endpoint: endpoint{url: "model:", namespace: "default"}}
	ended := make(chan error, 1)
	go func() { ended <- a.top(t.Context(), a.newPrinter(), s, nil, time.Hour, false) }()
	c.until(t, "q quit")
	log := a.logger(slog.LevelWarn)
	log.Warn("the disk is slow")
	during := c.until(t, "the disk is slow")
	c.keys <- "q"
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	log.Warn("the disk is gone")
	all := c.until(t, "the disk is gone")
	const leave = "\x1b[?1049l"
	if strings.Contains(during, leave) || strings.Contains(during, "the disk is slow\"\n") {
		t.Errorf("the line was written over the view: %q", during)
	}
	_, after, left := strings.Cut(all, leave)
	if lines := strings.Split(after, "\n"); !left || len(lines) != 3 || !strings.Contains(lines[0], "the disk is slow") ||
		!strings.Contains(lines[1], "the disk is gone") {
		t.Errorf("the log after the view is %q", after)
	}
}

func TestDeferredLogIsBounded(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &deferredLog{to: &out}
	heard, release := a.hold()
	line := func(n int) string { return strings.Repeat("x", n%7) + "\n" }

	for i := range maxHeldLines + 5 {
		if _, err := a.Write([]byte(line(i))); err != nil {
			t.Fatal(err)
		}
	}

	if out.Len() > 0 || len(heard) != cap(heard) {
		t.Errorf("%d bytes were written, and %d lines heard", out.Len(), len(heard))
	}
	release()
	release()
	want := "5 earlier lines were dropped\n"
	for i := 5; i < maxHeldLines+5; i++ {
		want += line(i)
	}
	if out.String() != want {
		t.Errorf("%d bytes were written, want %d", out.Len(), len(want))
	}
}

// unusableTerminal is a terminal that cannot be set to raw mode.
type unusableTerminal struct{ *console }

// Raw implements top.Terminal.
func (unusableTerminal) Raw() (func(), error) { return nil, errors.New("no terminal") }

// The log is not deferred if the view could not take the screen.
func TestLogIsNotDeferredWithoutView(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.tty = true
	var out strings.Builder
	a := &app{env: r.env(&out, &out, "top"), log: deferredLog{to: &out}}
	if _, err := a.enterScreen(&top.LiveView{Terminal: unusableTerminal{newConsole()}}); err == nil {
		t.Fatal("the terminal was used")
	}
	a.logger(slog.LevelWarn).Warn("the disk is slow")
	if !strings.Contains(out.String(), "the disk is slow") {
		t.Error("the log is held")
	}
}

package health

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

var (
	refused = errors.New("port 81 refuses connections")
	full    = errors.New("the disk is full")
)

// call is a call to a subject, one second after the call before it.
type call struct {
	name string
	err  error
	want string
}

// text returns the flags of an event.
func (e Event) text() string {
	text := ""
	for _, f := range []struct {
		set  bool
		name string
	}{
		{e.Down, "down "}, {e.Up, "up "}, {e.NewReason, "reason "}, {e.FirstDown, "first "}, {e.AllUp, "all "},
	} {
		if f.set {
			text += f.name
		}
	}
	for _, d := range []time.Duration{e.After, e.AllAfter} {
		if d > 0 {
			text += d.String() + " "
		}
	}
	return strings.TrimSpace(text)
}

func run(t *testing.T, tracker *Tracker, c *clock.Fake, calls []call) {
	t.Helper()
	for i, call := range calls {
		c.Advance(time.Second)
		if got := tracker.Record(call.name, call.err).text(); got != call.want {
			t.Errorf("call %d to %s with %v: %q, want %q", i, call.name, call.err, got, call.want)
		}
	}
}

// Each outage, and each new reason, is reported once. Errors that differ only in numbers have the
// same reason.
func TestAnOutageIsOneEvent(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	run(t, New(c, 0), c, []call{
		{"a", nil, ""}, {"a", refused, "down reason first"}, {"a", refused, ""},
		{"a", errors.New("port 82 refuses connections"), ""}, {"a", full, "reason"}, {"a", refused, "reason"},
		{"b", full, "down reason"}, {"a", nil, "up 6s"}, {"a", nil, ""},
		{"b", nil, "up all 3s 8s"}, {"a", refused, "down reason first"},
	})
}

// A tolerated failure is not an event.
func TestToleratedFailureIsNoEvent(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	run(t, New(c, 1), c, []call{
		{"a", refused, ""}, {"a", nil, ""}, {"a", refused, ""}, {"b", nil, ""}, {"a", refused, "down reason first"},
		{"b", refused, ""}, {"a", nil, "up all 2s 2s"}, {"b", full, "down reason first"},
	})
}

// The outage of an abandoned subject ends with the next success of another one.
func TestOutageOfAnAbandonedSubjectEnds(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	tracker := New(c, 1)
	run(t, tracker, c, []call{{"a", refused, ""}, {"a", refused, "down reason first"}, {"b", nil, ""}})
	tracker.Abandon("a")
	run(t, tracker, c, []call{{"b", nil, "all 2s"}, {"a", refused, "down reason first"}, {"b", nil, ""}})
	tracker.Abandon("c")
	run(t, tracker, c, []call{{"a", nil, "up all 2s 2s"}})
}

func TestForgetRemovesSubjects(t *testing.T) {
	t.Parallel()
	c := clock.NewFake()
	tracker := New(c, 0)
	run(t, tracker, c, []call{{"a", refused, "down reason first"}, {"b", refused, "down reason"}})
	tracker.Forget(func(name string) bool { return name == "a" })
	run(t, tracker, c, []call{{"a", nil, ""}, {"b", nil, "up all 2s 3s"}})
	if n := tracker.failed.Load(); n != 0 {
		t.Errorf("%d subjects are left", n)
	}
}

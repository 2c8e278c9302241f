// Package health tracks the failures of subjects, such as stores, pools and kinds of calls. So a
// log can report each outage once, however many calls fail during it.
package health

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// Tracker tracks the failures of subjects. A subject is down after a number of failures in a
// row, until its next success. Tracker is safe for concurrent use. Success is cheap while no
// subject has failures.
type Tracker struct {
	clock    clock.Clock
	tolerate int

	failed atomic.Int32 // number of subjects with failures

	mu       sync.Mutex
	subjects map[string]*subject // subjects with failures
	down     int                 // number of subjects that are down
	since    time.Duration       // monotonic time at which the first of them went down
}

// subject is a subject with failures.
type subject struct {
	failures  int // number of failures in a row, at most one more than tolerated
	since     time.Duration
	reason    string
	abandoned bool
}

// New returns a Tracker. A subject is down after more than `tolerate` failures in a row.
func New(c clock.Clock, tolerate int) *Tracker {
	return &Tracker{clock: c, tolerate: tolerate, subjects: map[string]*subject{}}
}

// Event is the change that a call has caused.
type Event struct {
	// Down and Up mean that the subject went down, or is up again.
	Down, Up bool
	// NewReason means that the subject went down, or fails for a different reason than before.
	NewReason bool
	// FirstDown means that the first of all subjects went down. AllUp means that the last of the
	// subjects that were down is up again.
	FirstDown, AllUp bool
	// After is how long the subject was down, with Up.
	After time.Duration
	// AllAfter is set with AllUp. It is the time during which at least one subject was down.
	AllAfter time.Duration
}

// Record records the result of a call to a subject.
func (t *Tracker) Record(name string, err error) Event {
	if err == nil && t.failed.Load() == 0 {
		return Event{}
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Mono()
	before := t.down
	var e Event
	if err != nil {
		e = t.failLocked(name, reason(err), now)
	} else {
		e = t.succeedLocked(name, now)
	}

	switch {
	case before == 0 && t.down > 0:
		e.FirstDown, t.since = true, now
	case before > 0 && t.down == 0:
		e.AllUp, e.AllAfter = true, now-t.since
	}
	t.failed.Store(int32(len(t.subjects)))
	return e
}

func (t *Tracker) failLocked(name, reason string, now time.Duration) (e Event) {
	s := t.subjects[name]
	if s == nil {
		s = &subject{}
		t.subjects[name] = s
	}
	// A subject that is called again is no longer abandoned.
	s.abandoned = false

	if s.failures <= t.tolerate {
		if s.failures++; s.failures > t.tolerate {
			t.down++
			s.since = now
			e.Down = true
		}
	}
	e.NewReason = e.Down || s.failures > t.tolerate && s.reason != reason
	s.reason = reason
	return e
}

func (t *Tracker) succeedLocked(name string, now time.Duration) (e Event) {
	if s := t.subjects[name]; s != nil {
		if s.failures > t.tolerate {
			t.down--
			e.Up, e.After = true, now-s.since
		}
		delete(t.subjects, name)
	}

	// An abandoned subject is not called, so it can never succeed. The success of another subject
	// ends its outage.
	for _, s := range t.subjects {
		if s.abandoned && s.failures > t.tolerate {
			t.down--
			s.failures = t.tolerate
		}
	}
	return e
}

// Abandon records that a subject will not be called for now. Then the next success of any other
// subject ends its outage.
func (t *Tracker) Abandon(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.subjects[name]; s != nil {
		s.abandoned = true
	}
}

// Forget drops the subjects for which gone returns true.
func (t *Tracker) Forget(gone func(name string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, s := range t.subjects {
		if gone(name) {
			if s.failures > t.tolerate {
				t.down--
			}
			delete(t.subjects, name)
		}
	}
	t.failed.Store(int32(len(t.subjects)))
}

// reason returns the text of an error without its digits, so that errors with other ports or
// durations count as the same reason.
func reason(err error) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, err.Error())
}

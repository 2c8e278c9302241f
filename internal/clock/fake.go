package clock

import (
	"slices"
	"sync"
	"time"
)

// Epoch is the initial time of a Fake: a date that no test mistakes for today, with whole
// milliseconds.
var Epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// Fake is a Clock that moves only by its methods.
type Fake struct {
	mu     sync.Mutex
	wall   time.Time
	mono   time.Duration
	goal   time.Duration // the value that mono will have when every Advance has returned
	timers []*fakeTimer  // pending timers; unordered, because they are few
	seq    uint64
}

// NewFake returns a Fake at Epoch.
func NewFake() *Fake { return &Fake{wall: Epoch} }

// Now implements Clock.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wall
}

// Mono implements Clock.
func (f *Fake) Mono() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mono
}

// Advance moves wall and monotonic time by d ≥ 0. Before it returns it calls every timer that
// falls due on the way, in order, each at its own time. Concurrent calls add up, and so does a
// call from a timer's function.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	f.goal += d
	end := f.goal
	for {
		t := f.nextLocked(end)
		if t == nil {
			break
		}
		f.moveLocked(t.at)
		t.active = false
		f.removeLocked(t)
		// The timer's function may use the clock.
		f.mu.Unlock()
		t.call(f.Now())
		f.mu.Lock()
	}
	f.moveLocked(end)
	f.mu.Unlock()
}

// Step moves only the wall clock, forwards or backwards, as setting a machine's time does. Timers
// are not affected.
func (f *Fake) Step(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wall = f.wall.Add(d)
}

// Timers returns the number of timers that have not fired yet.
func (f *Fake) Timers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.timers)
}

func (f *Fake) nextLocked(end time.Duration) *fakeTimer {
	var next *fakeTimer
	for _, t := range f.timers {
		if t.at > end {
			continue
		}
		if next == nil || t.at < next.at || (t.at == next.at && t.seq < next.seq) {
			next = t
		}
	}
	return next
}

func (f *Fake) moveLocked(mono time.Duration) {
	if mono > f.mono {
		f.wall = f.wall.Add(mono - f.mono)
		f.mono = mono
	}
}

func (f *Fake) removeLocked(t *fakeTimer) {
	if i := slices.Index(f.timers, t); i >= 0 {
		f.timers = slices.Delete(f.timers, i, i+1)
	}
}

// AfterFunc implements Clock. If d ≤ 0, fn is called at once on its own goroutine, because the
// caller may hold a lock.
func (f *Fake) AfterFunc(d time.Duration, fn func()) Timer {
	t := &fakeTimer{clock: f, call: func(time.Time) { fn() }}
	t.Reset(d)
	return t
}

// At implements Clock. A time in the past has the effect of d ≤ 0.
func (f *Fake) At(mono time.Duration, fn func()) Timer {
	t := &fakeTimer{clock: f, call: func(time.Time) { fn() }}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.setLocked(mono)
	return t
}

// NewTimer implements Clock.
func (f *Fake) NewTimer(d time.Duration) *ChanTimer {
	c := make(chan time.Time, 1)
	t := &fakeTimer{clock: f, call: func(now time.Time) {
		select {
		case c <- now:
		default:
		}
	}}
	t.Reset(d)
	return &ChanTimer{C: c, Timer: t}
}

type fakeTimer struct {
	clock  *Fake
	call   func(now time.Time)
	at     time.Duration
	seq    uint64
	active bool
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.active
	t.active = false
	t.clock.removeLocked(t)
	return was
}

func (t *fakeTimer) Reset(d time.Duration) {
	f := t.clock
	f.mu.Lock()
	defer f.mu.Unlock()
	t.setLocked(f.mono + d)
}

func (t *fakeTimer) setLocked(at time.Duration) {
	f := t.clock
	f.removeLocked(t)
	if at <= f.mono {
		t.active = false
		go t.call(f.wall)
		return
	}
	f.seq++
	t.at, t.seq, t.active = at, f.seq, true
	f.timers = append(f.timers, t)
}

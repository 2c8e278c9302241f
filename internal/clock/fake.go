package clock

import (
	"slices"
	"sync"
	"time"
)

// Epoch is where a Fake begins: a date that no test mistakes for today, with
// whole milliseconds.
var Epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

// Fake is a Clock that stands still until it is moved.
type Fake struct {
	mu     sync.Mutex
	wall   time.Time
	mono   time.Duration
	goal   time.Duration // where mono stands when every Advance has returned
	timers []*fakeTimer  // unordered; few
	seq    uint64
}

// NewFake returns a Fake that stands at Epoch.
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

// Advance moves wall and monotonic time by d ≥ 0 and calls every timer that
// falls due on the way, in order, each at its own moment, before it returns.
// Those that run at once add up, one that a timer makes too.
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
		f.mu.Unlock()
		t.call(f.Now())
		f.mu.Lock()
	}
	f.moveLocked(end)
	f.mu.Unlock()
}

// Step moves the wall alone, forwards or backwards, as somebody does who sets
// the time of a machine. No timer notices.
func (f *Fake) Step(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wall = f.wall.Add(d)
}

// Timers is the number of timers that have not fired yet.
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

// AfterFunc implements Clock. A d ≤ 0 is called at once, on a goroutine of
// its own, for the caller may hold a lock.
func (f *Fake) AfterFunc(d time.Duration, fn func()) Timer {
	t := &fakeTimer{clock: f, call: func(time.Time) { fn() }}
	t.Reset(d)
	return t
}

// At implements Clock. A moment that has passed is as a d ≤ 0.
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

package dulytest

import (
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Clock is the clock of an [Engine]. It begins at 2030-01-01T00:00:00Z and moves
// only by its methods. Pass it as the Clock of a duly.ClientConfig or a
// worker.Config.
type Clock struct{ fake *clock.Fake }

// Now returns the wall time in UTC.
func (c *Clock) Now() time.Time { return c.fake.Now() }

// Mono returns the monotonic time, which [Clock.Step] does not change.
func (c *Clock) Mono() time.Duration { return c.fake.Mono() }

// Advance moves the clock by d and fires every timer on the way in order. It
// does not wait for workers; [Engine.Advance] does.
func (c *Clock) Advance(d time.Duration) { c.fake.Advance(d) }

// Step sets the wall time forwards or backwards by d, like a correction of a
// machine's clock. No timer fires.
func (c *Clock) Step(d time.Duration) { c.fake.Step(d) }

// Timers returns the number of timers that have not fired yet.
func (c *Clock) Timers() int { return c.fake.Timers() }

// AfterFunc calls f when the clock was advanced by d.
func (c *Clock) AfterFunc(d time.Duration, f func()) duly.Timer { return c.fake.AfterFunc(d, f) }

// At calls f when Mono reaches mono.
func (c *Clock) At(mono time.Duration, f func()) duly.Timer { return c.fake.At(mono, f) }

// NewTimer returns a timer whose channel receives when the clock was advanced
// by d.
func (c *Clock) NewTimer(d time.Duration) *duly.ChanTimer { return c.fake.NewTimer(d) }

package adaptive

import (
	"math"
	"time"
)

// The constants of the controller. The package documentation has the reasons for those that the
// simulation has changed.
const (
	blockSize = 20               // number of successes and failures in a block
	blockAge  = 60 * time.Second // age after which a block starts again

	decreaseFactor = 0.5
	decreasePause  = time.Second
	maxDuration    = 60 * time.Second // upper bound for the estimated duration of a delivery
	minOutcomes    = 5                // number of outcomes that an estimate needs

	inUse             = 0.5
	windowTime        = time.Second
	windowDeliveries  = 10 // minimum number of deliveries in a window
	increasePause     = time.Second
	doublingTime      = time.Second
	doublingSuccesses = 4 // minimum number of successes for a doubling of the factor
	goodShare         = 0.9
	growth            = 0.05 // growth of the effective limit per second
	increaseTime      = time.Second

	streakLimit  = 20
	firstClosing = time.Second
	maxSlow      = time.Hour
)

// closings are the times for which consecutive failed probes close the shard. The last time
// repeats.
var closings = [...]time.Duration{
	time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second,
}

// Config has the limits of a shard: its part of the queue's limits. A limit of 0 means no limit. At
// least one limit is set.
type Config struct {
	Floor     float64 // lowest factor, from 0.001 to 1
	Rate      float64 // deliveries per second
	Burst     float64
	MaxLeased int
}

// Class says what an outcome means for the target service.
type Class uint8

// The classes of outcomes.
const (
	Neutral  Class = iota // a release without slow, a bury, a stall or a Delete
	Success               // an ack
	Failure               // a nack
	Overload              // a release with slow, even with slow: 0
)

// Outcome is the end of a delivery.
type Outcome struct {
	Class Class
	// Slow is the time for which an overload closes the shard.
	Slow time.Duration
	// Probe reports whether the delivery was the probe of the shard.
	Probe bool
}

// State is the limiter of a shard. Times are in ms of the engine's clock, and 0 means that there is
// none. Create a State with [New].
type State struct {
	Factor float64 // the share of the limits that the shard enforces, from Floor to 1
	Good   float64 // the last factor that worked before a decrease

	Successes, Failures int // outcomes in the current block
	BlockStart          int64
	GoodBlock           bool // whether a good block has ended since the last decrease
	Streak              int  // number of failures since the last success

	DecreasedAt int64
	OverloadAt  int64 // time of the last overload
	Outcomes    int   // number of outcomes since the last decrease
	ChangedAt   int64 // time of the last increase or decrease

	WindowStart int64
	CountedAt   int64   // time up to which Allowed, Busy and Room were summed up
	Delivered   int     // number of deliveries in the window
	Allowed     float64 // number of deliveries that the effective rate allows in the window
	Busy, Room  float64 // sums over time, in seconds: leased jobs, and the effective limit of leased jobs
	Used        float64 // share of the limits that was in use in the last full window

	ClosedUntil int64
	Probing     bool
	ProbeOut    bool // whether the probe is leased
	Closings    int  // number of failed probes
}

// New returns the state of a shard that enforces its whole limits.
func New() State { return State{Factor: 1, Good: 1} }

// Rate returns the effective rate, or 0 if there is no rate limit.
func (s *State) Rate(c Config) float64 { return c.Rate * s.Factor }

// Burst returns the effective burst.
func (s *State) Burst(c Config) float64 { return max(c.Burst*s.Factor, 1) }

// MaxLeased returns the effective number of leased jobs, or 0 if there is no such limit.
func (s *State) MaxLeased(c Config) int {
	if c.MaxLeased == 0 {
		return 0
	}
	return max(int(float64(c.MaxLeased)*s.Factor), 1)
}

// Opens returns the time from which on the shard hands out deliveries, and how many of them the
// limiter allows, or -1 if it allows any number. A shard whose probe is leased does not open until
// the probe ends.
func (s *State) Opens(now int64) (at int64, most int) {
	switch {
	case s.ProbeOut:
		return math.MaxInt64, 0
	case now < s.closedUntil(now):
		return s.closedUntil(now), 0
	case s.Probing:
		return now, 1
	}
	return now, -1
}

// closedUntil never counts for more than an hour, also if the clock has stepped back.
func (s *State) closedUntil(now int64) int64 { return min(s.ClosedUntil, now+milli(maxSlow)) }

// Deliver records a delivery, and reports whether the delivery is the probe. leased is the number
// of leased jobs, without this one.
func (s *State) Deliver(c Config, now int64, leased int) (probe bool) {
	s.stepBack(now)

	// Until now the shard had the old number of leased jobs, so the time is counted before the delivery.
	s.count(c, now, leased)
	s.Delivered++
	s.ProbeOut = s.Probing
	return s.Probing
}

// Settle records the end of a delivery. leased is the number of leased jobs, including this one.
func (s *State) Settle(c Config, now int64, o Outcome, leased int) {
	s.stepBack(now)
	s.count(c, now, leased)
	if o.Class == Overload {
		s.close(now, min(o.Slow, maxSlow))
	}
	switch {
	case o.Probe && s.ProbeOut:
		s.endProbe(c, now, o.Class)
	// While the shard is probing, only the outcome of the probe counts.
	case s.Probing || o.Class == Neutral:
	case o.Class == Success:
		s.success(c, now, leased)
	default:
		s.failure(c, now, o.Class == Overload, leased)
	}
}

// stepBack handles a clock that was set back: it sets times that are ahead of the clock to the
// current time.
func (s *State) stepBack(now int64) {
	for _, at := range []*int64{&s.BlockStart, &s.DecreasedAt, &s.OverloadAt, &s.ChangedAt, &s.WindowStart, &s.CountedAt} {
		*at = min(*at, now)
	}
}

// Reopen clears the closing and ends probing.
func (s *State) Reopen() { s.ClosedUntil, s.Probing, s.ProbeOut, s.Streak = 0, false, false, 0 }

func (s *State) success(c Config, now int64, leased int) {
	s.Outcomes++
	s.Streak = 0
	s.block(now)
	s.Successes++
	s.endBlock(c, now, leased)
	s.increase(now)
}

func (s *State) failure(c Config, now int64, overload bool, leased int) {
	s.Outcomes++
	s.Streak++
	switch {
	case s.Streak >= streakLimit:
		s.probe(c, now)
	case overload:
		s.decrease(c, now, leased)
		s.OverloadAt = now
		s.newBlock() // a block with an overload cannot be good, so a new one begins
	default:
		s.block(now)
		s.Failures++
		s.endBlock(c, now, leased)
	}
}

// block begins a block if there is none, or if the current one is too old.
func (s *State) block(now int64) {
	if s.Successes+s.Failures == 0 || now-s.BlockStart > milli(blockAge) {
		s.newBlock()
		s.BlockStart = now
	}
}

func (s *State) newBlock() { s.Successes, s.Failures = 0, 0 }

// endBlock evaluates a block that is complete.
func (s *State) endBlock(c Config, now int64, leased int) {
	if s.Successes+s.Failures < blockSize {
		return
	}
	failed := s.Failures > s.Successes
	s.newBlock()
	if failed {
		s.decrease(c, now, leased)
	} else {
		s.GoodBlock = true
	}
}

// decrease halves the factor, unless the last decrease is too recent: deliveries that began before
// a decrease cause no further decrease.
func (s *State) decrease(c Config, now int64, leased int) {
	if s.DecreasedAt != 0 && now-s.DecreasedAt < max(milli(decreasePause), s.duration(now, leased)) {
		return
	}
	s.keepGood()
	s.setFactor(now, max(s.Factor*decreaseFactor, c.Floor))
}

// keepGood stores the factor before a decrease, if that factor has worked.
func (s *State) keepGood() {
	if s.GoodBlock {
		s.Good = s.Factor
	}
}

// setFactor sets the factor of a decrease.
func (s *State) setFactor(now int64, factor float64) {
	s.Factor = factor
	s.DecreasedAt, s.ChangedAt, s.Outcomes, s.GoodBlock = now, now, 0, false
	s.newBlock()
}

// duration estimates the mean duration of a delivery since the last decrease, in ms, by
// Little's law.
func (s *State) duration(now int64, leased int) int64 {
	if s.Outcomes < minOutcomes {
		return 0
	}
	return min(int64(leased)*(now-s.DecreasedAt)/int64(s.Outcomes), milli(maxDuration))
}

// increase raises the factor after a success, if the limits are in use. While a service refuses
// calls, its successes between the refusals do not raise the factor.
func (s *State) increase(now int64) {
	if s.Factor >= 1 || s.Used < inUse || now-max(s.DecreasedAt, s.OverloadAt) < milli(increasePause) {
		return
	}

	// After a long pause, a success raises the factor no more than it would after increaseTime.
	t := increaseTime.Seconds()
	if s.ChangedAt != 0 {
		t = min(t, float64(now-s.ChangedAt)/1000)
	}

	// The factor rises fast to slightly below the last factor that worked, and slowly where
	// failures began.
	if most := goodShare * s.Good; s.Factor < most {
		doublings := min(t/doublingTime.Seconds(), 1.0/doublingSuccesses)
		s.Factor = min(s.Factor*math.Exp2(doublings), most)
	} else {
		s.Factor = min(s.Factor*(1+growth*t), 1)
	}
	s.ChangedAt = now
}

// count adds the time since the last call to the window, and ends the window if it is full. leased
// is the number of leased jobs during that time.
func (s *State) count(c Config, now int64, leased int) {
	// While the shard is closed no job could be leased, so that time does not count.
	from := max(s.CountedAt, min(s.closedUntil(now), now))
	if s.WindowStart == 0 {
		s.WindowStart, from = now, now
	}
	if passed := float64(now-from) / 1000; passed > 0 {
		s.Allowed += s.Rate(c) * passed
		s.Busy += float64(leased) * passed
		s.Room += float64(s.MaxLeased(c)) * passed
	}
	s.CountedAt = now

	if s.Delivered < windowDeliveries || now-s.WindowStart < milli(windowTime) {
		return
	}
	s.Used = 0
	if s.Allowed > 0 {
		s.Used = float64(s.Delivered) / s.Allowed
	}
	if s.Room > 0 {
		s.Used = max(s.Used, s.Busy/s.Room)
	}
	s.newWindow(now)
}

func (s *State) newWindow(now int64) {
	s.WindowStart, s.Delivered, s.Allowed, s.Busy, s.Room = now, 0, 0, 0, 0
}

// probe begins probing.
func (s *State) probe(c Config, now int64) {
	s.keepGood()
	s.setFactor(now, c.Floor)
	s.Probing, s.ProbeOut, s.Closings, s.Streak = true, false, 0, 0
	s.close(now, firstClosing)
}

func (s *State) endProbe(c Config, now int64, class Class) {
	s.ProbeOut = false
	switch class {
	case Success:
		s.Probing = false
		s.setFactor(now, c.Floor)

		// An outage is no lack of jobs, so it belongs to no window.
		s.newWindow(now)
		s.Used = 0
	// A neutral end says nothing about the service, so the closing does not get longer.
	case Neutral:
		s.close(now, s.closing())
	default:
		s.Closings++
		s.close(now, s.closing())
	}
}

// closing returns the time of the last closing by a failed probe.
func (s *State) closing() time.Duration {
	return closings[min(max(s.Closings-1, 0), len(closings)-1)]
}

func (s *State) close(now int64, d time.Duration) {
	s.ClosedUntil = max(s.closedUntil(now), now+milli(d))
}

func milli(d time.Duration) int64 { return d.Milliseconds() }

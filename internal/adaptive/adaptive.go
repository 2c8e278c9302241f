package adaptive

import (
	"math"
	"time"

	"github.com/dulymq/duly"
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

	precision = 1e6 // steps of the factor between 0 and 1
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
	Burst     int
	MaxLeased int
}

// ConfigOf returns the limits of a shard with this configuration.
func ConfigOf(c duly.QueueConfig) Config {
	config := Config{Floor: c.Adapt.Floor, MaxLeased: max(c.MaxLeased, 0)}
	if c.Rate.Limited() {
		config.Rate, config.Burst = c.Rate.PerSecond, c.Rate.Burst
	}
	return config
}

// Class is what an outcome says about the target service.
type Class uint8

// The classes of outcomes.
const (
	Neutral  Class = iota // a release without slow, a bury, a stall or a Delete
	Success               // an ack
	Failure               // a nack
	Overload              // a release with slow, even with slow: 0
)

// ClassOf returns the class of a settlement.
func ClassOf(r *duly.SettleRequest) Class {
	switch {
	case r.As == duly.Ack:
		return Success
	case r.As == duly.Nack:
		return Failure
	case r.As == duly.Release && r.Slow != nil:
		return Overload
	}
	return Neutral
}

// Reason is the reason of a closing by the limiter.
const Reason = "probing: 20 deliveries in a row failed"

// Moment is the shard at the time of a call.
type Moment struct {
	Now    int64 // in ms of the engine's clock
	Leased int   // the number of leased jobs
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

	ClosedUntil int64 // the end of the last closing, which may have passed

	Probing  bool
	Probe    duly.Number // of the leased probe, zero for none
	Closings int         // failed probes
}

// New returns the state of a shard that enforces its whole limits.
func New() State { return State{Factor: 1, Good: 1} }

// Configured returns the state after a change of the configuration. It is a new one for the
// zero State, and if the limits do not adapt.
func (s State) Configured(c duly.QueueConfig) State {
	if !c.Adapt.Adaptive() || s.Factor == 0 {
		return New()
	}
	s.Factor, s.Good = max(s.Factor, c.Adapt.Floor), max(s.Good, c.Adapt.Floor)
	return s
}

// Rate returns the effective rate, 0 for none.
func (s *State) Rate(c Config) float64 { return c.Rate * s.Factor }

// Burst returns the effective size of the bucket.
func (s *State) Burst(c Config) int { return max(int(float64(c.Burst)*s.Factor), 1) }

// MaxLeased returns the effective number of leased jobs, or 0 if there is no such limit.
func (s *State) MaxLeased(c Config) int {
	if c.MaxLeased == 0 {
		return 0
	}
	return max(int(float64(c.MaxLeased)*s.Factor), 1)
}

// Apply returns the configuration with the effective limits.
func (s *State) Apply(c duly.QueueConfig) duly.QueueConfig {
	if !c.Adapt.Adaptive() {
		return c
	}
	limits := ConfigOf(c)
	if c.Rate.Limited() {
		c.Rate = duly.Rate{PerSecond: s.Rate(limits), Burst: s.Burst(limits)}
	}
	if limits.MaxLeased > 0 {
		c.MaxLeased = s.MaxLeased(limits)
	}
	return c
}

// Most returns how many deliveries the limiter allows now besides the limits, -1 for any
// number. In probing it allows one after each closing.
func (s *State) Most() int {
	switch {
	case !s.Probing:
		return -1
	case s.ProbeIsOut():
		return 0
	}
	return 1
}

// ProbeIsOut reports whether the probe is leased.
func (s *State) ProbeIsOut() bool { return s.Probe != duly.Number{} }

// Deliver notes the delivery of a job. m has the leased jobs without it.
func (s *State) Deliver(c Config, m Moment, job duly.Number) {
	s.stepBack(m.Now)

	// Until now the shard had the old number of leased jobs, so the time is counted before the delivery.
	s.count(c, m)
	s.Delivered++
	if s.Probing {
		s.Probe = job
	}
}

// Settle notes the end of the delivery of a job. m has the leased jobs with it. Settle
// returns for how long the limiter closes the shard from now on, 0 for no closing. The
// caller closes it for that time, and for the time of the outcome, and calls Close.
func (s *State) Settle(c Config, m Moment, job duly.Number, class Class) (closing time.Duration) {
	isProbe := s.ProbeIsOut() && s.Probe == job

	// Engines note the end of a lease at different times, so it changes nothing else.
	if class == Neutral {
		if !isProbe {
			return 0
		}
		s.Probe = duly.Number{}
		return s.closing()
	}

	s.stepBack(m.Now)
	s.count(c, m)
	switch {
	case isProbe:
		return s.endProbe(c, m.Now, class)
	// While the shard is probing, only the probe itself decides.
	case s.Probing:
	case class == Success:
		s.success(c, m)
	default:
		return s.failure(c, m, class == Overload)
	}
	return 0
}

// Lose notes that the message of a delivery was dropped. If the delivery is the probe, the next
// delivery becomes the probe.
func (s *State) Lose(job duly.Number) {
	if s.Probe == job {
		s.Probe = duly.Number{}
	}
}

// stepBack handles a clock that was set back: it sets times that are ahead of the clock to the
// current time.
func (s *State) stepBack(now int64) {
	for _, at := range []*int64{&s.BlockStart, &s.DecreasedAt, &s.OverloadAt, &s.ChangedAt, &s.WindowStart, &s.CountedAt} {
		*at = min(*at, now)
	}
	s.ClosedUntil = min(s.ClosedUntil, now+milli(duly.MaxSlow))
}

// Measure counts the time up to now, while the shard was open. It comes before a Close that another
// shard has caused, because this shard may have had no outcome at that time.
func (s *State) Measure(c Config, m Moment) {
	s.stepBack(m.Now)
	s.count(c, m)
}

// Close notes a closing of the shard.
func (s *State) Close(until int64) { s.ClosedUntil = max(s.ClosedUntil, until) }

// Reopen ends probing. The caller ends the closing.
func (s *State) Reopen(now int64) {
	s.ClosedUntil = min(s.ClosedUntil, now)
	s.Probing, s.Probe, s.Streak = false, duly.Number{}, 0
}

func (s *State) success(c Config, m Moment) {
	s.Outcomes++
	s.Streak = 0
	s.block(m.Now)
	s.Successes++
	s.endBlock(c, m)
	s.increase(m.Now)
}

func (s *State) failure(c Config, m Moment, overload bool) (closing time.Duration) {
	s.Outcomes++
	s.Streak++
	switch {
	case s.Streak >= streakLimit:
		s.probe(c, m.Now)
		return firstClosing
	case overload:
		s.decrease(c, m)
		s.OverloadAt = m.Now
		s.newBlock() // a block with an overload cannot be good
	default:
		s.block(m.Now)
		s.Failures++
		s.endBlock(c, m)
	}
	return 0
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
func (s *State) endBlock(c Config, m Moment) {
	if s.Successes+s.Failures < blockSize {
		return
	}
	failed := s.Failures > s.Successes
	s.newBlock()
	if failed {
		s.decrease(c, m)
	} else {
		s.GoodBlock = true
	}
}

// decrease halves the factor, unless the last decrease is too recent: deliveries from
// before it cause no other one.
func (s *State) decrease(c Config, m Moment) {
	if s.DecreasedAt != 0 && m.Now-s.DecreasedAt < max(milli(decreasePause), s.duration(m)) {
		return
	}
	s.keepGood()
	s.setFactor(m.Now, max(round(s.Factor*decreaseFactor), c.Floor))
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
func (s *State) duration(m Moment) int64 {
	if s.Outcomes < minOutcomes {
		return 0
	}
	return min(int64(m.Leased)*(m.Now-s.DecreasedAt)/int64(s.Outcomes), milli(maxDuration))
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

	// The factor rises fast to shortly below the last one that worked, and slowly where failures began.
	if most := round(goodShare * s.Good); s.Factor < most {
		doublings := min(t/doublingTime.Seconds(), 1.0/doublingSuccesses)
		s.Factor = min(round(s.Factor*math.Exp2(doublings)), most)
	} else {
		s.Factor = min(round(s.Factor*(1+growth*t)), 1)
	}
	s.ChangedAt = now
}

// count adds what happened since the last call to the window, and ends the window if it
// is full.
func (s *State) count(c Config, m Moment) {
	now := m.Now
	if s.WindowStart == 0 {
		s.WindowStart, s.CountedAt = now, now
	}

	// Nothing is in use while the shard is closed, and nothing could be.
	from := max(s.CountedAt, min(s.ClosedUntil, now))
	if passed := float64(now-from) / 1000; passed > 0 {
		s.Allowed += s.Rate(c) * passed
		s.Busy += float64(m.Leased) * passed
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
	s.Probing, s.Probe, s.Closings, s.Streak = true, duly.Number{}, 0, 0
}

func (s *State) endProbe(c Config, now int64, class Class) (closing time.Duration) {
	s.Probe = duly.Number{}
	if class != Success {
		s.Closings++
		return s.closing()
	}
	s.Probing = false
	s.setFactor(now, c.Floor)

	// An outage is not a lack of jobs, so it belongs to no window.
	s.newWindow(now)
	s.Used = 0
	return 0
}

// closing returns the time of the last closing by a failed probe.
func (s *State) closing() time.Duration {
	return closings[min(max(s.Closings-1, 0), len(closings)-1)]
}

// round rounds a factor. Engines compute powers with different errors in the last bit, and
// the rounded factors are equal.
func round(factor float64) float64 { return math.Floor(factor*precision+0.5) / precision }

func milli(d time.Duration) int64 { return d.Milliseconds() }

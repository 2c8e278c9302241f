package adaptive

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// base is a limiter in full use: it limits leased jobs, and that many are leased.
var base = Config{Floor: 0.01, MaxLeased: 100}

// job and older are numbers of two jobs.
var job, older = numbered(1), numbered(2)

// feed settles n outcomes of a class, one each period.
func feed(s *State, c Config, now *int64, n int, period time.Duration, class Class) {
	for range n {
		*now += milli(period)
		s.Deliver(c, Moment{*now, s.MaxLeased(c) - 1}, job)
		s.Settle(c, Moment{*now, s.MaxLeased(c)}, job, class)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// C18.24: the factor multiplies the rate, the burst and max leased.
func TestFactorLowersTheLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		factor, rate  float64
		burst, leased int
	}{{1, 100, 50, 10}, {0.5, 50, 25, 5}, {0.19, 19, 9, 1}, {0.01, 1, 1, 1}} {
		s, c := New(), Config{Floor: 0.01, Rate: 100, Burst: 50, MaxLeased: 10}
		s.Factor = tt.factor
		if !near(s.Rate(c), tt.rate) || s.Burst(c) != tt.burst || s.MaxLeased(c) != tt.leased {
			t.Errorf("%+v: rate %v, burst %v, max leased %d", tt, s.Rate(c), s.Burst(c), s.MaxLeased(c))
		}
	}
	if s := New(); s.MaxLeased(Config{Rate: 1}) != 0 || s.Rate(Config{MaxLeased: 1}) != 0 {
		t.Error("an absent limit is set")
	}
}

// C18.32, C18.37: neutral outcomes do not change the factor. An overload halves it, down to the floor.
func TestOverloadHalvesTheFactor(t *testing.T) {
	t.Parallel()
	s, now := New(), int64(1000)
	feed(&s, base, &now, 5, time.Millisecond, Neutral)
	if s.Factor != 1 || s.Outcomes != 0 {
		t.Errorf("neutral outcomes: %+v", s)
	}
	for _, want := range []float64{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.01, 0.01} {
		now += 60_000 // longer than a delivery can take
		if feed(&s, base, &now, 1, 0, Overload); s.Factor != want {
			t.Errorf("factor %v, want %v", s.Factor, want)
		}
	}
}

// C18.34, C18.35, C18.37: a block decides with its 20th outcome.
func TestBlockDecidesAtItsTwentiethOutcome(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]float64{10: 1, 11: 0.5, 19: 0.5} {
		s, now := New(), int64(1000)
		feed(&s, base, &now, failures, time.Millisecond, Failure)
		feed(&s, base, &now, 19-failures, time.Millisecond, Success)
		if s.Factor != 1 {
			t.Errorf("%d failures of 19 lower the factor to %v", failures, s.Factor)
		}
		feed(&s, base, &now, 1, time.Millisecond, Success)
		if s.Factor != want || s.GoodBlock != (want == 1) {
			t.Errorf("%d failures of 20: factor %v, good block %v", failures, s.Factor, s.GoodBlock)
		}
	}

	// A block that is too old is discarded, and a new one begins.
	s, now := New(), int64(1000)
	feed(&s, base, &now, 19, time.Millisecond, Failure)
	now += milli(blockAge)
	feed(&s, base, &now, 1, time.Millisecond, Success)
	if s.Factor != 1 || s.Failures != 0 || s.Successes != 1 {
		t.Errorf("an old block: %+v", s)
	}

	// An overload starts a new block, so no block with an overload is good.
	s = New()
	feed(&s, base, &now, 15, time.Millisecond, Success)
	feed(&s, base, &now, 1, time.Millisecond, Overload)
	if feed(&s, base, &now, 19, time.Millisecond, Success); s.GoodBlock {
		t.Error("a block with an overload is good")
	}
	if feed(&s, base, &now, 1, time.Millisecond, Success); !s.GoodBlock {
		t.Error("20 successes after an overload are no good block")
	}
}

// C18.38, C18.39: deliveries from before a decrease cause no further decrease.
func TestOldDeliveriesCauseNoSecondDecrease(t *testing.T) {
	t.Parallel()
	s, now := New(), int64(1000)
	feed(&s, base, &now, 4, time.Millisecond, Overload)
	if s.Factor != 0.5 {
		t.Errorf("factor %v after four overloads at once, want 0.5", s.Factor)
	}
	now += 1000
	if feed(&s, base, &now, 1, 0, Overload); s.Factor != 0.25 {
		t.Errorf("factor %v after a second, want 0.25", s.Factor)
	}

	// 25 leased jobs and five outcomes per second: a delivery takes 5 s.
	feed(&s, base, &now, 20, 200*time.Millisecond, Success)
	before := s.Factor
	if d := s.duration(Moment{now, 25}); d < 4900 || d > 5100 {
		t.Errorf("a delivery takes %d ms, want 5 s", d)
	}
	s.Settle(base, Moment{now, 25}, job, Overload)
	if s.Factor != before {
		t.Errorf("4 s after a decrease the factor falls from %v to %v", before, s.Factor)
	}
	feed(&s, base, &now, 10, 200*time.Millisecond, Success)
	before = s.Factor
	s.Settle(base, Moment{now, 25}, job, Overload)
	if s.Factor != before/2 {
		t.Errorf("6 s after a decrease the factor is %v, want %v", s.Factor, before/2)
	}
}

// C18.40: after a good block, a decrease stores the factor from before it as the good factor.
func TestDecreaseKeepsTheGoodFactor(t *testing.T) {
	t.Parallel()
	s, now := New(), int64(1000)
	s.Factor, s.Good = 0.8, 1
	if feed(&s, base, &now, 1, time.Second, Overload); s.Good != 1 || s.Factor != 0.4 {
		t.Errorf("without a good block: %+v", s)
	}
	s.GoodBlock = true
	if feed(&s, base, &now, 1, time.Second, Overload); s.Good != 0.4 || s.Factor != 0.2 || s.GoodBlock {
		t.Errorf("with a good block: %+v", s)
	}
}

// C18.47, C18.48, C18.49: 20 failures in a row start probing. A good probe ends it.
func TestProbingBeginsAfterFailures(t *testing.T) {
	t.Parallel()
	s, now := New(), int64(1000)
	feed(&s, base, &now, 19, time.Millisecond, Failure)
	if s.Probing {
		t.Error("probing after 19 failures")
	}
	feed(&s, base, &now, 1, time.Millisecond, Success)
	feed(&s, base, &now, 19, time.Millisecond, Failure)
	if s.Probing {
		t.Error("a success does not end the streak")
	}
	feed(&s, base, &now, 1, time.Millisecond, Failure)
	if !s.Probing || s.Factor != base.Floor {
		t.Fatalf("after 20 failures: %+v", s)
	}

	// Outcomes of older deliveries change nothing while the shard is probing.
	before := s
	s.Settle(base, Moment{now, 5}, older, Success)
	s.Settle(base, Moment{now, 5}, older, Failure)
	if s.Factor != before.Factor || s.Streak != before.Streak || s.Outcomes != before.Outcomes || !s.Probing {
		t.Errorf("older deliveries: %+v, want %+v", s, before)
	}

	probe := func(class Class, want time.Duration) {
		t.Helper()
		if most := s.Most(); most != 1 {
			t.Fatalf("the limiter allows %d deliveries, want 1", most)
		}
		s.Deliver(base, Moment{now, 0}, job)
		if most := s.Most(); most != 0 {
			t.Fatalf("beside the probe the limiter allows %d deliveries, want 0", most)
		}
		now += 100
		if closing := s.Settle(base, Moment{now, 1}, job, class); closing != want {
			t.Fatalf("class %d closes the shard for %s, want %s", class, closing, want)
		}
		now += milli(want)
	}
	probe(Neutral, firstClosing)
	for i, d := range closings {
		if i%2 == 0 {
			probe(Failure, d)
		} else {
			probe(Overload, d)
		}
		probe(Neutral, d)
	}
	last := closings[len(closings)-1]
	probe(Failure, last)
	probe(Success, 0)
	if s.Probing || s.Most() != -1 || s.Factor != base.Floor {
		t.Errorf("after a good probe: %+v", s)
	}
}

// C18.42, C18.44, C18.45, C18.46: the factor rises quickly up to the good factor, and slowly above it.
func TestFactorRisesAfterSuccesses(t *testing.T) {
	t.Parallel()
	start := func(factor, good float64) (State, int64) {
		s := New()
		s.Factor, s.Good, s.Used = factor, good, 1
		s.ChangedAt, s.DecreasedAt = 1_000_000, 1_000_000
		return s, 1_000_000
	}

	s, now := start(0.1, 0.8)
	if feed(&s, base, &now, 9, 100*time.Millisecond, Success); s.Factor != 0.1 {
		t.Errorf("in the pause after a decrease the factor is %v", s.Factor)
	}
	s.ChangedAt = now
	feed(&s, base, &now, 10, 100*time.Millisecond, Success)
	if s.Factor < 0.199 || s.Factor > 0.201 {
		t.Errorf("after a second of successes the factor is %v, want 0.2", s.Factor)
	}
	feed(&s, base, &now, 1, time.Minute, Success)
	if want := 0.2 * math.Exp2(0.25); math.Abs(s.Factor-want) > 0.001 {
		t.Errorf("after one late success the factor is %v, want %v", s.Factor, want)
	}
	feed(&s, base, &now, 40, 100*time.Millisecond, Success)
	if s.Factor < 0.72 || s.Factor > 0.9 {
		t.Errorf("near the good factor the factor is %v", s.Factor)
	}

	s, now = start(0.5, 0.5)
	now += 1000
	s.ChangedAt = now
	feed(&s, base, &now, 10, 100*time.Millisecond, Success)
	if want := 0.5 * 1.051; math.Abs(s.Factor-want) > 0.001 {
		t.Errorf("above the good factor the factor is %v, want %v", s.Factor, want)
	}
	s.Settle(base, Moment{now, 1}, job, Overload)
	after := s.Factor
	if feed(&s, base, &now, 9, 100*time.Millisecond, Success); s.Factor != after {
		t.Errorf("in the pause after an overload the factor rises from %v to %v", after, s.Factor)
	}
	feed(&s, base, &now, 10_000, 100*time.Millisecond, Success)
	if s.Factor != 1 {
		t.Errorf("the factor is %v, want 1", s.Factor)
	}

	// A clock that is set back changes nothing.
	s, now = start(0.5, 0.5)
	now -= 100_000
	if feed(&s, base, &now, 5, time.Millisecond, Success); s.Factor != 0.5 {
		t.Errorf("after a step of the clock the factor is %v", s.Factor)
	}
	if feed(&s, base, &now, 1, time.Minute, Overload); s.Factor != 0.25 {
		t.Errorf("after a step of the clock an overload makes the factor %v", s.Factor)
	}
}

// C18.12: reopening a queue ends probing and sets the failure streak to 0.
func TestReopenEndsProbing(t *testing.T) {
	t.Parallel()
	s, now := New(), int64(1000)
	feed(&s, base, &now, 20, time.Millisecond, Failure)
	s.Close(now + 60_000)
	s.Reopen(now)
	if s.Probing || s.Most() != -1 || s.ClosedUntil > now {
		t.Errorf("after reopening: %+v", s)
	}
	if feed(&s, base, &now, 19, time.Millisecond, Failure); s.Probing {
		t.Error("failures from before the reopening count for the streak")
	}
}

// The time before a closing counts, also if another shard causes it.
func TestTimeBeforeTheClosingOfAnotherShardCounts(t *testing.T) {
	t.Parallel()
	s, now := New(), int64(1000)
	s.Deliver(base, Moment{now, 0}, job)
	s.Measure(base, Moment{now + 2000, 50})
	s.Close(now + 5000)
	s.Settle(base, Moment{now + 2000, 50}, job, Success)
	if s.Busy != 100 || s.Room != 200 {
		t.Errorf("the window has the sums %v and %v, want 100 and 200", s.Busy, s.Room)
	}
}

// A closing must not count as time in which the limits are unused, also after the clock was
// set back by more than a closing lasts.
func TestClosedTimeIsNotCountedAsUnused(t *testing.T) {
	t.Parallel()
	s, now := New(), int64(10*duly.MaxSlow/time.Millisecond)
	feed(&s, base, &now, 20, 100*time.Millisecond, Success)
	used := s.Used
	s.Close(now + 60_000)
	now += 60_000
	if feed(&s, base, &now, 20, 100*time.Millisecond, Success); s.Used < 0.9*used {
		t.Errorf("%.2f of the limits are used after a closing, want %.2f", s.Used, used)
	}

	s.Close(now + 60_000)
	now -= 5 * milli(duly.MaxSlow)
	feed(&s, base, &now, 1, 0, Success)
	if most := now + milli(duly.MaxSlow); s.ClosedUntil > most {
		t.Errorf("closed until %d, want %d at most", s.ClosedUntil, most)
	}
}

// Whatever happens, the factor stays between the floor and 1. It is halved at most once a second,
// except for probing.
func FuzzController(f *testing.F) {
	f.Add([]byte{1, 2, 3, 255, 0, 128}, uint8(10), uint16(100), uint8(64))
	f.Add([]byte{0xc0, 0xc1, 0xc2, 0xc3, 0xc0, 0xc1, 0xc2, 0xc3, 0x80, 0x40}, uint8(1), uint16(0), uint8(1))
	f.Fuzz(func(t *testing.T, script []byte, floor uint8, rate uint16, most uint8) {
		c := Config{Floor: max(float64(floor)/255, 0.001), Rate: float64(rate), Burst: int(rate), MaxLeased: int(most)}
		s, now, fell := New(), int64(1_000_000), int64(0)
		next, leased := uint64(0), []duly.Number(nil)
		for _, b := range script {
			now += int64(b&0x1f) * 40
			before, probing := s.Factor, s.Probing
			if s.Most() != 0 && b&0x20 != 0 {
				next++
				s.Deliver(c, Moment{now, len(leased)}, numbered(next))
				leased = append(leased, numbered(next))
			}
			if i := int(b & 7); i < len(leased) {
				s.Settle(c, Moment{now, len(leased)}, leased[i], Class(b>>6))
				leased = slices.Delete(leased, i, i+1)
			}

			if s.Factor < c.Floor || s.Factor > 1 || math.IsNaN(s.Factor) || s.Good < c.Floor || s.Good > 1 {
				t.Fatalf("factor %v, good factor %v", s.Factor, s.Good)
			}
			if s.ProbeIsOut() && !s.Probing {
				t.Fatal("a probe without probing")
			}
			if s.Factor < before && !s.Probing && !probing {
				if s.Factor < round(before/2) && s.Factor > c.Floor || fell != 0 && now-fell < 1000 {
					t.Fatalf("factor fell from %v to %v, %d ms after the last time", before, s.Factor, now-fell)
				}
			}
			if s.Factor < before {
				fell = now
			}
		}
	})
}

package adaptive

import (
	"math"
	"testing"
	"time"
)

// base is a limiter in full use: it limits leased jobs, and that many are leased.
var base = Config{Floor: 0.01, MaxLeased: 100}

// feed settles n outcomes of a class, one per period.
func feed(s *State, c Config, now *int64, n int, period time.Duration, class Class) {
	for range n {
		*now += milli(period)
		s.Deliver(c, *now, s.MaxLeased(c)-1)
		s.Settle(c, *now, Outcome{Class: class}, s.MaxLeased(c))
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Rule A7.1.
func TestEffectiveLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		factor, rate, burst float64
		leased              int
	}{{1, 100, 50, 10}, {0.5, 50, 25, 5}, {0.19, 19, 9.5, 1}, {0.01, 1, 1, 1}} {
		s, c := New(), Config{Floor: 0.01, Rate: 100, Burst: 50, MaxLeased: 10}
		s.Factor = tt.factor
		if !near(s.Rate(c), tt.rate) || !near(s.Burst(c), tt.burst) || s.MaxLeased(c) != tt.leased {
			t.Errorf("%+v: rate %v, burst %v, max leased %d", tt, s.Rate(c), s.Burst(c), s.MaxLeased(c))
		}
	}
	if s := New(); s.MaxLeased(Config{Rate: 1}) != 0 || s.Rate(Config{MaxLeased: 1}) != 0 {
		t.Error("an absent limit is set")
	}
}

// Rules A8.4 and A9.1.
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

// Rules A8.6, A8.7 and A9.1: a block decides with its 20th outcome.
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

	// An old block starts again.
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

// Rules A9.2 and A9.3: deliveries from before a decrease cause no further decrease.
func TestDecreasesAreApart(t *testing.T) {
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
	if d := s.duration(now, 25); d < 4900 || d > 5100 {
		t.Errorf("a delivery takes %d ms, want 5 s", d)
	}
	s.Settle(base, now, Outcome{Class: Overload}, 25)
	if s.Factor != before {
		t.Errorf("4 s after a decrease the factor falls from %v to %v", before, s.Factor)
	}
	feed(&s, base, &now, 10, 200*time.Millisecond, Success)
	before = s.Factor
	s.Settle(base, now, Outcome{Class: Overload}, 25)
	if s.Factor != before/2 {
		t.Errorf("6 s after a decrease the factor is %v, want %v", s.Factor, before/2)
	}
}

// Rule A9.4.
func TestGoodFactor(t *testing.T) {
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

// Rule A11.
func TestProbing(t *testing.T) {
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
	s.Settle(base, now, Outcome{Class: Success}, 5)
	s.Settle(base, now, Outcome{Class: Failure}, 5)
	if s.Factor != before.Factor || s.Streak != before.Streak || s.Outcomes != before.Outcomes || !s.Probing {
		t.Errorf("older deliveries: %+v, want %+v", s, before)
	}

	probe := func(class Class, wait time.Duration) {
		t.Helper()
		at, most := s.Opens(now)
		if at != now+milli(wait) || most != 0 {
			t.Fatalf("opens in %d ms for %d, want in %s", at-now, most, wait)
		}
		now = at
		if at, most := s.Opens(now); at != now || most != 1 {
			t.Fatalf("hands out %d, want 1", most)
		}
		if !s.Deliver(base, now, 0) {
			t.Fatal("the delivery is no probe")
		}
		if at, _ := s.Opens(now); at != math.MaxInt64 {
			t.Fatal("hands out a second probe")
		}
		now += 100
		s.Settle(base, now, Outcome{Class: class, Probe: true}, 1)
	}
	probe(Failure, firstClosing)
	for i, d := range closings {
		probe(Neutral, d)
		if i%2 == 0 {
			probe(Failure, d)
		} else {
			probe(Overload, d)
		}
	}
	last := closings[len(closings)-1]
	probe(Failure, last)
	probe(Success, last)
	if at, most := s.Opens(now); s.Probing || at != now || most != -1 || s.Factor != base.Floor {
		t.Errorf("after a good probe: %+v", s)
	}
}

// Rules A10.3 to A10.5, with the pause and the bound that the simulation has added.
func TestIncrease(t *testing.T) {
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
	s.Settle(base, now, Outcome{Class: Overload}, 1)
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

// Rules A1.3 to A1.6 and A2.5.
func TestClosing(t *testing.T) {
	t.Parallel()
	s, now := New(), int64(10_000_000)
	settle := func(d time.Duration) { s.Settle(base, now, Outcome{Class: Overload, Slow: d}, 1) }
	for _, tt := range []struct{ slow, want time.Duration }{
		{0, 0}, {time.Minute, time.Minute}, {time.Second, time.Minute}, {2 * time.Hour, time.Hour},
	} {
		settle(tt.slow)
		if at, _ := s.Opens(now); at != now+milli(tt.want) {
			t.Errorf("slow %s: opens in %d ms, want %s", tt.slow, at-now, tt.want)
		}
	}
	now -= milli(30 * time.Minute) // the clock is set back
	if at, _ := s.Opens(now); at != now+milli(time.Hour) {
		t.Errorf("opens in %d ms, want 1h", at-now)
	}
	s.Probing = true
	s.Reopen()
	if at, most := s.Opens(now); at != now || most != -1 || s.Probing {
		t.Errorf("after reopening: %+v", s)
	}
}

// Whatever happens, the factor stays between the floor and 1. It is halved at most once a second,
// except for probing.
func FuzzController(f *testing.F) {
	f.Add([]byte{1, 2, 3, 255, 0, 128}, uint8(10), uint16(100), uint8(64))
	f.Add([]byte{0xc0, 0xc1, 0xc2, 0xc3, 0xc0, 0xc1, 0xc2, 0xc3, 0x80, 0x40}, uint8(1), uint16(0), uint8(1))
	f.Fuzz(func(t *testing.T, script []byte, floor uint8, rate uint16, leased uint8) {
		c := Config{Floor: max(float64(floor)/255, 0.001), Rate: float64(rate), Burst: float64(rate), MaxLeased: int(leased)}
		s, now, fell := New(), int64(1_000_000), int64(0)
		probe := false
		for _, b := range script {
			now += int64(b&0x1f) * 40
			before, probing := s.Factor, s.Probing
			if at, most := s.Opens(now); at <= now && most != 0 && b&0x20 != 0 {
				probe = s.Deliver(c, now, int(b&7))
			}
			s.Settle(c, now, Outcome{Class: Class(b >> 6), Slow: time.Duration(b) * time.Millisecond, Probe: probe && s.ProbeOut}, 1+int(b&7))

			if s.Factor < c.Floor || s.Factor > 1 || math.IsNaN(s.Factor) || s.Good < c.Floor || s.Good > 1 {
				t.Fatalf("factor %v, good factor %v", s.Factor, s.Good)
			}
			if s.ProbeOut && !s.Probing {
				t.Fatal("a probe without probing")
			}
			if s.Factor < before && !s.Probing && !probing {
				if s.Factor < before/2 && s.Factor > c.Floor || fell != 0 && now-fell < 1000 {
					t.Fatalf("factor fell from %v to %v, %d ms after the last time", before, s.Factor, now-fell)
				}
			}
			if s.Factor < before {
				fell = now
			}
		}
	})
}

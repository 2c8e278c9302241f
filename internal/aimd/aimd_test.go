package aimd

import (
	"testing"
	"testing/quick"
	"time"
)

const ms = time.Millisecond

// feed records n good calls, one after the other.
func feed(l *Limiter, now *time.Duration, n int, every, took time.Duration) {
	for range n {
		*now += every
		l.Good(*now, took, true)
	}
}

// C16.89: after as many good calls as the limit, it rises by 1. A slow call does not count.
func TestLimitRisesByOne(t *testing.T) {
	t.Parallel()
	l, now := New(4, 64), time.Duration(0)
	for want := 4; want < 64; want++ {
		if l.Limit() != want {
			t.Fatalf("the limit is %d, want %d", l.Limit(), want)
		}
		feed(&l, &now, want-1, ms, 10*ms)
		if l.Limit() != want {
			t.Fatalf("the limit is %d after %d good answers, want %d", l.Limit(), want-1, want)
		}
		feed(&l, &now, 1, ms, 10*ms)
	}
	feed(&l, &now, 1000, ms, 10*ms)
	if l.Limit() != 64 {
		t.Errorf("the limit is %d, want its bound of 64", l.Limit())
	}
}

// C16.90: the limit halves after a bad answer, at most once a second. C16.91: it
// is at least 1.
func TestLimitHalves(t *testing.T) {
	t.Parallel()
	l := New(64, 64)
	for i, want := range []int{32, 32, 32, 16, 8, 4, 2, 1, 1} {
		at := []time.Duration{0, 1, 999 * ms, 1000 * ms, 2000 * ms, 3000 * ms, 4000 * ms, 5000 * ms, 6000 * ms}[i]
		if l.Bad(at); l.Limit() != want {
			t.Errorf("at %s the limit is %d, want %d", at, l.Limit(), want)
		}
	}
}

// C16.90: a window whose p90 is more than three times the usual latency halves the limit. Answers
// that are so slow don't raise the limit either.
func TestSlowWindowHalves(t *testing.T) {
	t.Parallel()
	l, now := New(4, 64), time.Duration(0)
	feed(&l, &now, 2500, ms, 10*ms)
	if l.Limit() != 64 || l.Usual() < 9*ms || l.Usual() > 11*ms {
		t.Fatalf("limit %d, usual latency %s, want 64 and 10ms", l.Limit(), l.Usual())
	}

	feed(&l, &now, 600, ms, 25*ms)
	if l.Limit() != 64 {
		t.Errorf("2.5 times the usual latency lowers the limit to %d", l.Limit())
	}
	for _, want := range []int{32, 16, 8, 4, 2, 1} {
		before := now
		for l.Limit() > want && now-before <= 1600*ms {
			feed(&l, &now, 1, 5*ms, 100*ms)
		}
		if l.Limit() != want {
			t.Fatalf("after %s of slow answers the limit is %d, want %d", now-before, l.Limit(), want)
		}
	}
}

// C16.93: the 90th percentile decides, because for many hosts one slow answer in ten is usual.
func TestOneSlowCallInTenDoesNotMakeAWindowSlow(t *testing.T) {
	t.Parallel()
	l, now := New(4, 16), time.Duration(0)
	for range 500 {
		feed(&l, &now, 19, ms, 10*ms)
		feed(&l, &now, 1, ms, time.Second)
	}
	if l.Limit() != 16 {
		t.Errorf("the limit is %d, want 16", l.Limit())
	}
}

// C16.93: the usual latency rises only while the limit is 1.
func TestUsualLatencyRisesOnlyAtALimitOfOne(t *testing.T) {
	t.Parallel()
	l, now := New(8, 8), time.Duration(0)
	feed(&l, &now, 600, ms, 10*ms)
	usual := l.Usual()
	feed(&l, &now, 6000, ms, 25*ms)
	if l.Usual() != usual {
		t.Errorf("at a limit of %d the usual latency moved from %s to %s", l.Limit(), usual, l.Usual())
	}

	// A host that has become slow permanently gets its limit back.
	feed(&l, &now, 400, 50*ms, 200*ms)
	if l.Limit() != 8 || l.Usual() < 60*ms {
		t.Errorf("after 20 s of 200ms the limit is %d and the usual latency %s", l.Limit(), l.Usual())
	}
}

// C16.93: a window lasts at most a second. A window with fewer than ten answers changes nothing.
func TestAWindowWithFewCallsChangesNothing(t *testing.T) {
	t.Parallel()
	l, now := New(8, 8), time.Duration(0)
	feed(&l, &now, 600, ms, 10*ms)
	feed(&l, &now, 100, 200*ms, time.Second)
	if l.Limit() != 8 {
		t.Errorf("five answers per window lower the limit to %d", l.Limit())
	}
}

// C16.92: after a restart the limit is 1.
func TestRestartSetsTheLimitToOne(t *testing.T) {
	t.Parallel()
	l, now := New(4, 64), time.Duration(0)
	feed(&l, &now, 1000, ms, 10*ms)
	usual := l.Usual()
	l.Restart()
	if l.Limit() != 1 || l.Usual() != usual {
		t.Errorf("limit %d, usual latency %s, want 1 and %s", l.Limit(), l.Usual(), usual)
	}
	feed(&l, &now, 1+2+3, ms, 10*ms)
	if l.Limit() != 4 {
		t.Errorf("after six good answers the limit is %d, want 4", l.Limit())
	}
}

func TestBoundCapsTheLimit(t *testing.T) {
	t.Parallel()
	l := New(4, 2)
	if l.Limit() != 2 {
		t.Errorf("the limit is %d, want its bound of 2", l.Limit())
	}
	l.Bound(0)
	if l.Limit() != 1 {
		t.Errorf("the limit is %d, want 1", l.Limit())
	}
	if l.Rate(5) != 50 {
		t.Errorf("the first guess is %v/s, want 50/s", l.Rate(5))
	}
}

// Rate returns the calls per second that a limit allows. Throughput returns the calls per second
// that the other party has handled while it was slower than usual.
func TestRateAndThroughput(t *testing.T) {
	t.Parallel()
	l, now := New(4, 4), time.Duration(0)
	feed(&l, &now, 200, 50*ms, 10*ms)
	if l.Throughput() != 0 {
		t.Errorf("of a party that waits for calls the throughput is %v/s", l.Throughput())
	}

	feed(&l, &now, 200, 10*ms, 20*ms)
	if r, got := l.Rate(4), l.Throughput(); r != 200 || got < 99 || got > 101 {
		t.Errorf("rate %v/s, throughput %v/s, want 200 and 100", r, got)
	}

	now += time.Second
	for range 200 {
		now += 50 * ms
		l.Good(now, 20*ms, false)
	}
	if got := l.Throughput(); got < 99 {
		t.Errorf("calls below the limit lower the throughput to %v/s", got)
	}

	if feed(&l, &now, 200, 50*ms, 10*ms); l.Throughput() != 0 {
		t.Errorf("with the usual latency again the throughput is %v/s, want unknown", l.Throughput())
	}
	feed(&l, &now, 200, 10*ms, 20*ms)
	if l.Restart(); l.Throughput() != 0 {
		t.Errorf("after a restart the throughput is %v/s, want unknown", l.Throughput())
	}
}

// Nine in ten calls at the limit make a full window.
func TestThroughputNeedsAFullWindow(t *testing.T) {
	t.Parallel()
	for full, want := range map[int]bool{10: true, 9: true, 8: false, 0: false} {
		l, now := New(4, 4), time.Duration(0)
		feed(&l, &now, 10, 10*ms, 10*ms) // the first window, after which the usual latency is known
		for i := range 60 {
			now += 10 * ms
			l.Good(now, 20*ms, i%10 < full)
		}
		if got := l.Throughput(); (got > 0) != want {
			t.Errorf("with %d of 10 calls at the limit the throughput is %v/s, want one: %v", full, got, want)
		}
	}
}

// The histogram is right to an eighth, for every latency up to half an hour.
func TestHistogramPercentilesAreWithinAnEighth(t *testing.T) {
	t.Parallel()
	check := func(n uint32) bool {
		took := time.Duration(n%(1800*1e6)+1) * time.Microsecond
		got := middle(step(took))
		return got >= took-took/8-time.Microsecond && got <= took+took/8+time.Microsecond
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 100_000}); err != nil {
		t.Error(err)
	}
	for _, took := range []time.Duration{-1, 0, 1, 100 * time.Hour} {
		if i := step(took); i < 0 || i >= octaves*steps {
			t.Errorf("%s is in step %d", took, i)
		}
	}
}

// C16.91: whatever happens, the limit stays between 1 and its bound, and is halved at most once a
// second.
func FuzzLimiter(f *testing.F) {
	f.Add([]byte{1, 2, 3, 255, 0, 128})
	f.Fuzz(func(t *testing.T, script []byte) {
		l, now, dropped := New(4, 20), time.Duration(0), -time.Second
		for _, b := range script {
			now += time.Duration(b&0x1f) * 20 * ms
			before := l.Limit()
			switch b >> 5 {
			case 0:
				l.Bad(now)
			default:
				l.Good(now, time.Duration(b>>5)*time.Duration(b)*ms, b&1 == 0)
			}

			after := l.Limit()
			if after < 1 || after > 20 || after > before+1 {
				t.Fatalf("the limit went from %d to %d", before, after)
			}

			if after < before {
				if now-dropped < time.Second || after < before/2 {
					t.Fatalf("the limit went from %d to %d, %s after the last time", before, after, now-dropped)
				}
				dropped = now
			}
		}
	})
}

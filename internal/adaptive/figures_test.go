package adaptive

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/proctest"
)

// rated returns the queue of the figures: 100 deliveries per second, with 64 in flight.
func rated(floor float64) Config {
	return Config{Floor: floor, Rate: 100, Burst: 100, MaxLeased: 64}
}

// seeds returns how many times a figure is taken.
func seeds() uint64 {
	switch {
	case proctest.Long():
		return 50
	case testing.Short():
		return 1
	}
	return 4
}

// down has the results of an outage of a service with a constant latency, and of the minute after
// it.
type down struct {
	tries    int
	probes   int
	released int
	after    float64 // successes per second at the end of that minute
}

func outage(cfg Config, latency time.Duration, answer outcome, lasts time.Duration) down {
	f := &failing{limited: limited{capacity: 1e6, burst: 1e6, latency: latency}, latency: latency}
	s := newSimulation(cfg, 64, 100_000, f)
	s.run(20 * time.Second)
	f.down = &answer
	s.run(lasts)
	d := down{tries: s.tries, probes: s.probes, released: s.released}
	f.down = nil
	s.run(time.Minute)
	const whole = 6400 * time.Millisecond // a multiple of every latency, so that calls can be in step with it
	d.after = float64(s.answered(Success, whole)) / whole.Seconds()
	return d
}

// Figures "outage" and "recovery": the outage ends at any moment between two probes.
func TestOutageEndsBetweenTwoProbes(t *testing.T) {
	t.Parallel()
	worst := down{after: 100}
	for _, floor := range []float64{0.01, 0.05, 0.5} {
		for _, leased := range []int{0, 64} {
			for _, latency := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 640 * time.Millisecond} {
				for more := time.Duration(0); more < 31*time.Second; more += 10 * time.Second / time.Duration(seeds()) {
					cfg := rated(floor)
					cfg.MaxLeased = leased
					d := outage(cfg, latency, outcome{Class: Failure}, 10*time.Minute+more)
					if d.tries > 100+d.probes || d.after < 90 {
						t.Errorf("floor %v, max leased %d, latency %s, %s: %+v", floor, leased, latency, more, d)
					}
					worst = down{max(worst.tries, d.tries), max(worst.probes, d.probes), 0, min(worst.after, d.after)}
				}
			}
		}
	}
	t.Logf("at most %d tries and %d probes; at least %.1f/s a minute after the outage", worst.tries, worst.probes, worst.after)
}

// Like TestOutageEndsBetweenTwoProbes, with a service whose overload answers have a duration. No
// outcome uses a try.
func TestOutageWithRetryAfter(t *testing.T) {
	t.Parallel()
	after := 100.0
	for _, slow := range []time.Duration{0, time.Second, 10 * time.Second, 30 * time.Second} {
		for more := time.Duration(0); more < 31*time.Second; more += 2500 * time.Millisecond {
			d := outage(rated(0.01), 100*time.Millisecond, outcome{Class: Overload, Slow: slow}, 10*time.Minute+more)
			// 1000 releases of one job would use a try.
			if d.tries != 0 || d.released >= 1000 || d.after < 90 {
				t.Errorf("Retry-After %s, %s: %+v", slow, more, d)
			}
			after = min(after, d.after)
		}
	}
	t.Logf("no try; at least %.1f/s a minute after the outage", after)
}

// Figure "step": the capacity falls from 100/s to 20/s and rises again, for services that
// count their calls in several ways.
func TestFactorFollowsAStepOfTheCapacity(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name  string
		burst float64 // seconds of its capacity that the service accepts at once
		fixed bool    // whether the service counts the calls of each second separately
	}{{"Paced", 0, false}, {"TenthOfSecond", 0.1, false}, {"Second", 1, false}, {"FixedSecond", 0, true}} {
		for _, leased := range []int{0, 64} {
			if kind.name == "Paced" && leased > 0 {
				continue // a limit of leased jobs does not limit the rate of calls
			}
			for _, latency := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 500 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s/%d/%s", kind.name, leased, latency), func(t *testing.T) {
					t.Parallel()
					cfg := rated(0.01)
					cfg.MaxLeased = leased
					success, overloads, risen := 1.0, 0.0, 1.0
					for seed := range seeds() {
						w := &windowed{limited: limited{latency: latency, random: rand.New(rand.NewPCG(1, seed))}}
						var service service = &w.limited
						if kind.fixed {
							service = w
						}
						setCapacity := func(c float64) { w.capacity, w.burst = c, c*kind.burst }

						setCapacity(100)
						s := newSimulation(cfg, 64, 1_000_000, service)
						s.run(time.Minute + time.Duration(seed)*137*time.Millisecond)
						setCapacity(20)
						s.run(90 * time.Second)
						good, over := float64(s.answered(Success, time.Minute)), float64(s.answered(Overload, time.Minute))
						success, overloads = min(success, good/60/20), max(overloads, over/(good+over))
						setCapacity(100)
						s.run(time.Minute)
						risen = min(risen, float64(s.answered(Success, 5*time.Second))/5/100)
					}
					if success < 0.7 || overloads >= 0.05 || risen < 0.9 {
						t.Errorf("%.0f %% of the capacity, %.1f %% overloads, %.0f %% after the rise", 100*success, 100*overloads, 100*risen)
					}
					t.Logf("%.0f %% of the capacity, %.1f %% overloads, %.0f %% after the rise", 100*success, 100*overloads, 100*risen)
				})
			}
		}
	}
}

// Figure "unused limit": an hour at a tenth of the effective limit never increases the
// factor, with even and with random arrivals.
func TestUnusedLimitDoesNotIncrease(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Floor: 0.01, Rate: 100, Burst: 100}, {Floor: 0.01, MaxLeased: 64}, rated(0.01)} {
		for _, factor := range []float64{0.01, 0.02, 0.05, 0.1, 0.3, 0.9} {
			for _, latency := range []time.Duration{20 * time.Millisecond, 2 * time.Second} {
				for _, random := range []bool{false, true} {
					if raised := unused(cfg, factor, latency, random); raised > 0 {
						t.Errorf("%+v, factor %v, latency %s, random %v: %d increases", cfg, factor, latency, random, raised)
					}
				}
			}
		}
	}
}

// unused returns the number of increases in an hour at a tenth of the effective limit.
func unused(cfg Config, factor float64, latency time.Duration, random bool) int {
	r := rand.New(rand.NewPCG(1, 2))
	s := newSimulation(cfg, 64, 0, &limited{capacity: 1e6, burst: 1e6, latency: latency, random: r})
	s.state.Factor = factor
	rate := s.state.Rate(cfg)
	if most := float64(s.state.MaxLeased(cfg)) / latency.Seconds(); most > 0 && (rate == 0 || most < rate) {
		rate = most
	}

	end := s.now + milli(time.Hour)
	var arrive func()
	arrive = func() {
		s.push(1)
		gap := 0.5 + r.Float64()
		if random {
			gap = r.ExpFloat64()
		}
		if at := s.now + int64(10_000*gap/rate); at < end {
			s.at(at, arrive)
		}
	}
	s.at(s.now+1, arrive)
	s.run(time.Hour)
	return s.raised
}

// A service that refuses most calls must not keep the factor high with its few successes: otherwise
// each second would halve the factor, and the successes would double it again.
func TestSuccessesBetweenOverloadsRaiseNothing(t *testing.T) {
	t.Parallel()
	service := &limited{capacity: 20, burst: 2, latency: 50 * time.Millisecond, random: rand.New(rand.NewPCG(1, 1))}
	s := newSimulation(rated(0.01), 64, 1_000_000, service)
	s.run(10 * time.Second)
	if s.state.Factor > 0.3 {
		t.Errorf("after 10 s at a fifth of the capacity the factor is %v", s.state.Factor)
	}
}

func BenchmarkSettle(b *testing.B) {
	s, c, now := New(), rated(0.01), int64(1_000_000)
	for b.Loop() {
		now += 10
		s.Deliver(c, Moment{now, 10}, numbered(1))
		s.Settle(c, Moment{now, 11}, numbered(1), Success)
	}
}

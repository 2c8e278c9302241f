package enginetest

import (
	"math"
	"time"

	"github.com/dulymq/duly"
)

func timeTests() []test {
	return []test{
		{"AllTimesComeFromTheEnginesClock", []string{"C5.1", "C5.2"}, Options{}, timeOneClock},
		{"JobIsNeverAMillisecondEarly", []string{"C5.4", "C5.5"}, Options{OneShard: true}, timeNeverEarly},
		{"FractionsOfAMillisecondAreRoundedUp", []string{"C5.4", "C5.5"}, Options{OneShard: true}, timeFractions},
		{"ClockStepBackDelaysOnlyScheduledJobs", []string{"C5.6", "C5.7"}, Options{OneShard: true}, timeStepBack},
		{"StepBackDoesNotReviveAnExpiredJob", []string{"C5.6", "C2.24"}, Options{OneShard: true}, timeStepBackExpired},
		{"DeliveryAfterAStepBackIsNotBeforeItsDueTime", []string{"C5.8", "C5.4"}, Options{}, timeStepBackNow},
		{"StepBackDoesNotRevalidateAReceipt", []string{"C5.7", "C1.7"}, Options{}, timeStepBackReceipts},
		{"StepForwardEndsALeaseOnce", []string{"C5.9"}, Options{OneShard: true}, timeStepForward},
		{"WaitersSurviveAStepBack", []string{"C5.6", "C5.12"}, Options{}, timeWaiterStepBack},
		{"RateSurvivesAStepBack", []string{"C5.6", "C10.8"}, Options{OneShard: true}, timeRateStepBack},
		{"RepeatedClockStepsLoseNoJob", []string{"C5.6", "C5.7", "C5.9", "C9.1"}, Options{}, timeToAndFro},
		{"AgeIsNeverNegative", []string{"C5.10"}, Options{}, timeElapsed},
		{"ExtremeTimesAreExactOrRefused", []string{"C2.13", "C5.5"}, Options{}, timeEdges},
		{"TimeZoneOfADueTimeDoesNotMatter", []string{"C5.5", "C2.10"}, Options{}, timeZones},
	}
}

func timeOneClock(s *scene) {
	id := s.push(duly.Job{Delay: time.Hour})
	info := s.get(id)
	sameTime(s, "pushed at", info.PushedAt, s.now())
	sameTime(s, "due", info.Due, s.now().Add(time.Hour))
	s.Advance(time.Hour)
	d := s.take()
	sameTime(s, "now", d.Now, s.now())
	sameTime(s, "lease end", d.LeaseEnd, s.now().Add(duly.DefaultLease))
}

func timeNeverEarly(s *scene) {
	s.push(duly.Job{ID: "x", Delay: time.Minute})
	s.push(duly.Job{ID: "y", Due: s.now().Add(time.Minute)})
	s.Advance(time.Minute - time.Millisecond)
	s.nothing("both are due in a millisecond")
	s.is("x", duly.StateDelayed)
	s.Advance(time.Millisecond)
	s.takes("x", "y")
}

func timeFractions(s *scene) {
	start := s.now()
	s.push(duly.Job{ID: "delay", Delay: 1500 * time.Microsecond})
	s.push(duly.Job{ID: "due", Due: start.Add(1500 * time.Microsecond)})
	sameTime(s, "the due of a delay", s.get("delay").Due, start.Add(2*time.Millisecond))
	sameTime(s, "the due of a due", s.get("due").Due, start.Add(2*time.Millisecond))
	// The engine rounds due times up to the next millisecond, never down.
	s.Advance(1900 * time.Microsecond)
	s.nothing("both are due in a tenth of a millisecond")
	s.Advance(100 * time.Microsecond)
	s.takes("delay", "due")
}

func timeStepBack(s *scene) {
	s.push(duly.Job{ID: "ready"})
	s.push(duly.Job{ID: "delayed", Delay: 10 * time.Second})

	s.Clock.Step(-time.Hour)
	// Jobs that were ready stay ready.
	s.is("ready", duly.StateReady)
	// A job that is pushed now has an earlier due time than one pushed before the step.
	s.push(duly.Job{ID: "new"})
	for _, d := range s.takes("new", "ready") {
		s.ack(d)
	}

	s.Advance(time.Minute)
	s.nothing("it was due in 10 s before the step of an hour")
	s.Advance(time.Hour - 50*time.Second - time.Millisecond)
	s.nothing("it comes at most the step late")
	s.Advance(time.Millisecond)
	s.is("delayed", duly.StateReady)
}

func timeStepBackExpired(s *scene) {
	s.push(duly.Job{ID: "old", OrderKey: "k", Merge: duly.Merge{Key: "m"}, Delay: 5 * time.Second, TTL: 5 * time.Second})
	s.Advance(30 * time.Second)
	s.push(duly.Job{ID: "new", OrderKey: "k", Merge: duly.Merge{Key: "m"}})
	// The old job has expired. The new push has dropped it and taken its keys.
	s.Clock.Step(-5 * time.Second)
	s.is("new", duly.StateReady)
	s.takes("new")
}

func timeStepBackNow(s *scene) {
	s.push(duly.Job{ID: "x"})
	due := s.get("x").Due
	s.Clock.Step(-time.Hour)
	d := s.take()
	sameTime(s, "due", d.Due, due)
	sameTime(s, "now", d.Now, due) // the later of the clock and the due time
}

func timeStepBackReceipts(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Minute})
	first := s.take()
	s.stall(first)

	second := s.take()
	// The clock is now before the first delivery.
	s.Clock.Step(-time.Hour)
	s.lost("ack by the first receipt", s.settle(duly.SettleRequest{Receipt: first.Receipt, As: duly.Ack}))
	s.nothing("it is leased")
	s.must("extend", s.extend(second.Receipt, time.Minute))
	sameTime(s, "lease end", s.get("x").LeaseEnd, s.now().Add(time.Minute))
	s.ack(second)
}

func timeStepForward(s *scene) {
	s.pushAll(duly.Job{ID: "a", Lease: 30 * time.Minute}, duly.Job{ID: "b", Lease: 2 * time.Hour})
	ds := s.reserve(2)
	s.Clock.Step(time.Hour)
	again := s.takes("a")
	s.counts(again[0], 1, 0, 1)
	s.lost("ack by the first receipt", s.settle(duly.SettleRequest{Receipt: ds[0].Receipt, As: duly.Ack}))
	// A second step must not end the lease of the other delivery.
	s.step()
	s.counted(duly.Counters{Pushed: 2, Delivered: 3, Stalled: 1})
	s.ack(ds[1])
	s.ack(again[0])
}

func timeWaiterStepBack(s *scene) {
	s.push(duly.Job{ID: "x", Delay: time.Minute})
	w := s.wait()
	s.Clock.Step(-2 * time.Minute)
	s.Advance(90 * time.Second) // a timer that was set before the step has fired by this time
	w.sleeps("the clock was set back")
	s.Advance(90 * time.Second)
	w.woke("the job is due")
	s.takes("x")
}

func timeRateStepBack(s *scene) {
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 1, Burst: 2}})
	s.pushAll(numbered(10, "j")...)
	same(s, "the burst", len(s.takeAll()), 2)
	s.Clock.Step(-time.Hour)
	s.nothing("a step back refills nothing")
	// The rate must open again, no later than the size of the step.
	s.Advance(time.Hour + time.Second)
	if len(s.takeAll()) == 0 {
		s.Error("the rate limit never allows a delivery again")
	}
}

// timeToAndFro processes jobs while the clock steps by hours in both directions.
func timeToAndFro(s *scene) {
	jobs := numbered(200, "j")
	for i := range jobs {
		jobs[i].Delay = time.Duration(i) * 20 * time.Second
		jobs[i].Lease, jobs[i].Backoff, jobs[i].MaxStalls = time.Minute, "fixed:30s", duly.MaxTries
	}
	s.pushAll(jobs...)
	steps := []time.Duration{time.Hour, -time.Hour, -time.Hour, time.Hour, 30 * time.Minute, -2 * time.Hour,
		90 * time.Minute}
	acked := map[string]bool{}
	var held []duly.Delivery
	// The bound on rounds ends the test if a job gets lost.
	for round := 0; len(acked) < len(jobs) && round < 2000; round++ {
		if round%40 == 7 {
			s.Clock.Step(steps[round/40%len(steps)])
		}
		for _, d := range s.reserve(5) {
			if d.Now.Before(d.Due) {
				s.Errorf("%q is due at %s, but its delivery says %s, want no early delivery", d.ID, d.Due, d.Now)
			}
			held = append(held, d)
		}
		// Hold a few deliveries back, so that some stall and some are settled too late.
		for len(held) > 3 || len(held) > 0 && round%2 == 0 {
			d := held[len(held)-1]
			held = held[:len(held)-1]
			err := s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack})
			if acked[d.ID] && err == nil {
				s.Errorf("%q was acked twice, want once", d.ID)
			}
			acked[d.ID] = acked[d.ID] || err == nil
		}

		s.conserved()
		s.Clock.Advance(10 * time.Second)
	}

	same(s, "the jobs acked", len(trues(acked)), len(jobs))
	c := s.stats().Counters
	same(s, "the jobs acked as counted", c.Acked, int64(len(jobs)))
	// Each delivery was acknowledged or has stalled.
	same(s, "the deliveries", c.Delivered, c.Acked+c.Stalled)
}

func trues(m map[string]bool) (keys []string) {
	for k, v := range m {
		if v {
			keys = append(keys, k)
		}
	}
	return keys
}

func timeElapsed(s *scene) {
	s.push(duly.Job{})
	s.Clock.Step(-24 * time.Hour)
	st := s.stats()
	if st.OldestReady < 0 {
		s.Errorf("the age of the oldest ready job is %s, want 0 or more", st.OldestReady)
	}
	s.step()
	d := s.take()
	if d.LeaseEnd.Before(s.now()) {
		s.Errorf("the lease ends at %s, want the present time %s or later", d.LeaseEnd, s.now())
	}
}

// timeEdges pushes jobs with due times that overflow in other programs.
func timeEdges(s *scene) {
	// These times are valid.
	taken := []time.Time{
		duly.MaxTime, duly.MaxTime.Add(-time.Millisecond), time.UnixMilli(1<<42 - 1), time.UnixMilli(1 << 42),
		time.Unix(math.MaxInt32, 0), time.Unix(math.MaxInt32+1, 0), time.Unix(math.MaxUint32+1, 0),
		time.Date(2032, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2100, 2, 28, 23, 59, 59, 999e6, time.UTC),
		// Beyond int64 nanoseconds.
		time.Date(2261, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2500, 1, 1, 0, 0, 0, 1e6, time.UTC),
		time.Date(2035, 6, 30, 23, 59, 60, 0, time.UTC),
	}
	for _, due := range taken {
		sameTime(s, "due", s.get(s.push(duly.Job{Due: due})).Due, due)
	}

	// These times are too late.
	for _, due := range []time.Time{
		duly.MaxTime.Add(time.Millisecond), duly.MaxTime.Add(1), time.UnixMilli(1<<53 - 1), time.UnixMilli(1 << 53),
		time.UnixMilli(1<<53 + 1),
		time.UnixMilli(math.MaxInt64), time.Unix(math.MaxInt64/2, 0),
	} {
		s.names("due at "+due.String(), s.try(duly.Job{Due: due}).Err, duly.CodeInvalid, "due")
	}

	// These times are in the past, so the job is due now or refused.
	for _, due := range []time.Time{time.Unix(0, 0), time.Unix(-1, 0), time.UnixMilli(-1 << 53),
		time.Unix(math.MinInt32, 0), time.Time{}.Add(1)} {
		r := s.try(duly.Job{Due: due})
		if r.Err == nil {
			sameTime(s, "the due of a job due at "+due.String(), s.get(r.ID).Due, s.now())
		} else {
			s.names("due at "+due.String(), r.Err, duly.CodeInvalid, "due")
		}
	}

	// The longest Duration is a valid delay and TTL.
	far := time.Duration(math.MaxInt64)
	id := s.push(duly.Job{Delay: far})
	if due := s.get(id).Due; due.Before(s.now().Add(far)) || due.After(s.now().Add(far).Add(time.Millisecond)) {
		s.Errorf("a job with a delay of %s is due at %s, want the present time + the delay", far, due)
	}
	s.push(duly.Job{TTL: far})
	s.names("the longest lease", s.try(duly.Job{Lease: far}).Err, duly.CodeInvalid, "lease")
	s.names("the shortest delay", s.try(duly.Job{Delay: math.MinInt64}).Err, duly.CodeInvalid, "delay")
}

func timeZones(s *scene) {
	due := s.now().Add(time.Hour)
	for _, offset := range []int{0, 3600, -5 * 3600, 12*3600 + 45*60, -12 * 3600} {
		id := s.push(duly.Job{Due: due.In(time.FixedZone("zone", offset))})
		sameTime(s, "due", s.get(id).Due, due)
	}

	s.Advance(time.Hour - time.Millisecond)
	s.nothing("they are due in a millisecond")
	s.Advance(time.Millisecond)
	same(s, "the jobs delivered", len(s.takeAll()), 5)
}

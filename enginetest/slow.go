package enginetest

import (
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func slowTests() []test {
	return []test{
		{"ReleaseUsesNoTry", []string{"C18.1", "C18.2", "C18.56"}, Options{}, slowReleases},
		{"ClosesTheQueueExactly", []string{"C18.3", "C18.8"}, Options{OneShard: true}, slowCloses},
		{"WaitSleepsUntilTheQueueOpens", []string{"C18.8"}, Options{OneShard: true}, slowWait},
		{"LaterEndWins", []string{"C18.3", "C18.5"}, Options{OneShard: true}, slowLaterEnd},
		{"OfZeroClosesNothing", []string{"C18.4"}, Options{}, slowZero},
		{"ReasonIsReturnedAndCut", []string{"C18.5", "C18.12"}, Options{}, slowReason},
		{"BadRequestsAreInvalid", []string{"C18.1", "C18.6"}, Options{}, slowInvalid},
		{"LastsAnHourAtMostAfterAClockStep", []string{"C18.6"}, Options{OneShard: true}, slowClockBack},
		{"AfterAThousandReleasesIsANack", []string{"C18.7"}, Options{OneShard: true}, slowBound},
		{"ClosedQueueContinuesEverythingElse", []string{"C18.9", "C18.10", "C18.11"}, Options{OneShard: true}, slowOthers},
		{"ConfigureReopens", []string{"C18.12"}, Options{OneShard: true}, slowReopen},
		{"ClosesTheOtherShards", []string{"C18.13"}, Options{}, slowShards},
		{"LimitedJobsBurnTries", []string{"C18.1", "C18.2", "C18.8"}, Options{OneShard: true}, limitedJobsBurnTries},
	}
}

// slow releases a delivery and closes the queue.
func (s *scene) slow(d duly.Delivery, slow time.Duration, reason string) {
	s.Helper()
	s.must("slow release", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Release, Slow: &slow, Error: reason}))

	// An engine may close the other shards after the call.
	s.Quiet()
}

// closedUntil compares the closing in the statistics and in the configuration.
func (s *scene) closedUntil(why string, until time.Time, reason string) {
	s.Helper()

	// Both structs must have the closing, because operators read either of them.
	for what, c := range map[string]duly.Closing{"stats": s.stats().Closing, "config": s.config().Closing} {
		if !c.Until.Equal(until) || c.Reason != reason {
			s.Errorf("%s, %s: closed until %s for %q, want %s for %q", what, why, c.Until, c.Reason, until, reason)
		}
	}
}

func slowReleases(s *scene) {
	s.push(duly.Job{ID: "a"})
	due := s.get("a").Due
	s.slow(s.take(), time.Second, "429")
	info := s.get("a")
	same(s, "the state", info.State, duly.StateReady)
	same(s, "the failures", info.Failures, 0)
	same(s, "the attempt", info.Attempt, 1)
	sameTime(s, "the due time", info.Due, due)
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Released: 1, Slowed: 1})

	// The delay of the job is longer than the closing of the queue, so the delay decides.
	s.Advance(time.Second)
	d, delay, slow := s.take(), time.Minute, time.Second
	s.must("slow release", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Release, Delay: &delay, Slow: &slow}))
	sameTime(s, "the due time", s.get("a").Due, s.now().Add(time.Minute))
}

// asynq#609, absurd#89, claude-code-queue#3: a service that limits its requests uses up the tries of
// the jobs that wait for it. In this test, it refuses more requests than a job has tries.
func limitedJobsBurnTries(s *scene) {
	const refusals = 2 * duly.DefaultTries
	ids := []string{"a", "b", "c"}
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"}, duly.Job{ID: "c"})

	for range refusals {
		s.slow(s.take(), 10*time.Second, "429")
		s.nothing("the service has asked for a pause")
		s.Advance(10 * time.Second)
	}

	for _, id := range ids {
		same(s, "the failures of "+id, s.get(id).Failures, 0)
	}
	s.takes(ids...)
	same(s, "the number of dead jobs", s.stats().Sizes.Dead, 0)
}

func slowCloses(s *scene) {
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"})

	// Another queue of the same engine must stay open.
	s.on("other").push(duly.Job{ID: "c"})
	s.slow(s.take(), 10*time.Second, "")
	s.nothing("the queue is closed")
	s.on("other").take()
	s.Advance(10*time.Second - time.Millisecond)
	s.nothing("the queue is closed for 1 ms more")
	s.Advance(time.Millisecond)
	s.takes("a", "b")
}

func slowWait(s *scene) {
	s.push(duly.Job{ID: "a"})
	s.slow(s.take(), 10*time.Second, "")
	w := s.wait()
	s.Advance(10*time.Second - time.Millisecond)
	w.sleeps("the queue is closed for 1 ms more")
	s.Advance(time.Millisecond)
	w.woke("the queue is open")
	s.takes("a")
}

func slowLaterEnd(s *scene) {
	s.pushAll(numbered(3, "j")...)
	ds := s.takes("j0000", "j0001", "j0002")
	start := s.now()
	s.slow(ds[0], time.Minute, "first")

	// A shorter closing must not shorten the earlier one.
	s.slow(ds[1], 2*time.Second, "second")
	s.closedUntil("a shorter one does not shorten it", start.Add(time.Minute), "first")
	s.Advance(30 * time.Second)
	s.slow(ds[2], time.Minute, "third")
	s.closedUntil("a longer one extends it", start.Add(90*time.Second), "third")
	s.Advance(time.Minute)
	s.closedUntil("it is over", time.Time{}, "")
	s.takes("j0000", "j0001", "j0002")
}

func slowZero(s *scene) {
	s.push(duly.Job{ID: "a"})
	s.slow(s.take(), 0, "429")
	s.closedUntil("0 closes nothing", time.Time{}, "")
	s.takes("a")
}

func slowReason(s *scene) {
	s.push(duly.Job{})
	start := s.now()
	s.slow(s.take(), duly.MaxSlow, strings.Repeat("ü", 150))
	s.closedUntil("200 bytes of the reason", start.Add(duly.MaxSlow), strings.Repeat("ü", 100))
}

func slowInvalid(s *scene) {
	s.push(duly.Job{})
	d := s.take()
	for _, as := range []duly.Settlement{duly.Ack, duly.Nack, duly.Bury} {
		slow := time.Second
		s.names("slow with "+as.String(), s.settle(duly.SettleRequest{Receipt: d.Receipt, As: as, Slow: &slow}),
			duly.CodeInvalid, "slow")
	}
	for _, slow := range []time.Duration{-1, duly.MaxSlow + 1} {
		s.names("slow of "+slow.String(), s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Release, Slow: &slow}),
			duly.CodeInvalid, "slow")
	}
	s.closedUntil("nothing was settled", time.Time{}, "")
	s.ack(d)
}

func slowClockBack(s *scene) {
	s.push(duly.Job{ID: "a"})
	s.slow(s.take(), time.Hour, "")

	// The wall clock goes back five hours. The closing must still end within an hour.
	s.Clock.Step(-5 * time.Hour)
	s.nothing("the queue is closed")
	s.Advance(time.Hour - time.Millisecond)
	s.nothing("the queue is closed for 1 ms more")
	s.Advance(time.Millisecond)
	s.closedUntil("an hour has passed", time.Time{}, "")
}

func slowBound(s *scene) {
	s.push(duly.Job{ID: "a", Tries: 2, Backoff: "fixed:1m"})

	// The failure before the releases shows that releases use no try.
	s.nack(s.take(), "no")
	s.Advance(time.Minute)
	for i := range contract.MaxReleases {
		// Every release counts, and one without slow costs less.
		if d := s.take(); i%100 == 0 {
			s.slow(d, 0, "429")
		} else {
			s.release(d)
		}
	}
	same(s, "the failures", s.get("a").Failures, 1)

	// One more release than the maximum counts as a nack, and this job has one try left.
	s.slow(s.take(), time.Minute, "429")
	info := s.get("a")
	same(s, "the state", info.State, duly.StateDead)
	same(s, "the last error", info.LastError, "429")
	s.closedUntil("a nack closes nothing", time.Time{}, "")
}

func slowOthers(s *scene) {
	s.pushAll(duly.Job{ID: "a", Priority: 1}, duly.Job{ID: "b", Lease: time.Minute},
		duly.Job{ID: "c", Lease: 2 * time.Minute})
	ds := s.takes("a", "b", "c")
	s.slow(ds[0], 10*time.Minute, "")

	// The clock must still make jobs due while the queue is closed.
	s.push(duly.Job{ID: "d", Delay: time.Second})
	s.must("extend", s.extend(ds[1].Receipt, time.Minute))
	s.ack(ds[1])
	info, err := s.Engine.Peek(s.ctx, s.ref())
	s.must("peek", err)
	same(s, "the first ready job", info.ID, "a")

	s.stall(ds[2])
	same(s, "the stalls", s.get("c").Stalls, 1)
	same(s, "the state of the delayed job", s.get("d").State, duly.StateReady)
	s.nothing("the queue is closed")
}

func slowReopen(s *scene) {
	s.push(duly.Job{ID: "a"})
	s.slow(s.take(), time.Hour, "429")
	w := s.wait()

	// A patch of another setting must not reopen the queue.
	s.configure(duly.QueueConfig{MaxJobs: 5})
	w.sleeps("another setting opens nothing")
	s.configure(duly.QueueConfig{Reopen: true})
	w.woke("the queue was reopened")
	s.closedUntil("it was reopened", time.Time{}, "")
	same(s, "reopen in the configuration", s.config().Reopen, false)
	s.takes("a")
}

func slowShards(s *scene) {
	if !s.Sharded {
		s.Skip("the engine keeps a queue in one shard")
	}
	s.configure(duly.QueueConfig{Shards: 4})

	// Forty jobs are enough to reach every one of the four shards.
	s.pushAll(numbered(40, "j")...)
	s.slow(s.take(), 10*time.Second, "")
	s.nothing("every shard is closed")
	s.Advance(10 * time.Second)
	same(s, "the jobs after the closing", len(s.takeAll()), 40)
}

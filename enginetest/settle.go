package enginetest

import (
	"bytes"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func settleTests() []test {
	return []test{
		{"AckRemovesTheJob", []string{"C4.20", "C4.29", "C3.12"}, Options{}, settleAck},
		{"AckKeepsARetainedJobAsDone", []string{"C4.20", "C4.29", "C2.30", "C2.31", "C3.7"}, Options{}, settleRetained},
		{"ResultIsDroppedWithoutRetain", []string{"C4.20"}, Options{}, settleResultDropped},
		{"AckWithALargeResultIsRefused", []string{"C4.21", "C13.7"}, Options{}, settleResultTooLong},
		{"NackDelaysTheJobByItsBackoff", []string{"C4.22", "C4.23", "C4.33"}, Options{}, settleNack},
		{"NackWithADelayOverridesTheBackoff", []string{"C4.23", "C4.33"}, Options{}, settleNackDelay},
		{"ErrorTextIsCutAt4KiB", []string{"C4.22"}, Options{}, settleLongError},
		{"ErrorTextIsStoredAsUTF8", []string{"C4.22"}, Options{}, settleBinaryError},
		{"ReleaseUsesNoTryAndKeepsTheDueTime", []string{"C4.24", "C4.35"}, Options{OneShard: true}, settleRelease},
		{"SnoozeIsAReleaseWithADelay", []string{"C4.24", "C4.35"}, Options{}, settleSnooze},
		{"BuryMakesTheJobDead", []string{"C4.25", "C4.29", "C3.12"}, Options{}, settleBury},
		{"NackOfTheLastTryMakesTheJobDead", []string{"C2.16", "C4.32"}, Options{}, settleExhausted},
		{"ReleaseNeverMakesAJobDead", []string{"C4.24", "C4.32"}, Options{}, settleReleaseNeverKills},
		{"RepeatedSettleReturnsLeaseLost", []string{"C4.38"}, Options{}, settleRepeated},
		{"CountersCountEachSettlement", []string{"C4.58", "C4.59"}, Options{}, settleCounters},
	}
}

func settleAck(s *scene) {
	id := s.push(duly.Job{})
	s.ack(s.take())
	s.gone(id)
	s.nothing("the job was acked")
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Acked: 1})
	s.sizes(duly.Sizes{})
}

func settleRetained(s *scene) {
	id := s.push(duly.Job{Body: []byte("b"), Retain: time.Hour})
	d := s.take()
	s.Advance(time.Second)
	result := []byte("\x00result\xff")
	s.must("ack", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack, Result: result}))

	info := s.get(id)
	same(s, "its state", info.State, duly.StateDone)
	same(s, "its body", string(info.Body), "b")
	sameTime(s, "its end", info.FinishedAt, s.now())
	if !bytes.Equal(info.Result, result) {
		s.Errorf("its result is %q, want %q", info.Result, result)
	}

	s.sizes(duly.Sizes{Done: 1})
	// One second before the retention ends.
	s.Advance(time.Hour - time.Second)
	s.step()
	s.is(id, duly.StateDone)
	s.Advance(2 * time.Second)
	s.step()
	s.gone(id)
	s.sizes(duly.Sizes{})
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Acked: 1}) // the end of the retention changes no counter
}

func settleResultDropped(s *scene) {
	id := s.push(duly.Job{})
	// The job is not retained, so its result is dropped without an error.
	d := s.take()
	s.must("ack", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack, Result: []byte("r")}))
	s.gone(id)
}

func settleResultTooLong(s *scene) {
	id := s.push(duly.Job{Retain: time.Hour})
	d := s.take()
	long := duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack, Result: make([]byte, duly.MaxResult+1)}
	s.unchanged("an ack whose result is too long", func() {
		s.names("it", s.settle(long), duly.CodeTooLarge, "result")
	})
	s.is(id, duly.StateLeased)
	// The job is still leased, so a valid ack succeeds.
	s.ack(d)
	s.is(id, duly.StateDone)
}

func settleNack(s *scene) {
	id := s.push(duly.Job{Backoff: "fixed:5s"})
	s.nack(s.take(), "it broke")
	info := s.get(id)
	same(s, "its state", info.State, duly.StateDelayed)
	same(s, "its last error", info.LastError, "it broke")
	same(s, "its failures", info.Failures, 1)
	same(s, "its attempt", info.Attempt, 2)
	sameTime(s, "its due", info.Due, s.now().Add(5*time.Second))

	s.Advance(5*time.Second - time.Millisecond)
	s.nothing("the backoff has not passed")
	s.Advance(time.Millisecond)
	s.counts(s.take(), 2, 1, 0)
}

func settleNackDelay(s *scene) {
	id := s.push(duly.Job{Backoff: "fixed:5s"})
	s.nackFor(s.take(), time.Minute)
	sameTime(s, "its due", s.get(id).Due, s.now().Add(time.Minute))
	s.Advance(time.Minute)
	// A delay of zero skips the backoff.
	s.nackFor(s.take(), 0)
	s.is(id, duly.StateReady)
	s.counts(s.take(), 3, 2, 0)
}

func settleLongError(s *scene) {
	id := s.push(duly.Job{Backoff: "fixed:0s"})
	s.nack(s.take(), strings.Repeat("x", duly.MaxErrorText))
	same(s, "the length of an error of 4 KiB", len(s.get(id).LastError), duly.MaxErrorText)
	// The text is cut between characters, never inside one.
	s.nack(s.take(), strings.Repeat("ä", 3000))
	same(s, "an error of 6000 bytes", s.get(id).LastError, strings.Repeat("ä", duly.MaxErrorText/2))
	s.nack(s.take(), "x"+strings.Repeat("ä", 3000))
	same(s, "an error that is cut inside of a character", s.get(id).LastError,
		"x"+strings.Repeat("ä", duly.MaxErrorText/2-1))
	s.bury(s.take(), strings.Repeat("y", 2*duly.MaxErrorText))
	same(s, "the length of a long reason", len(s.get(id).LastError), duly.MaxErrorText)
}

func settleBinaryError(s *scene) {
	id := s.push(duly.Job{})
	text := "a\xffb\x00c\nd\u2028"
	s.nack(s.take(), text)
	same(s, "the error", s.get(id).LastError, contract.CutError(text))
}

func settleRelease(s *scene) {
	id := s.push(duly.Job{Tries: 1})
	due := s.now()
	s.Advance(time.Minute)
	s.push(duly.Job{ID: "second"})
	// Release does not use up the only try.
	for range 5 {
		s.release(s.take())
	}
	info := s.get(id)
	same(s, "its state", info.State, duly.StateReady)
	same(s, "its failures", info.Failures, 0)
	sameTime(s, "its due", info.Due, due)
	// With its old due time the released job is still the first.
	s.takes(id, "second")
	s.counted(duly.Counters{Pushed: 2, Delivered: 7, Released: 5})
}

func settleSnooze(s *scene) {
	id := s.push(duly.Job{Tries: 1, Backoff: "fixed:1s"})
	s.snooze(s.take(), time.Hour)
	info := s.get(id)
	same(s, "its state", info.State, duly.StateDelayed)
	same(s, "its failures", info.Failures, 0)
	sameTime(s, "its due", info.Due, s.now().Add(time.Hour))
	s.Advance(time.Hour)
	s.counts(s.take(), 1, 0, 0)
}

func settleBury(s *scene) {
	id := s.push(duly.Job{Body: []byte("b")})
	s.Advance(time.Second)
	s.bury(s.take(), "never again")
	info := s.get(id)
	same(s, "its state", info.State, duly.StateDead)
	same(s, "its last error", info.LastError, "never again")
	same(s, "its body", string(info.Body), "b")
	sameTime(s, "its end", info.FinishedAt, s.now())
	s.sizes(duly.Sizes{Dead: 1})
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Dead: 1})
	s.nothing("the job is dead")
}

func settleExhausted(s *scene) {
	id := s.push(duly.Job{Tries: 3, Backoff: "fixed:1s"})
	for i := range 3 {
		d := s.take()
		s.counts(d, i+1, i, 0)
		s.nackFor(d, time.Minute) // the delay of the nack does not matter, because it was the last try
		s.Advance(time.Minute)
	}

	info := s.get(id)
	same(s, "its state", info.State, duly.StateDead)
	same(s, "its failures", info.Failures, 3)
	s.counted(duly.Counters{Pushed: 1, Delivered: 3, Failed: 3, Dead: 1})
}

func settleReleaseNeverKills(s *scene) {
	id := s.push(duly.Job{Tries: 1, MaxStalls: 1})
	s.stall(s.take())
	for range 20 {
		s.release(s.take())
	}
	s.is(id, duly.StateReady)

	n := s.on("fewer")
	n.push(duly.Job{ID: "x", Tries: 3, Backoff: "fixed:0s"})
	n.nack(n.take(), "no")
	n.nack(n.take(), "no")
	n.must("update", n.update("x", duly.Update{Tries: 1})) // less than the number of failures so far
	// Only the next failure makes the job dead.
	n.release(n.take())
	n.is("x", duly.StateReady)
	n.nack(n.take(), "no")
	n.is("x", duly.StateDead)
}

func settleRepeated(s *scene) {
	for _, as := range []duly.Settlement{duly.Ack, duly.Nack, duly.Release, duly.Bury} {
		s.push(duly.Job{})
		d := s.take()
		o := duly.SettleRequest{Receipt: d.Receipt, As: as}
		s.must("settle", s.settle(o))
		s.unchanged("the repeat of "+as.String(), func() { s.lost("the repeat", s.settle(o)) })
		// Empty the queue for the next settlement.
		_, err := s.Engine.Purge(s.ctx, s.ref(), duly.StateReady, 0)
		s.must("purge", err)
	}
}

func settleCounters(s *scene) {
	jobs := numbered(5, "j")
	for i := range jobs {
		jobs[i].Lease = time.Second
	}
	s.pushAll(jobs...)

	ds := s.reserve(5)
	s.ack(ds[0])
	s.nack(ds[1], "no")
	s.release(ds[2])
	s.bury(ds[3], "no")
	// The lease of the last job ends.
	s.Advance(time.Minute)
	s.step()
	s.counted(duly.Counters{Pushed: 5, Delivered: 5, Acked: 1, Failed: 1, Released: 1, Dead: 1, Stalled: 1})
	s.sizes(duly.Sizes{Ready: 3, Dead: 1})
}

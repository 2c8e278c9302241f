package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

func mergeRunningTests() []test {
	return []test{
		{"PushWhileTheJobRunsCreatesANewJob", []string{"C7.9", "C3.16"}, Options{}, runningNewJob},
		{"JobThatReturnsIsDroppedForANewerOne", []string{"C7.10", "C4.31"}, Options{}, runningComesBack},
		{"JobIsDroppedEvenIfItsTriesAreUsedUp", []string{"C4.31", "C4.32", "C7.10"}, Options{}, runningBeforeDead},
		{"ExpiryPrecedesTheDrop", []string{"C4.30", "C4.31"}, Options{}, runningExpired},
		{"DroppedJobPassesOnEarlierDueAndLaterExpiry", []string{"C7.11"}, Options{}, runningLeaves},
		{"DroppedJobPassesOnNothingUnderReplace", []string{"C7.11", "C7.10"}, Options{}, runningLeavesNothing},
		{"BuriedJobIsDead", []string{"C7.12"}, Options{}, runningBuried},
		{"JobHoldsItsKeyUntilDone", []string{"C7.13", "C3.16"}, Options{}, runningHolds},
		{"JobHoldsItsKeyDuringRetriesUntilDone", []string{"C7.13"}, Options{}, runningHoldsThroughRetry},
		{"DeadJobReleasesItsKey", []string{"C7.13", "C6.9"}, Options{}, runningDead},
		{"ExpiryIsPassedOnIfBothLeasesEndTogether", []string{"C7.11", "C7.13"}, Options{}, runningBothRunOut},
		{"DroppedJobFreesItsOrderKey", []string{"C7.10", "C6.9"}, Options{}, runningOrderKey},
		{"JobIsDroppedWhateverHappenedToItsReplacement", []string{"C7.10", "C4.31"}, Options{}, supersededFates},
		{"EverySupersededDeliveryIsDropped", []string{"C7.10"}, Options{}, supersededSeveral},
		{"JobIsDroppedAfterAMergeIntoItsReplacement", []string{"C7.10", "C7.5"}, Options{}, supersededByMerge},
		{"JobIsDroppedAfterARequeueOfItsKey", []string{"C7.10", "C4.66"}, Options{}, supersededByRequeue},
		{"DroppedJobFreesOnlyItsOwnOrderKey", []string{"C7.10", "C6.9"}, Options{}, supersededOrderKey},
		{"JobReturnsUnlessBothReplace", []string{"C7.10", "C7.15"}, Options{}, supersededModes},
		{"JobReturnsUnderAnotherKey", []string{"C7.10", "C7.2"}, Options{}, supersededOtherKeys},
		{"DeadJobReturnsByRequeue", []string{"C7.10", "C7.12", "C4.66"}, Options{}, supersededRequeued},
		{"DestroyedQueueForgetsSupersededJobs", []string{"C7.10", "C4.71"}, Options{}, supersededDestroyed},
	}
}

// superseded returns the delivery of a job in flight. A newer job with the same merge key waits.
func (s *scene) superseded(older, newer duly.Job) duly.Delivery {
	s.Helper()
	older.ID, newer.ID = "older", "newer"
	for _, j := range []*duly.Job{&older, &newer} {
		if !j.Merge.Set() {
			j.Merge = duly.Merge{Key: "m"}
		}
	}
	s.push(older)
	d := s.takes("older")[0]
	s.push(newer)
	return d
}

// runningBothRunOut runs both jobs, and one step reclaims both leases. It takes back the older job
// first. That job has no expiry, so the newer job loses its expiry.
func runningBothRunOut(s *scene) {
	s.superseded(duly.Job{Lease: time.Second}, duly.Job{
		Lease: time.Second, TTL: 10 * time.Millisecond, Merge: duly.Merge{Key: "m", Until: duly.UntilDone},
	})
	s.takes("newer")
	s.Advance(5 * time.Second)
	s.step()
	if d := s.takes("newer")[0]; d.Stalls != 1 || !d.ExpiresAt.IsZero() {
		s.Errorf("the newer job is delivered as %+v, want one stall and no expiry", d)
	}
	s.gone("older")
}

func runningNewJob(s *scene) {
	d := s.superseded(duly.Job{}, duly.Job{})
	s.is("newer", duly.StateReady)
	s.merges(duly.Job{Merge: duly.Merge{Key: "m"}}, "newer")
	// Both are in flight, because a key binds waiting jobs only.
	s.takes("newer")
	s.ack(d)
	s.gone("older")
}

func runningComesBack(s *scene) {
	for _, back := range []struct {
		name string
		do   func(n *scene, d duly.Delivery)
		want duly.Counters
	}{
		{"nack", func(n *scene, d duly.Delivery) { n.nack(d, "no") }, duly.Counters{Failed: 1}},
		{"release", func(n *scene, d duly.Delivery) { n.release(d) }, duly.Counters{Released: 1}},
		{"snooze", func(n *scene, d duly.Delivery) { n.snooze(d, time.Hour) }, duly.Counters{Released: 1}},
		{"stall", func(n *scene, d duly.Delivery) { n.stall(d) }, duly.Counters{Stalled: 1}},
	} {
		n := s.on(back.name)
		d := n.superseded(duly.Job{}, duly.Job{})
		back.do(n, d)
		n.gone("older")

		n.is("newer", duly.StateReady)
		back.want.Pushed, back.want.Delivered, back.want.Merged = 2, 1, 1
		n.counted(back.want)
		n.sizes(duly.Sizes{Ready: 1})
		n.lost("ack of the dropped one", n.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
	}
}

func runningBeforeDead(s *scene) {
	d := s.superseded(duly.Job{Tries: 1}, duly.Job{})
	// The last try has failed, but the job is dropped instead of becoming dead.
	s.nack(d, "no")
	s.gone("older")
	s.counted(duly.Counters{Pushed: 2, Delivered: 1, Failed: 1, Merged: 1})
}

func runningExpired(s *scene) {
	d := s.superseded(duly.Job{TTL: time.Minute, Lease: time.Hour}, duly.Job{Delay: time.Hour})
	due := s.get("newer").Due
	s.Advance(2 * time.Minute)
	s.nack(d, "no")
	s.gone("older")
	// An expired job gives nothing to the newer one.
	sameTime(s, "the newer one's due", s.get("newer").Due, due)
	s.counted(duly.Counters{Pushed: 2, Delivered: 1, Failed: 1, Expired: 1})
}

func runningLeaves(s *scene) {
	start := s.now()
	d := s.superseded(duly.Job{TTL: 3 * time.Hour}, duly.Job{Delay: time.Hour, TTL: 2 * time.Hour, Body: []byte("newer")})
	// A release returns the job to its old due time, which is in the past.
	s.release(d)
	info := s.get("newer")
	same(s, "the state", info.State, duly.StateReady)
	sameTime(s, "the due", info.Due, start)
	sameTime(s, "the expiry", info.ExpiresAt, start.Add(3*time.Hour))
	same(s, "the body", string(s.takes("newer")[0].Body), "newer")

	n := s.on("later")
	d = n.superseded(duly.Job{}, duly.Job{Delay: time.Minute, TTL: 2 * time.Hour})
	// The snooze ends after the newer job's due time, so the newer job keeps its due time. It takes
	// only the missing expiry.
	n.snooze(d, time.Hour)
	info = n.get("newer")
	sameTime(s, "the due after a snooze beyond it", info.Due, start.Add(time.Minute))
	sameTime(s, "the expiry after one without", info.ExpiresAt, time.Time{})
}

func runningLeavesNothing(s *scene) {
	start := s.now()
	replace := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	d := s.superseded(duly.Job{Merge: replace}, duly.Job{Delay: time.Hour, TTL: 2 * time.Hour, Merge: replace})
	// Both pushes replace, so the newer job keeps all of its own fields.
	s.release(d)
	info := s.get("newer")
	sameTime(s, "the due", info.Due, start.Add(time.Hour))
	sameTime(s, "the expiry", info.ExpiresAt, start.Add(2*time.Hour))
	s.gone("older")
}

func runningBuried(s *scene) {
	d := s.superseded(duly.Job{}, duly.Job{})
	s.bury(d, "no")
	s.is("older", duly.StateDead)
	s.is("newer", duly.StateReady)
	s.counted(duly.Counters{Pushed: 2, Delivered: 1, Dead: 1})
}

func runningHolds(s *scene) {
	once := duly.Merge{Key: "m", Until: duly.UntilDone}
	s.push(duly.Job{ID: "x", Merge: once})
	d := s.take()
	for range 3 {
		s.merges(duly.Job{Merge: once}, "x")

	}
	s.nothing("at most one of them waits or runs")
	s.ack(d)
	s.push(duly.Job{ID: "y", Merge: once})
	s.counted(duly.Counters{Pushed: 5, Merged: 3, Delivered: 1, Acked: 1})
}

func runningHoldsThroughRetry(s *scene) {
	once := duly.Merge{Key: "m", Until: duly.UntilDone}
	s.push(duly.Job{ID: "x", Merge: once, Backoff: "fixed:0s"})
	for _, end := range []func(d duly.Delivery){
		func(d duly.Delivery) { s.nack(d, "no") }, s.release, s.stall,
	} {
		d := s.takes("x")[0]
		// The key is held both while the job is in flight and while it waits again.
		s.merges(duly.Job{Merge: once}, "x")
		end(d)
		s.merges(duly.Job{Merge: once}, "x")
	}
	s.sizes(duly.Sizes{Ready: 1})
}

func runningDead(s *scene) {
	once := duly.Merge{Key: "m", Until: duly.UntilDone}
	s.push(duly.Job{ID: "x", Merge: once, Tries: 1})
	s.nack(s.take(), "no")
	// The dead job no longer holds the key.
	s.push(duly.Job{ID: "y", Merge: once, TTL: time.Minute})
	d := s.take()
	s.Advance(2 * time.Minute)
	// The nack finds that the job has expired, which frees the key too.
	s.must("nack beyond the expiry", s.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Nack}))
	s.push(duly.Job{ID: "z", Merge: once})
}

func runningOrderKey(s *scene) {
	d := s.superseded(duly.Job{OrderKey: "k"}, duly.Job{OrderKey: "k"})
	s.is("newer", duly.StateBlocked)
	s.nack(d, "no")
	s.is("newer", duly.StateReady)
	s.takes("newer")
}

package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

func ttlTests() []test {
	return []test{
		{"CountsFromThePush", []string{"C2.23", "C2.24"}, Options{OneShard: true}, ttlFromPush},
		{"ExpiredJobIsNotFoundWithoutAStep", []string{"C2.24", "C4.60"}, Options{}, ttlByClock},
		{"ExpiredJobIsRemovedAndCounted", []string{"C3.4", "C4.61", "C4.58"}, Options{}, ttlCounted},
		{"ExpiredJobHoldsNoID", []string{"C2.24"}, Options{}, ttlFreesID},
		{"ExpiredJobHoldsNoMergeKey", []string{"C2.24", "C7.1"}, Options{}, ttlFreesMergeKey},
		{"ExpiredJobHoldsNoOrderKey", []string{"C2.24", "C6.9"}, Options{}, ttlFreesOrderKey},
		{"ExpiredHeadReleasesItsKey", []string{"C2.24", "C6.9", "C6.11"}, Options{}, ttlHead},
		{"ExpiredHeadBlocksNoJobWithoutAStep", []string{"C2.24", "C4.60"}, Options{}, ttlHeadByClock},
		{"ExpiredJobIsSkippedWhenItsKeyIsFreed", []string{"C2.24", "C6.11"}, Options{}, ttlPassedOver},
		{"FirstBlockedJobInheritsTheKeyOfAnExpiredHead", []string{"C6.4", "C6.11", "C2.24"}, Options{}, ttlHeir},
		{"LeasedJobDoesNotExpire", []string{"C2.25", "C3.5"}, Options{}, ttlLeased},
		{"ReturnedJobExpires", []string{"C2.25", "C4.30"}, Options{}, ttlComesBack},
		{"DoneJobDoesNotExpire", []string{"C3.4", "C2.30"}, Options{}, ttlDone},
		{"ExpiryPrecedesTheLastTry", []string{"C4.30", "C4.32"}, Options{}, ttlBeforeDead},
		{"BuryPrecedesExpiry", []string{"C4.29", "C2.25"}, Options{}, ttlBury},
	}
}

func ttlFromPush(s *scene) {
	// The TTL counts from the push, not from the due time.
	s.push(duly.Job{ID: "x", Delay: 30 * time.Second, TTL: time.Minute})
	sameTime(s, "its expiry", s.get("x").ExpiresAt, s.now().Add(time.Minute))
	s.push(duly.Job{ID: "y", TTL: time.Minute})
	s.Advance(time.Minute - time.Millisecond)
	s.takes("y", "x")

	s.push(duly.Job{ID: "z", TTL: time.Minute})
	s.Advance(time.Minute + time.Millisecond)
	s.nothing("its time to live is over")
}

func ttlByClock(s *scene) {
	s.pushAll(duly.Job{ID: "ready", TTL: time.Minute}, duly.Job{ID: "delayed", Delay: time.Minute, TTL: time.Minute},
		duly.Job{ID: "head", OrderKey: "k"}, duly.Job{ID: "blocked", OrderKey: "k", TTL: time.Minute})
	s.Advance(time.Minute + time.Millisecond)
	// No step has removed the expired jobs, but no operation finds them.
	for _, id := range []string{"ready", "delayed", "blocked"} {
		s.gone(id)
		s.refused("delete", s.Engine.Delete(s.ctx, s.ref(), id), duly.CodeNotFound)
		s.refused("promote", s.Engine.Promote(s.ctx, s.ref(), id), duly.CodeNotFound)
		s.refused("update", s.Engine.Update(s.ctx, s.ref(), id, duly.Update{Tries: 2}), duly.CodeNotFound)
	}

	info, err := s.Engine.Peek(s.ctx, s.ref())
	s.must("peek", err)
	same(s, "the first ready job", info.ID, "head")
	s.takes("head")
}

func ttlCounted(s *scene) {
	s.pushAll(duly.Job{TTL: time.Minute}, duly.Job{TTL: time.Minute, Delay: time.Minute}, duly.Job{TTL: time.Hour})
	s.Advance(time.Minute + time.Millisecond)
	s.sizes(duly.Sizes{Ready: 1})
	s.counted(duly.Counters{Pushed: 3, Expired: 2})
}

func ttlFreesID(s *scene) {
	s.push(duly.Job{ID: "x", TTL: time.Minute, Body: []byte("old")})
	s.Advance(time.Minute + time.Millisecond)
	s.push(duly.Job{ID: "x", Body: []byte("new")})
	same(s, "the body", string(s.take().Body), "new")
	s.counted(duly.Counters{Pushed: 2, Delivered: 1, Expired: 1})
}

func ttlFreesMergeKey(s *scene) {
	s.push(duly.Job{ID: "old", TTL: time.Minute, Merge: duly.Merge{Key: "m"}})
	s.Advance(time.Minute + time.Millisecond)
	// The expired job no longer holds the key.
	s.push(duly.Job{ID: "new", Merge: duly.Merge{Key: "m"}})
	s.merges(duly.Job{Merge: duly.Merge{Key: "m"}}, "new")
	s.takes("new")
}

func ttlFreesOrderKey(s *scene) {
	s.push(duly.Job{ID: "old", TTL: time.Minute, OrderKey: "k"})
	s.Advance(time.Minute + time.Millisecond)
	s.push(duly.Job{ID: "new", OrderKey: "k"})
	s.is("new", duly.StateReady)
	s.takes("new")
}

func ttlHead(s *scene) {
	s.pushAll(duly.Job{ID: "a", TTL: time.Minute, OrderKey: "k"}, duly.Job{ID: "b", TTL: time.Minute, OrderKey: "k"},
		duly.Job{ID: "c", OrderKey: "k"}, duly.Job{ID: "d", OrderKey: "k"})
	s.Advance(time.Minute + time.Millisecond)
	// The first two jobs have expired, so the third one gets the key.
	s.takes("c")
	s.is("d", duly.StateBlocked)
	s.counted(duly.Counters{Pushed: 4, Delivered: 1, Expired: 2})
}

func ttlHeadByClock(s *scene) {
	s.push(duly.Job{ID: "head", TTL: time.Minute, OrderKey: "k"})
	s.push(duly.Job{ID: "behind", OrderKey: "k", Delay: 30 * time.Second})
	s.Advance(40 * time.Second)
	s.is("behind", duly.StateBlocked)
	s.Advance(time.Minute)
	// The head has expired, so the job behind it is ready by the clock.
	s.is("behind", duly.StateReady)

	info, err := s.Engine.Peek(s.ctx, s.ref())
	s.must("peek", err)
	same(s, "the first ready job", info.ID, "behind")
	s.takes("behind")
}

// ttlHeir pushes a job when the holder of its key has expired. The push removes the holder and
// gives the key to the first blocked job, so the new job is blocked.
func ttlHeir(s *scene) {
	s.push(duly.Job{ID: "a", OrderKey: "k", TTL: time.Second})
	s.push(duly.Job{ID: "b", OrderKey: "k"})
	s.Advance(2 * time.Second)
	s.push(duly.Job{ID: "c", OrderKey: "k"})

	ds := s.reserve(3)
	s.sameIDs("the jobs reserved after the holder expired", idsTaken(ds), []string{"b"})
	s.is("c", duly.StateBlocked)
	s.ack(ds[0])
	s.takes("c")
}

func ttlPassedOver(s *scene) {
	s.push(duly.Job{ID: "a", OrderKey: "k", Lease: time.Hour})
	s.push(duly.Job{ID: "b", OrderKey: "k", TTL: time.Minute})
	s.push(duly.Job{ID: "c", OrderKey: "k"})
	d := s.takes("a")[0]
	// Time passes without a step, so nothing has removed the expired second job.
	s.Clock.Advance(2 * time.Minute)
	s.ack(d)
	// Ready without a step.
	s.is("c", duly.StateReady)
	s.takes("c")
}

func ttlLeased(s *scene) {
	s.push(duly.Job{ID: "x", TTL: time.Minute, Lease: time.Hour, Retain: time.Hour})
	d := s.take()
	s.Advance(30 * time.Minute)
	s.step()
	// The TTL is over, but the lease is not.
	s.is("x", duly.StateLeased)
	s.must("extend", s.extend(d.Receipt, time.Hour))
	s.ack(d)
	s.is("x", duly.StateDone)
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Acked: 1})
}

func ttlComesBack(s *scene) {
	for _, back := range []struct {
		name string
		do   func(d duly.Delivery)
		want duly.Counters
	}{
		{"nack", func(d duly.Delivery) { s.nack(d, "no") }, duly.Counters{Failed: 1}},
		{"release", func(d duly.Delivery) { s.release(d) }, duly.Counters{Released: 1}},
		{"snooze", func(d duly.Delivery) { s.snooze(d, time.Second) }, duly.Counters{Released: 1}},
		{"stall", func(d duly.Delivery) { s.stall(d) }, duly.Counters{Stalled: 1}},
	} {
		n := s.on(back.name)
		n.push(duly.Job{ID: "x", TTL: time.Minute, Lease: time.Hour, OrderKey: "k"})
		n.push(duly.Job{ID: "y", OrderKey: "k"})
		d := n.take()
		n.Advance(2 * time.Minute)
		// The job returns after its TTL, whatever the way.
		back.do(d)
		n.step()
		n.gone("x")
		n.is("y", duly.StateReady)
		back.want.Pushed, back.want.Delivered, back.want.Expired = 2, 1, 1
		n.counted(back.want)
	}
}

func ttlDone(s *scene) {
	s.push(duly.Job{ID: "x", TTL: time.Minute, Retain: time.Hour})
	s.ack(s.take())
	s.Advance(30 * time.Minute)
	s.step()
	s.is("x", duly.StateDone)
}

func ttlBeforeDead(s *scene) {
	s.push(duly.Job{ID: "x", TTL: time.Minute, Lease: time.Hour, Tries: 1})
	d := s.take()
	s.Advance(2 * time.Minute)
	// The nack would make the job dead, but the job has expired.
	s.nack(d, "no")
	s.gone("x")
	s.counted(duly.Counters{Pushed: 1, Delivered: 1, Failed: 1, Expired: 1})
}

func ttlBury(s *scene) {
	s.push(duly.Job{ID: "x", TTL: time.Minute, Lease: time.Hour})
	d := s.take()
	s.Advance(2 * time.Minute)
	// A bury keeps the job although it has expired.
	s.bury(d, "no")
	s.is("x", duly.StateDead)
}

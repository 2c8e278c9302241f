package enginetest

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
)

func waitTests() []test {
	return []test{
		{"ReturnsAtOnceIfAJobIsReady", []string{"C4.17"}, Options{}, waitReady},
		{"ReturnsAtOnceWithoutATimeout", []string{"C4.17"}, Options{}, waitWithoutTimeout},
		{"EndsAtItsTimeout", []string{"C4.17"}, Options{}, waitTimesOut},
		{"EndsWithItsContext", []string{"C4.2", "C4.17"}, Options{}, waitContext},
		{"WakesForAPush", []string{"C5.11", "C5.12"}, Options{}, waitPush},
		{"WakesAtTheDueTime", []string{"C5.11", "C5.12"}, Options{}, waitDue},
		{"WakesForAnEarlierPush", []string{"C5.12"}, Options{}, waitEarlierPush},
		{"WakesAtTheEndOfALease", []string{"C5.13"}, Options{}, waitLease},
		{"WakesAtTheEndOfAShortenedLease", []string{"C5.13"}, Options{}, waitShortened},
		{"WakesForARelease", []string{"C5.11"}, Options{}, waitRelease},
		{"WakesWhenARetryIsDue", []string{"C5.12", "C8.1"}, Options{}, waitRetry},
		{"WakesWhenAKeyIsFreed", []string{"C5.11", "C6.11"}, Options{}, waitKeyFreed},
		{"WakesWhenAHolderExpires", []string{"C2.24", "C5.11"}, Options{}, waitHolderExpires},
		{"WakesForAResume", []string{"C5.11", "C4.63"}, Options{}, waitResume},
		{"WakesForAPromote", []string{"C5.11", "C4.46"}, Options{}, waitPromote},
		{"WakesForAnUpdate", []string{"C5.11", "C4.42"}, Options{}, waitUpdate},
		{"WakesForARequeue", []string{"C5.11", "C4.66"}, Options{}, waitRequeue},
		{"WakesForTheSecondOfItsQueues", []string{"C4.17"}, Options{}, waitSecondQueue},
		{"WakesForAQueueCreatedLater", []string{"C4.88", "C4.86", "C4.87"}, Options{}, waitUnknown},
		{"WakesForARecreatedQueue", []string{"C4.88", "C4.71"}, Options{}, waitDestroyed},
		{"OneWaiterWakesPerReadyJob", []string{"C5.16"}, Options{}, waitOnePerJob},
		{"OneWaiterWakesPerDueJob", []string{"C5.16", "C5.12"}, Options{}, waitOnePerDue},
		{"NothingIsLeasedWhileWaiting", []string{"C4.18"}, Options{}, waitLeasesNothing},
		{"CanceledWaiterConsumesNoWakeup", []string{"C4.18", "C5.16"}, Options{}, waitVanished},
		{"CanceledWaitersLeaveTheWakeupToOthers", []string{"C4.18", "C5.16"}, Options{}, waitManyVanish},
		{"PassWakesTheNextWaiter", []string{"C4.102"}, Options{}, waitPass},
		{"PausedQueueWakesNoWaiter", []string{"C4.89", "C4.63"}, Options{}, waitPaused},
		{"SleepsUntilALimitOpens", []string{"C5.14", "C10.12", "C4.89"}, Options{OneShard: true}, waitLimit},
		{"SleepsUntilTheRateOpens", []string{"C5.14", "C10.12"}, Options{OneShard: true}, waitRate},
		{"TenThousandWaitersAreServed", []string{"C4.19"}, Options{}, waitCrowd},
	}
}

func waitReady(s *scene) {
	s.push(duly.Job{})
	s.wait().woke("a job is ready")
	s.take()
	s.push(duly.Job{})
	s.wait().woke("another job is ready")
	// The woken waiter may have stopped, so the job is offered to another one.
	again := s.wait()
	s.Advance(5 * time.Second)
	again.woke("no worker has reserved the job")
	s.take()
}

func waitWithoutTimeout(s *scene) {
	ready, err := s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{s.queue}})
	s.must("wait", err)
	same(s, "ready", ready, false)
	s.push(duly.Job{})
	ready, err = s.Engine.Wait(s.ctx, duly.WaitParams{Queues: []string{s.queue}})
	s.must("wait", err)
	same(s, "ready", ready, true)
}

func waitTimesOut(s *scene) {
	w := s.waitFor(time.Minute)

	// One millisecond before the timeout.
	s.Advance(time.Minute - time.Millisecond)
	w.sleeps("its timeout has not passed")
	s.Advance(time.Millisecond)
	s.Quiet()
	if !w.returned() {
		s.Fatal("the waiter still blocks after its timeout")
	}
	s.must("wait", w.err)
	same(s, "ready", w.ready, false)
}

func waitContext(s *scene) {
	w := s.wait()
	w.sleeps("the queue has no ready job")
	w.end()
	if w.ready || !errors.Is(w.err, context.Canceled) {
		s.Errorf("the wait ended with %t, %v; want the context's error", w.ready, w.err)
	}
}

func waitPush(s *scene) {
	w := s.wait()
	w.sleeps("the queue has no ready job")
	s.push(duly.Job{Delay: time.Hour})
	w.sleeps("the job is due in an hour")
	s.push(duly.Job{})
	w.woke("a job was pushed")
}

func waitDue(s *scene) {
	s.push(duly.Job{Delay: time.Minute})
	w := s.waitFor(5 * time.Minute)
	s.Advance(time.Minute - time.Millisecond)
	w.sleeps("the job is due in a millisecond")
	s.Advance(time.Millisecond)
	w.woke("the job is due")
	s.take()
}

func waitEarlierPush(s *scene) {
	s.push(duly.Job{ID: "late", Delay: 5 * time.Minute})
	w := s.wait()
	// The waiter must replace its timer with an earlier one.
	s.push(duly.Job{ID: "early", Delay: time.Minute})
	s.Advance(time.Minute - time.Millisecond)
	w.sleeps("the earlier job is due in a millisecond")
	s.Advance(time.Millisecond)
	w.woke("the earlier job is due")
	s.takes("early")
}

func waitLease(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Minute})
	d := s.take()
	w := s.wait()
	s.Advance(30 * time.Second)
	// The waiter has to follow the extension.
	s.must("extend", s.extend(d.Receipt, time.Minute))
	s.Advance(time.Minute - time.Millisecond)
	w.sleeps("the lease was extended")
	s.Advance(2 * time.Millisecond)
	w.woke("the lease has ended")
	s.takes("x")
}

func waitShortened(s *scene) {
	s.push(duly.Job{ID: "x", Lease: time.Minute})
	d := s.take()
	w := s.wait()
	s.must("extend to an earlier end", s.extend(d.Receipt, time.Second))
	s.Advance(time.Second - time.Millisecond)
	w.sleeps("the lease has one millisecond left")
	s.Advance(time.Millisecond)
	w.woke("the lease has ended")
	s.takes("x")
}

func waitRelease(s *scene) {
	s.push(duly.Job{})
	d := s.take()
	w := s.wait()
	w.sleeps("the only job is leased")
	s.release(d)
	w.woke("the job was released")
}

func waitRetry(s *scene) {
	s.push(duly.Job{Backoff: "fixed:1m"})
	d := s.take()
	w := s.wait()
	s.nack(d, "no")
	w.sleeps("the retry is due in a minute")
	s.Advance(time.Minute - time.Millisecond)
	w.sleeps("the retry is due in a millisecond")
	s.Advance(time.Millisecond)
	w.woke("the retry is due")
}

func waitKeyFreed(s *scene) {
	s.pushAll(duly.Job{ID: "a", OrderKey: "k"}, duly.Job{ID: "b", OrderKey: "k"})
	d := s.take()
	w := s.wait()
	w.sleeps("the key is busy")
	s.ack(d)
	w.woke("the key is free")
	s.takes("b")
}

// waitHolderExpires waits behind a snoozed job that holds the key. The last millisecond of its
// TTL counts, so the key is free one millisecond after the TTL.
func waitHolderExpires(s *scene) {
	s.push(duly.Job{ID: "a", OrderKey: "k", TTL: 10 * time.Second})
	s.push(duly.Job{ID: "b", OrderKey: "k"})
	s.snooze(s.takes("a")[0], time.Hour)

	w := s.wait()
	s.Advance(10 * time.Second)
	w.sleeps("the holder has one millisecond left")
	s.Advance(time.Millisecond)
	w.woke("the holder has expired")
	s.takes("b")
}

func waitResume(s *scene) {
	s.push(duly.Job{})
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	w := s.wait()
	w.sleeps("the queue is paused")
	s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	w.woke("the queue was resumed")
}

func waitPromote(s *scene) {
	id := s.push(duly.Job{Delay: time.Hour})
	w := s.wait()
	s.must("promote", s.Engine.Promote(s.ctx, s.ref(), id))
	w.woke("the job was promoted")
}

func waitUpdate(s *scene) {
	id := s.push(duly.Job{Delay: time.Hour})
	w := s.wait()
	delay := time.Minute
	s.must("update", s.Engine.Update(s.ctx, s.ref(), id, duly.Update{Delay: &delay}))
	w.sleeps("the job is due in a minute")
	s.Advance(time.Minute)
	w.woke("the job is due")
}

func waitRequeue(s *scene) {
	id := s.push(duly.Job{})
	s.bury(s.take(), "no")
	w := s.wait()
	w.sleeps("the only job is dead")
	s.requeue(id)
	w.woke("the job was requeued")
}

func waitSecondQueue(s *scene) {
	s.on("a").push(duly.Job{Delay: time.Hour})
	w := s.wait("a", "b")
	s.on("c").push(duly.Job{})
	w.sleeps("it does not wait for that queue")
	s.on("b").push(duly.Job{})
	w.woke("its second queue has a job")
}

func waitUnknown(s *scene) {
	w := s.wait("unknown")
	w.sleeps("the queue does not exist")
	same(s, "the number of queues", len(s.queues()), 0)
	s.on("unknown").push(duly.Job{Delay: time.Minute})
	s.Advance(time.Minute)
	w.woke("the queue was created and its job is due")
}

func waitDestroyed(s *scene) {
	s.push(duly.Job{Delay: time.Minute})
	w := s.wait()
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	s.Advance(2 * time.Minute)
	w.sleeps("the job was destroyed with its queue")
	s.push(duly.Job{})
	w.woke("the queue was created again")
}

func waitPaused(s *scene) {
	s.push(duly.Job{Delay: time.Minute})
	s.must("pause", s.Engine.Pause(s.ctx, s.ref()))
	w := s.wait()
	s.push(duly.Job{})
	w.sleeps("the queue is paused")
	s.Advance(2 * time.Minute)
	w.sleeps("the queue is still paused")
	s.nothing("the queue is paused")

	s.must("resume", s.Engine.Resume(s.ctx, s.ref()))
	w.woke("the queue was resumed")
	same(s, "the jobs delivered", len(s.takeAll()), 2)
}

func waitLimit(s *scene) {
	s.configure(duly.QueueConfig{MaxLeased: 1})
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"}, duly.Job{ID: "c"})
	d := s.take()
	w := s.wait()
	w.sleeps("the limit is reached")
	s.push(duly.Job{ID: "d"})
	w.sleeps("a push does not open the limit")
	s.ack(d)
	w.woke("the limit has opened")

	// Raising the limit wakes waiters too, and so does the end of a lease.
	d = s.takes("b")[0]
	w = s.wait()
	s.configure(duly.QueueConfig{MaxLeased: 2})
	w.woke("the limit was raised")
	d = s.takes("c")[0]
	w = s.wait()
	s.Advance(d.LeaseEnd.Sub(s.now()) + time.Millisecond)
	w.woke("a lease has ended")
}

func waitRate(s *scene) {
	s.configure(duly.QueueConfig{Rate: duly.Rate{PerSecond: 0.5, Burst: 1}})
	s.pushAll(duly.Job{ID: "a"}, duly.Job{ID: "b"})
	s.takes("a")
	w := s.wait()
	// A rate of 0.5 per second gives a token every two seconds.
	s.Advance(2*time.Second - time.Millisecond)
	w.sleeps("the rate is used up")
	s.Advance(time.Millisecond)
	w.woke("the rate has room again")
	s.takes("b")
}

package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func statsTests() []test {
	return []test{
		{"SizesFollowTheClock", []string{"C4.56"}, Options{}, statsByClock},
		{"DueJobWithABusyKeyCountsAsBlocked", []string{"C4.61"}, Options{}, statsBlocked},
		{"DueJobBehindAnExpiredHeadCountsAsReady", []string{"C4.56"}, Options{}, statsExpiredHolder},
		{"ExpiredJobsAndLeasesCountUntilTheStep", []string{"C4.61"}, Options{}, statsUntilStep},
		{"OldestReadyCountsFromTheDueTime", []string{"C4.57", "C5.10"}, Options{}, statsOldest},
		{"NextDueIsInTheFuture", []string{"C4.57"}, Options{}, statsNextDue},
		{"EveryCounterIncreases", []string{"C4.58", "C4.59"}, Options{OneShard: true}, statsCounters},
		{"DeletedDoneJobIsNotCountedAgain", []string{"C4.58"}, Options{}, statsDoneDeleted},
		{"SurveyReturnsTheStatsOfManyQueues", []string{"C4.94"}, Options{}, statsSurvey},
		{"SurveyReturnsPauseAndLimits", []string{"C4.99"}, Options{}, statsThrottle},
		{"SurveyIsPaged", []string{"C4.94"}, Options{}, statsSurveyPages},
		{"CountersAddUpAfterEveryOperation", []string{"C4.59"}, Options{}, statsBooks},
	}
}

func statsByClock(s *scene) {
	s.pushAll(duly.Job{}, duly.Job{Delay: time.Minute}, duly.Job{Delay: time.Hour},
		duly.Job{OrderKey: "k", Delay: time.Minute})
	same(s, "sizes", s.stats().Sizes, duly.Sizes{Ready: 1, Delayed: 3})
	s.Advance(time.Minute)
	same(s, "sizes a minute later, without a step", s.stats().Sizes, duly.Sizes{Ready: 3, Delayed: 1})
	// A step must not change the sizes that Stats has computed.
	s.sizes(duly.Sizes{Ready: 3, Delayed: 1})
}

func statsBlocked(s *scene) {
	s.push(duly.Job{ID: "head", OrderKey: "k"})
	s.push(duly.Job{ID: "behind", OrderKey: "k", Delay: time.Minute})
	s.Advance(time.Minute)
	same(s, "sizes without a step", s.stats().Sizes, duly.Sizes{Ready: 1, Blocked: 1})
	// The snoozed job keeps its key.
	s.snooze(s.take(), time.Hour)
	s.Advance(time.Hour)
	same(s, "sizes when the head is due again", s.stats().Sizes, duly.Sizes{Ready: 1, Blocked: 1})
	s.sizes(duly.Sizes{Ready: 1, Blocked: 1})
}

func statsExpiredHolder(s *scene) {
	s.push(duly.Job{ID: "holder", OrderKey: "k", TTL: time.Second})
	s.push(duly.Job{ID: "next", OrderKey: "k", Delay: 1500 * time.Millisecond})
	s.Advance(2 * time.Second)

	// The expired job counts until a step removes it.
	same(s, "sizes without a step", s.stats().Sizes, duly.Sizes{Ready: 2})
	same(s, "the age of the oldest", s.stats().OldestReady, 2*time.Second)
	s.sizes(duly.Sizes{Ready: 1})
}

// statsSurvey surveys queues in various states, some of them empty.
func statsSurvey(s *scene) {
	s.surveyed(10) // an empty namespace

	// There is one queue per state, and one queue whose jobs are all finished.
	s.on("configured").configure(duly.QueueConfig{MaxJobs: 5})
	s.on("due").pushAll(duly.Job{Delay: time.Minute}, duly.Job{Delay: time.Hour}, duly.Job{Priority: 3})
	s.on("held").push(duly.Job{OrderKey: "k"})
	s.on("held").push(duly.Job{OrderKey: "k", Delay: time.Minute})
	s.on("expiring").push(duly.Job{TTL: time.Minute})
	s.on("leased").push(duly.Job{Lease: 2 * time.Minute})
	s.on("leased").take()
	s.on("dead").push(duly.Job{})
	s.on("dead").bury(s.on("dead").take(), "no")
	s.on("kept").push(duly.Job{Retain: time.Hour})
	s.on("kept").ack(s.on("kept").take())
	s.on("worked-off").pushAll(numbered(5, "j")...)
	for range 5 {
		s.on("worked-off").ack(s.on("worked-off").take())
	}

	s.on("destroyed").push(duly.Job{})
	other := s.in("other")
	other.on("due").push(duly.Job{})
	s.surveyed(10)
	s.must("destroy", s.Engine.Destroy(s.ctx, duly.Q("destroyed")))
	// The Advance moves the time from before the due times to after them.
	for range 3 {
		s.Advance(time.Minute)
		s.surveyed(10)
	}
	other.surveyed(10)
	// The queue is created again under the same name.
	s.on("destroyed").push(duly.Job{Delay: time.Hour})
	s.on("due").configure(duly.QueueConfig{MaxLeased: 3})
	s.must("pause", s.Engine.Pause(s.ctx, duly.Q("dead")))
	s.surveyed(3)
}

// statsThrottle surveys paused and limited queues, with and without jobs, before and after each
// change.
func statsThrottle(s *scene) {
	none := contract.Throttle{MaxLeased: duly.None, Rate: duly.Rate{PerSecond: duly.None}}
	want := map[string]contract.Throttle{"idle": none, "busy": none}
	s.on("idle").configure(duly.QueueConfig{MaxJobs: 5})
	s.on("busy").push(duly.Job{})
	throttled := func(when string) {
		s.Helper()
		page, err := contract.SurveyorOf(s.Engine).Survey(s.ctx, s.namespace, duly.PageParams{})
		s.must("survey", err)
		got := map[string]contract.Throttle{}
		for _, q := range page.Queues {
			s.must("survey of "+q.Name, q.Err)
			got[q.Name] = q.Throttle
		}
		same(s, "the throttles "+when, fmt.Sprint(got), fmt.Sprint(want))
	}
	throttled("at first")

	for _, name := range []string{"idle", "busy"} {
		q, held := duly.Q(name), none
		s.must("pause", s.Engine.Pause(s.ctx, q))
		held.Paused = true
		want[name] = held
		throttled("after the pause of " + name)

		s.on(name).configure(duly.QueueConfig{MaxLeased: 7, Rate: duly.Rate{PerSecond: 0.5, Burst: 3}})
		held.MaxLeased, held.Rate = 7, duly.Rate{PerSecond: 0.5, Burst: 3}
		want[name] = held
		throttled("with limits on " + name)

		s.must("resume", s.Engine.Resume(s.ctx, q))
		held.Paused = false
		want[name] = held
		throttled("after the resume of " + name)
	}
}

func statsSurveyPages(s *scene) {
	for i := range 23 {
		q := s.on(fmt.Sprintf("q%02d", i))
		q.configure(duly.QueueConfig{MaxLeased: 100})
		q.pushAll(numbered(i%3, "j")...)
	}
	for _, limit := range []int{1, 7, 22, 23, 24} {
		s.surveyed(limit)
	}

	page, err := contract.SurveyorOf(s.Engine).Survey(s.ctx, "", duly.PageParams{})
	s.must("survey", err)
	same(s, "a page without a limit", len(page.Queues), 23)

	for _, limit := range []int{-1, duly.MaxBatch + 1} {
		_, err := contract.SurveyorOf(s.Engine).Survey(s.ctx, "", duly.PageParams{Limit: limit})
		s.names("a survey with a bad limit", err, duly.CodeInvalid, "limit")
	}
	for _, cursor := range []string{"a/b", strings.Repeat("A", 10_000), "\xff"} {
		// A foreign cursor may also be ignored.
		if _, err := contract.SurveyorOf(s.Engine).Survey(s.ctx, "", duly.PageParams{Cursor: cursor}); err != nil {
			s.names("a survey with a foreign cursor", err, duly.CodeInvalid, "cursor")
		}
	}
}

func statsUntilStep(s *scene) {
	s.push(duly.Job{Lease: time.Second})
	s.take()
	s.push(duly.Job{TTL: time.Second})
	s.Advance(time.Minute)
	// Stats does not apply expiries and lease ends. Only a step does.
	same(s, "sizes without a step", s.stats().Sizes, duly.Sizes{Ready: 1, Leased: 1})
	s.sizes(duly.Sizes{Ready: 1})
	s.counted(duly.Counters{Pushed: 2, Delivered: 1, Stalled: 1, Expired: 1})
}

func statsOldest(s *scene) {
	same(s, "the age in an empty queue", s.stats().OldestReady, 0)
	s.push(duly.Job{Delay: time.Minute})
	same(s, "the age before anything is due", s.stats().OldestReady, 0)
	s.Advance(time.Minute + 5*time.Second)
	same(s, "the age of a job due 5 s ago, without a step", s.stats().OldestReady, 5*time.Second)
	s.step()
	s.push(duly.Job{Priority: 5})
	s.Advance(time.Second)
	same(s, "the age", s.stats().OldestReady, 6*time.Second)

	// After the clock goes back, the age must not become negative.
	s.Clock.Step(-time.Hour)
	if age := s.stats().OldestReady; age < 0 {
		s.Errorf("the age of the oldest ready job is %s after the clock stepped back, want 0 or more", age)
	}
	s.Clock.Step(time.Hour)
	s.takeAll()
	same(s, "the age when everything is leased", s.stats().OldestReady, 0)
}

func statsNextDue(s *scene) {
	sameTime(s, "the next due of an empty queue", s.stats().NextDue, time.Time{})
	start := s.now()
	s.pushAll(duly.Job{}, duly.Job{Delay: 2 * time.Minute}, duly.Job{Delay: time.Minute})
	sameTime(s, "the next due", s.stats().NextDue, start.Add(time.Minute))
	s.Advance(90 * time.Second)
	// Without a step both jobs are still stored as delayed, but one is due.
	sameTime(s, "the next due, without a step", s.stats().NextDue, start.Add(2*time.Minute))
	s.Advance(time.Hour)
	sameTime(s, "the next due when everything is due", s.stats().NextDue, time.Time{})
}

func statsCounters(s *scene) {
	// Each job ends in a different way. The deletes and the merge come later.
	s.configure(duly.QueueConfig{DeadCount: 1})
	key := duly.Merge{Key: "m"}
	s.pushAll(duly.Job{ID: "acked"}, duly.Job{ID: "failed", Backoff: "fixed:1h"}, duly.Job{ID: "released"},
		duly.Job{ID: "dead"},
		duly.Job{ID: "dead2"}, duly.Job{ID: "stalled", Lease: time.Second})
	ds := s.reserve(6)

	s.pushAll(duly.Job{ID: "deleted"}, duly.Job{ID: "purged", Delay: time.Hour}, duly.Job{ID: "expired", TTL: time.Second},
		duly.Job{ID: "merged", Delay: time.Hour, Merge: key})
	s.merges(duly.Job{Merge: key}, "merged")
	s.ack(ds[0])
	s.nack(ds[1], "no")
	s.snooze(ds[2], 2*time.Hour)
	s.bury(ds[3], "no")
	s.Advance(time.Millisecond)
	// The limit of one dead job drops the first one.
	s.bury(ds[4], "no")
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "deleted"))
	s.Advance(2 * time.Second)
	s.step()
	s.requeue("dead2")

	want := duly.Counters{Pushed: 11, Merged: 1, Delivered: 6, Acked: 1, Failed: 1, Stalled: 1, Released: 1, Dead: 2,
		Requeued: 1,
		Expired:  1, Deleted: 1, Dropped: 1}
	s.counted(want)
	s.purged(duly.StateDelayed, 4) // the jobs failed, released, purged and merged
	want.Deleted += 4
	s.counted(want)
	s.sizes(duly.Sizes{Ready: 2})
}

func statsDoneDeleted(s *scene) {
	s.pushAll(duly.Job{ID: "a", Retain: time.Hour}, duly.Job{ID: "b", Retain: time.Hour})
	for _, d := range s.reserve(2) {
		s.ack(d)
	}
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "a"))
	s.purged(duly.StateDone, 1)
	// Both jobs were counted as acked, so their removal counts nothing.
	s.counted(duly.Counters{Pushed: 2, Delivered: 2, Acked: 2})
	s.sizes(duly.Sizes{})
}

// statsBooks checks the counters after each of these operations.
func statsBooks(s *scene) {
	key := duly.Merge{Key: "m", Mode: duly.MergeReplace}
	moves := []func(){
		func() {
			s.push(duly.Job{ID: "a", Merge: key, TTL: time.Hour, Tries: 2, Backoff: "fixed:1s", Retain: time.Minute})
		},
		func() {
			s.merges(duly.Job{Merge: key, TTL: time.Hour, Tries: 2, Backoff: "fixed:1s", Retain: time.Minute}, "a")
		},
		func() {
			s.push(duly.Job{ID: "b", OrderKey: "k"})
			s.push(duly.Job{ID: "c", OrderKey: "k", Delay: time.Second})
		},
		func() { s.nack(s.take(), "no") },
		func() { s.Advance(2 * time.Second) },
		func() { s.step() },
		func() { s.takeAll() },
		func() { s.Advance(time.Minute) },
		func() { s.step() },
		func() { s.bury(s.take(), "no") },
		func() {
			_, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{N: 5, TTL: time.Minute})
			s.must("requeue", err)
		},
		func() { s.Advance(2 * time.Minute) },
		func() { s.step() },
		func() {
			for _, d := range s.takeAll() {
				s.ack(d)
			}
		},
		func() { s.takeAll() },
	}
	for _, move := range moves {
		move()
		s.conserved()
	}
}

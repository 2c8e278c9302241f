package redisengine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/internal/wait"
)

// shard returns the only shard of the sleeper's queue.
func (s *sleeper) shard() *catalog.Shard {
	return s.e.catalog.Cache.Get(duly.Q("q").Normal()).Shards[0]
}

// TestDueTimerSurvivesAChangeByOthers checks that a job becomes due on time in a queue whose
// configuration another process has changed. The process that takes the marker sets its timer
// under any configuration.
//
// C5.15, C10.15
func TestDueTimerSurvivesAChangeByOthers(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	other := s.engine()
	woken, leave := s.wait(s.e)
	defer leave()
	s.must(other.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Defaults: duly.Defaults{Tries: 3}}))
	_, err := other.Push(t.Context(), []duly.Job{{Queue: "q", Delay: time.Second}})
	s.must(err)
	s.e.Quiet()
	s.clock.Advance(time.Second - time.Millisecond)
	s.asleep(woken, "the job is not due for a millisecond more")
	s.clock.Advance(time.Millisecond)
	s.awake(woken, "the job is due")
}

// TestEarlierDueTimerStays checks two concurrent looks that find different due times. The timer for
// the earlier time stays, even if the look with the later time finishes last.
func TestEarlierDueTimerStays(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	woken, leave := s.wait(s.e)
	defer leave()
	shard := s.shard()
	s.push(duly.Job{Delay: time.Second})
	s.e.Quiet()
	now := clock.Milli(s.clock.Now())
	s.e.hub.SetDueTimer(shard, now+5000, s.clock.Mono()+5*time.Second)
	s.clock.Advance(time.Second)
	s.awake(woken, "the job is due")
}

// TestDueTimerCountsTheTimeOfItsLook checks that the time between a look and the start of its
// timer is not waited for twice.
func TestDueTimerCountsTheTimeOfItsLook(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	woken, leave := s.wait(s.e)
	defer leave()
	shard := s.shard()
	s.push(duly.Job{Delay: time.Second})
	s.e.Quiet()
	// This makes the state equal to that of a look in flight.
	s.e.hub.Probe().ForgetDueTimer(shard)
	r := store.Reading{Now: s.clock.Now().UnixMicro(), Sent: s.clock.Mono(), Received: s.clock.Mono()}
	at := r.Milli() + 1000
	fires := s.e.store.Until(at, r)
	s.clock.Advance(time.Second - time.Millisecond)
	s.e.hub.SetDueTimer(shard, at, fires)
	s.clock.Advance(time.Millisecond)
	s.awake(woken, "the job is due")
}

// TestEarlyDueTimerIsHandedOn checks a timer that fires early by the server's clock, because a
// reply was in flight for a long time. If this process has no waiter any more, it hands the timer
// over to another process, which looks again at the due time.
func TestEarlyDueTimerIsHandedOn(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	other := s.engine()
	_, leave := s.wait(s.e)
	shard := s.shard()
	s.push(duly.Job{Delay: time.Second})
	s.e.Quiet()
	at := clock.Milli(s.clock.Now()) + 1000
	leave()
	_, leave = s.wait(other)
	s.e.hub.SetDueTimer(shard, at, s.clock.Mono()+999*time.Millisecond)
	s.clock.Advance(999 * time.Millisecond)
	s.e.Quiet()
	other.Quiet()
	if got, err := other.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1}); err != nil ||
		len(got) > 0 {
		t.Fatalf("a millisecond too early Reserve returned %d jobs, %v", len(got), err)
	}
	leave()
	woken, leave := s.wait(other)
	defer leave()
	s.clock.Advance(time.Millisecond)
	s.awake(woken, "the job is due")
}

// TestAnnouncedDueTimeIsKept checks that a process keeps its timer for an announced time, although
// the job that was due at that time is gone. The reason: no script announces a later time until
// that time has passed.
func TestAnnouncedDueTimeIsKept(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	id := s.push(duly.Job{Delay: time.Second})[0]
	delay := time.Hour
	s.must(s.e.Update(t.Context(), duly.Q("q"), id, duly.Update{Delay: &delay}))
	woken, leave := s.wait(s.e)
	defer leave()
	s.push(duly.Job{Delay: 1500 * time.Millisecond})
	s.e.Quiet()
	s.clock.Advance(time.Second)
	s.asleep(woken, "nothing is due")
	s.clock.Advance(500 * time.Millisecond)
	s.awake(woken, "the second job is due")
}

// TestReturnedMarkerKeepsABetterOne checks that a process that returns a marker does not replace a
// marker with more jobs or an earlier time.
func TestReturnedMarkerKeepsABetterOne(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	s.push(duly.Job{Delay: time.Second}, duly.Job{Delay: time.Second})
	s.push(duly.Job{}, duly.Job{}, duly.Job{})
	shard := s.shard()
	now := clock.Milli(s.clock.Now())
	s.e.hub.PutMarker(shard, "now", 1)
	s.e.hub.PutMarker(shard, "later", now+2000)
	if got, want := s.marker(), "now 3, later 1"; got != want {
		t.Errorf("the marker is %q, want %q", got, want)
	}
	s.e.hub.PutMarker(shard, "now", 4)
	s.e.hub.PutMarker(shard, "later", now+500)
	if got, want := s.marker(), "now 4, later 0.5"; got != want {
		t.Errorf("the marker is %q, want %q", got, want)
	}
}

// TestDestroyedQueueLeavesNoMarker checks that a process with a queue's due timer sets no marker
// after the queue was destroyed. The marker would stay forever.
//
// C4.71
func TestDestroyedQueueLeavesNoMarker(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		for name, end := range map[string]func(s *sleeper){
			"close":  func(s *sleeper) { s.must(s.e.Close()) },
			"moment": func(s *sleeper) { s.clock.Advance(time.Minute); s.e.Quiet() },
		} {
			t.Run(fmt.Sprintf("%s, destroyed by the same process %v", name, own), func(t *testing.T) {
				t.Parallel()
				s := newSleeper(t)
				destroyer := s.e
				if !own {
					destroyer = s.engine()
				}
				_, leave := s.wait(s.e)
				s.push(duly.Job{Delay: time.Minute})
				// The process has the timer now.
				s.e.Quiet()

				s.must(destroyer.Destroy(t.Context(), duly.Q("q")))
				leave()
				end(s)

				if got := s.marker(); got != "" {
					t.Errorf("the marker is %q, want none", got)
				}
			})
		}
	}
}

// TestMarkerAnnouncesJobsBeyondAStep checks that each Reserve announces due jobs that exceed the
// limit of one step, even if it takes all jobs that the step has made ready.
//
// C11.19
func TestMarkerAnnouncesJobsBeyondAStep(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	for range 3 {
		s.push(jobsIn(900, time.Minute)...)
	}
	s.clock.Advance(time.Minute)
	for _, want := range []string{"now 1000, later 60", "now 700, later 60", "later 60"} {
		if ds := s.reserve(1000); len(ds) == 0 {
			t.Fatal("Reserve returned no jobs")
		}
		if got := s.marker(); got != want {
			t.Errorf("the marker is %q, want %q", got, want)
		}
	}
}

func jobsIn(n int, delay time.Duration) []duly.Job {
	jobs := make([]duly.Job, n)
	for i := range jobs {
		jobs[i].Delay = delay
	}
	return jobs
}

// TestAnotherWaiterReplacesAWokenOne checks that another waiter gets the job if the woken one does
// not reserve in time from its own process.
//
// C5.16
func TestAnotherWaiterReplacesAWokenOne(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	first, leave := s.wait(s.e)
	defer leave()
	second, leave := s.wait(s.e)
	defer leave()
	s.push(duly.Job{})
	s.awake(first, "a job is ready")
	s.asleep(second, "the first is on his way")
	s.clock.Advance(wait.WakeupLife)
	s.awake(second, "the first does not come")

	// The woken waiter does not delay the next job if its own is gone.
	_, err := s.e.Purge(t.Context(), duly.Q("q"), duly.StateReady, 0)
	s.must(err)
	third, leave := s.wait(s.e)
	defer leave()
	s.push(duly.Job{})
	s.e.Quiet()
	s.clock.Advance(wait.WakeupLife)
	s.awake(third, "a job is ready")
	s.e.Quiet()
	if s.reserve(1); s.marker() != "later 60" {
		t.Errorf("the marker is %q", s.marker())
	}
	s.clock.Advance(wait.WakeupLife)
	s.e.Quiet()
	if s.e.hub.Probe().Outstanding(duly.Q("q").Normal()) {
		t.Error("a wake-up is still outstanding")
	}
}

// TestCanceledReservePassesTheWakeUpOn checks that a caller which leaves before its Reserve, and
// a process which ends before, leave the job to the next waiter at once.
//
// C11.19
func TestCanceledReservePassesTheWakeUpOn(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	first, leave := s.wait(s.e)
	defer leave()
	second, leave := s.wait(s.e)
	defer leave()
	s.push(duly.Job{})
	s.awake(first, "a job is ready")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.e.Reserve(gone, duly.ReserveParams{Queues: []string{"none", "q"}, Max: 1}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a Reserve with an ended context returned %v", err)
	}
	s.awake(second, "the first has gone")

	_, err := s.e.Purge(t.Context(), duly.Q("q"), duly.StateReady, 0)
	s.must(err)
	third, leave := s.wait(s.engine())
	defer leave()
	// The second waiter was woken for this job, and no other marker announces the job.
	s.lose(0)
	s.must(s.e.Close())
	s.awake(third, "the process of the second has ended")
}

// TestWaiterNoticesANewlyReadQueue checks that a waiter wakes as soon as this process reads that
// its queue exists.
func TestWaiterNoticesANewlyReadQueue(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	s.e.catalog.Cache.Forget(s.e.catalog.Cache.Get(duly.Q("q").Normal()))
	w, _ := s.e.hub.Enter([]wait.Door{{Ref: duly.Q("q").Normal()}})
	s.push(duly.Job{})
	w.Wait(t.Context(), clock.System(), 10*time.Second)
	if !s.e.hub.Leave(w) {
		t.Error("the waiter slept although a job was ready")
	}
}

// TestDueTimeOfAStaleShardIsKept checks the case that a process dies after it changed a
// configuration in the list, but before it changed the shard. A job of the shard becomes due on
// time, because the process with the timer updates the shard.
func TestDueTimeOfAStaleShardIsKept(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	old := s.engine()
	// Stats puts the queue's configuration in the cache
	if _, err := old.Stats(t.Context(), duly.Q("q")); err != nil {
		t.Fatal(err)
	}
	key := s.shard().Name("config")
	before := s.server.Must("GET", key)
	s.must(s.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{MaxLeased: 7}))
	woken, leave := s.wait(s.e)
	defer leave()
	s.server.Must("SET", key, before)
	if _, err := old.Push(t.Context(), []duly.Job{{Queue: "q", Delay: 100 * time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	s.e.Quiet()
	// The look comes later.
	s.clock.Advance(100 * time.Millisecond)
	s.awake(woken, "the job is due")
}

// TestTimerFiresAtTheServersTime checks that a timer fires after the server's clock has reached the
// due time, by less than a millisecond. The server may have read its clock at any time between
// request and reply, and a slow reply does not delay the timer.
func TestTimerFiresAtTheServersTime(t *testing.T) {
	t.Parallel()
	e := &Engine{store: &store.Store{}}
	asked := e.store.Local().Mono()
	for _, c := range []struct{ took, want time.Duration }{
		{0, 600 * time.Microsecond},
		{200 * time.Microsecond, 800 * time.Microsecond},
		{300 * time.Millisecond, 1600 * time.Microsecond},
	} {
		fires := e.store.Until(5_001, store.Reading{Now: 5_000_400, Sent: asked, Received: asked + c.took})
		if got := fires - asked; got != c.want {
			t.Errorf("after a reply that took %v the timer fires %v after the request, want %v", c.took, got, c.want)
		}
	}
}

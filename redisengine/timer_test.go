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

// shard is the one that the sleeper's queue has.
func (s *sleeper) shard() *catalog.Shard {
	return s.e.catalog.Cache.Get(duly.Q("q").Normal()).Shards[0]
}

// A job that is due in a queue whose configuration another process has changed
// meanwhile is not slept through: who takes the marker keeps its moment whatever
// the configuration is.
//
// C5.15, C10.15
func TestTheMomentIsKeptThroughAChangeByOthers(t *testing.T) {
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

// Of two looks that were on their way at once the one that saw a later moment
// may come last: the sooner moment stands.
func TestTheSoonerMomentStands(t *testing.T) {
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

// What passes between a look and the timer that follows from it is not waited
// for again.
func TestAMomentIsNoLaterThanItsLookSaid(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	woken, leave := s.wait(s.e)
	defer leave()
	shard := s.shard()
	s.push(duly.Job{Delay: time.Second})
	s.e.Quiet()
	s.e.hub.Probe().ForgetDueTimer(shard) // as if its look were still on its way
	r := store.Reading{Now: s.clock.Now().UnixMicro(), Sent: s.clock.Mono(), Received: s.clock.Mono()}
	at := r.Milli() + 1000
	fires := s.e.store.Until(at, r)
	s.clock.Advance(time.Second - time.Millisecond)
	s.e.hub.SetDueTimer(shard, at, fires)
	s.clock.Advance(time.Millisecond)
	s.awake(woken, "the job is due")
}

// A timer may fire before its moment by the server's clock, by what a reply took
// on its way. Where nobody waits any more by then, another process keeps the
// moment, and does not look too early for the last time.
func TestAMomentThatCameEarlyIsHandedOn(t *testing.T) {
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
	if got, err := other.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1}); err != nil || len(got) > 0 {
		t.Fatalf("a millisecond too early %d jobs come, %v", len(got), err)
	}
	leave()
	woken, leave := s.wait(other)
	defer leave()
	s.clock.Advance(time.Millisecond)
	s.awake(woken, "the job is due")
}

// A moment that was told is kept although nothing is due then any more: no
// script tells of a later one before it has passed.
func TestTheMomentThatWasToldIsKept(t *testing.T) {
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

// A marker that is put back leaves one that says more, or sooner.
func TestAMarkerThatComesBackHidesNone(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	s.push(duly.Job{Delay: time.Second}, duly.Job{Delay: time.Second})
	s.push(duly.Job{}, duly.Job{}, duly.Job{})
	shard := s.shard()
	now := clock.Milli(s.clock.Now())
	s.e.hub.PutMarker(shard, "now", 1)
	s.e.hub.PutMarker(shard, "later", now+2000)
	if got, want := s.marker(), "now 3, later 1"; got != want {
		t.Errorf("the marker says %q, want %q", got, want)
	}
	s.e.hub.PutMarker(shard, "now", 4)
	s.e.hub.PutMarker(shard, "later", now+500)
	if got, want := s.marker(), "now 4, later 0.5"; got != want {
		t.Errorf("the marker says %q, want %q", got, want)
	}
}

// A process that keeps the moment of a queue hands it to nobody once the queue is
// destroyed: the marker would stay for good.
//
// C4.71
func TestADestroyedQueueLeavesNoMarker(t *testing.T) {
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
				s.e.Quiet() // it keeps the moment

				s.must(destroyer.Destroy(t.Context(), duly.Q("q")))
				leave()
				end(s)

				if got := s.marker(); got != "" {
					t.Errorf("the marker says %q", got)
				}
			})
		}
	}
}

// What is due beyond the bound of one step is told of by each Reserve, also by
// the one that takes all that the step has made ready.
//
// C11.19
func TestMarkerSaysWhatIsDueBeyondAStep(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	for range 3 {
		s.push(jobsIn(900, time.Minute)...)
	}
	s.clock.Advance(time.Minute)
	for _, want := range []string{"now 1000, later 60", "now 700, later 60", "later 60"} {
		if ds := s.reserve(1000); len(ds) == 0 {
			t.Fatal("nothing was taken")
		}
		if got := s.marker(); got != want {
			t.Errorf("the marker says %q, want %q", got, want)
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

// Whoever was woken and does not come in time does not keep the next one from
// the job: he reserves from another process, or never.
//
// C5.16
func TestWhoIsWokenAndDoesNotComeIsReplaced(t *testing.T) {
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

	// And keeps nobody from the next job where the one that he was woken for
	// has gone.
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
		t.Errorf("the marker says %q", s.marker())
	}
	s.clock.Advance(wait.WakeupLife)
	s.e.Quiet()
	if s.e.hub.Probe().Outstanding(duly.Q("q").Normal()) {
		t.Error("a wake-up is still outstanding")
	}
}

// GhostBlockedClient: a caller who goes before he has reserved, and a process
// that ends before that, leave the job to the next one at once.
//
// C11.19
func TestWhoGoesBeforeHisReservePassesItOn(t *testing.T) {
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
	if _, err := s.e.Reserve(gone, duly.ReserveParams{Queues: []string{"none", "q"}, Max: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a Reserve of one who has gone is answered %v", err)
	}
	s.awake(second, "the first has gone")

	_, err := s.e.Purge(t.Context(), duly.Q("q"), duly.StateReady, 0)
	s.must(err)
	third, leave := s.wait(s.engine())
	defer leave()
	s.lose(0) // a job that the second was woken for: no other marker tells of it
	s.must(s.e.Close())
	s.awake(third, "the process of the second has ended")
}

// Who waits hears of a queue as soon as this process reads that it is there.
func TestAWaiterHearsOfAQueueThatIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	s.e.catalog.Cache.Forget(s.e.catalog.Cache.Get(duly.Q("q").Normal()))
	w, _ := s.e.hub.Enter([]wait.Door{{Ref: duly.Q("q").Normal()}})
	s.push(duly.Job{})
	w.Wait(t.Context(), clock.System(), 10*time.Second)
	if !s.e.hub.Leave(w) {
		t.Error("slept on a job that was ready")
	}
}

// Whoever changed a configuration has died before the shard had it. A moment
// that falls due there meanwhile is not forgotten: who keeps it tells the shard.
func TestAMomentOfAShardThatIsBehindIsKept(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	old := s.engine()
	if _, err := old.Stats(t.Context(), duly.Q("q")); err != nil { // it knows the queue
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
	s.clock.Advance(100 * time.Millisecond) // the look comes later
	s.awake(woken, "the job is due")
}

// A timer fires when the server's clock has reached its moment wherever between
// question and answer that clock was read, and no whole millisecond later; but
// an answer that is slow does not put it off.
func TestATimerFiresAsCloseAsTheAnswerTells(t *testing.T) {
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
			t.Errorf("after an answer that took %v the timer fires %v after the question, want %v", c.took, got, c.want)
		}
	}
}

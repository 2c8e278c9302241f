package redisengine

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// sleeper is an engine on a private server with a clock that does not advance, so waiters never
// poll.
type sleeper struct {
	*testing.T
	server *redistest.Server
	clock  *clock.Fake
	e      *Engine
}

func newSleeper(t *testing.T) *sleeper {
	s := &sleeper{T: t, server: redistest.Single(t), clock: clock.NewFake()}
	s.e = s.engine()
	s.must(s.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{}))
	return s
}

// engine opens another process on the same server.
func (s *sleeper) engine() *Engine { return openOn(s.T, s.server.URL(), s.clock) }

func (s *sleeper) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *sleeper) push(jobs ...duly.Job) (ids []string) {
	s.Helper()
	for i := range jobs {
		jobs[i].Queue = "q"
	}
	results, err := s.e.Push(s.Context(), jobs)
	s.must(err)
	for _, r := range results {
		s.must(r.Err)
		ids = append(ids, r.ID)
	}
	return ids
}

func (s *sleeper) reserve(n int) []duly.Delivery {
	s.Helper()
	ds, err := s.e.Reserve(s.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: n, Lease: time.Minute})
	s.must(err)
	return ds
}

func (s *sleeper) settle(d duly.Delivery, as duly.Settlement) {
	s.Helper()
	delay := time.Duration(0)
	o := duly.SettleRequest{Receipt: d.Receipt, As: as}
	if as == duly.Nack {
		o.Delay = &delay
	}
	errs, err := s.e.Settle(s.Context(), "", []duly.SettleRequest{o})
	s.must(err)
	s.must(errs[0])
}

// marker returns the queue's marker: jobs, and seconds ahead.
func (s *sleeper) marker() string {
	s.Helper()
	var text []string
	list := s.server.Must("ZRANGE", "duly:{default/q/0}:marker", 0, -1, "WITHSCORES").([]any)
	for ; len(list) > 1; list = list[2:] {
		member := fmt.Sprint(list[0])
		var score float64
		fmt.Sscan(fmt.Sprint(list[1]), &score)
		if member == "later" {
			score = (score - float64(clock.Milli(s.clock.Now()))) / 1000
		}
		text = append(text, fmt.Sprintf("%s %v", member, score))
	}
	return strings.Join(text, ", ")
}

// TestMarkerMatchesTheDeliverableJobs checks that every script that leaves deliverable jobs, or
// makes the next due time earlier, sets the marker in the same step (C11.19). Jobs held back by a
// pause or a limit don't count. The test has no waiters, so nothing takes the marker.
func TestMarkerMatchesTheDeliverableJobs(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	ctx, q := t.Context(), duly.Q("q")
	var ids []string
	var ds []duly.Delivery
	steps := []struct {
		what string
		do   func()
		want string
	}{
		{"an empty queue", func() {}, ""},
		{"push, due later", func() { ids = s.push(duly.Job{Delay: 90 * time.Second}) }, "later 90"},
		{"push, due sooner", func() { s.push(duly.Job{Delay: 80 * time.Second}) }, "later 80"},
		{"update, due sooner still", func() {
			d := 70 * time.Second
			s.must(s.e.Update(ctx, q, ids[0],
				duly.Update{Delay: &d}))
		}, "later 70"},
		{"promote", func() { s.must(s.e.Promote(ctx, q, ids[0])) }, "now 1, later 70"},
		{"push of three plain jobs", func() { s.push(duly.Job{}, duly.Job{}, duly.Job{}) }, "now 4, later 70"},
		{"push of others", func() { s.push(duly.Job{Priority: 1}, duly.Job{Priority: 2}) }, "now 6, later 70"},
		{"reserve, with what it leaves", func() { ds = s.reserve(2) }, "now 4, later 60"},
		{"settle: a nack due now", func() { s.settle(ds[0], duly.Nack) }, "now 5, later 60"},
		{"pause", func() { s.must(s.e.Pause(ctx, q)) }, ""},
		{"push into a paused queue", func() { s.push(duly.Job{}) }, ""},
		{"resume", func() { s.must(s.e.Resume(ctx, q)) }, "now 6, later 60"},
		{"configure: a limit with room for one more", func() {
			s.must(s.e.Configure(ctx, q,
				duly.QueueConfig{MaxLeased: 2}))
		}, "now 1, later 60"},
		{"reserve up to the limit", func() { ds = append(ds, s.reserve(9)...) }, "later 60"},
		{"push beyond the limit", func() { s.push(duly.Job{}) }, "later 60"},
		{"settle makes room", func() { s.settle(ds[1], duly.Bury) }, "now 1, later 60"},
		{"configure: no limit", func() { s.must(s.e.Configure(ctx, q, duly.QueueConfig{MaxLeased: duly.None})) },
			"now 6, later 60"},
		{"purge", func() { _, err := s.e.Purge(ctx, q, duly.StateReady, 4); s.must(err) }, "now 2, later 60"},
		{"requeue", func() { _, err := s.e.Requeue(ctx, q, duly.RequeueParams{N: 1}); s.must(err) }, "now 3, later 60"},
		{"delete of a ready job", func() {
			page, err := s.e.List(ctx, q, duly.ListParams{State: duly.StateReady})
			s.must(err)
			s.must(s.e.Delete(ctx, q, page.Jobs[0].ID))
		}, "now 2, later 60"},
		{"reserve of all jobs", func() { s.reserve(9) }, "later 60"},
		{"step, when leases have run out and one has fallen due", func() {
			s.clock.Advance(81 * time.Second)
			_, err := s.e.Step(ctx, q)
			s.must(err)
		}, "now 4, later -21"}, // no process has taken the second marker
	}
	for _, step := range steps {
		step.do()
		if got := s.marker(); got != step.want {
			t.Fatalf("%s: the marker is %q, want %q", step.what, got, step.want)
		}
	}
}

// TestMarkerNamesTheOpeningOfTheRate checks that the marker of a queue with a used-up rate has no
// jobs, but the time of the next delivery (C11.19, C10.12).
func TestMarkerNamesTheOpeningOfTheRate(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	s.must(s.e.Configure(t.Context(), duly.Q("q"), duly.QueueConfig{Rate: duly.Rate{PerSecond: 1, Burst: 2}}))
	s.push(duly.Job{}, duly.Job{}, duly.Job{}, duly.Job{}, duly.Job{}, duly.Job{Delay: 90 * time.Second})

	if ds := s.reserve(9); len(ds) != 2 {
		t.Fatalf("%d jobs were reserved, want 2", len(ds))
	}
	if got := s.marker(); got != "later 1" {
		t.Errorf("the marker is %q, want the opening in 1 s", got)
	}
}

// TestMarkerNamesTheEndOfTheJobsLease checks that the marker has the end of a lease that the job
// sets, and the earlier end after an Extend (C5.13, C11.19).
func TestMarkerNamesTheEndOfTheJobsLease(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	s.push(duly.Job{Lease: 10 * time.Second})
	ds, err := s.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	s.must(err)
	if len(ds) != 1 || s.marker() != "later 10" {
		t.Fatalf("%d jobs were reserved, the marker is %q, want the end in 10 s", len(ds), s.marker())
	}

	waiting := s.engine() // a second process
	waiting.WithoutLook()
	woken, leave := s.wait(waiting)
	defer leave()
	_, err = s.e.Extend(t.Context(), "", []duly.Receipt{ds[0].Receipt}, 3*time.Second)
	s.must(err)
	waiting.Quiet()
	s.clock.Advance(3*time.Second - time.Millisecond)
	waiting.Quiet()
	s.asleep(woken, "the lease has one millisecond left")
	s.clock.Advance(time.Millisecond)
	s.awake(woken, "the lease has run out")
}

// wait starts to wait on an engine, and returns when the engine is quiet.
func (s *sleeper) wait(e *Engine) (woken chan bool, leave context.CancelFunc) {
	ctx, leave := context.WithCancel(s.Context())
	woken = make(chan bool, 1)
	began := make(chan struct{})
	go func() {
		close(began)
		ready, err := e.Wait(ctx, duly.WaitParams{Queues: []string{"q"}, Timeout: duly.MaxWait})
		woken <- ready && err == nil
	}()
	<-began
	redistest.Await(s, "it waits", func() bool {
		return e.hub.Probe().Waiters(true) > 0
	})
	e.Quiet()
	return woken, leave
}

func (s *sleeper) asleep(woken chan bool, why string) {
	s.Helper()
	s.e.Quiet()
	select {
	case <-woken:
		s.Fatalf("the waiter was woken although %s", why)
	default:
	}
}

func (s *sleeper) awake(woken chan bool, why string) {
	s.Helper()
	timeout := time.NewTimer(20 * time.Second)
	defer timeout.Stop()
	select {
	case ready := <-woken:
		if !ready {
			s.Fatalf("Wait returned false although %s", why)
		}
	case <-timeout.C:
		s.Fatalf("the waiter was not woken although %s", why)
	}
}

// TestProcessWithTheMarkerUsesADueTimer checks that the process which takes the marker uses a timer (C5.15).
// It wakes at that millisecond, long before the blocking call ends, and before the next look.
func TestProcessWithTheMarkerUsesADueTimer(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	woken, leave := s.wait(s.e)
	defer leave()
	s.push(duly.Job{Delay: time.Second})
	s.e.Quiet()
	if got := s.marker(); got != "" {
		t.Fatalf("the marker is %q: no process has taken it", got)
	}
	s.clock.Advance(time.Second - time.Millisecond)
	s.asleep(woken, "the job is not due for a millisecond more")
	s.clock.Advance(time.Millisecond)
	s.awake(woken, "the job is due")
}

// TestMarkersAreReturned checks that a process which has taken a marker and leaves without a
// Reserve returns it (C11.19).
func TestMarkersAreReturned(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	keeper := s.engine()
	_, leave := s.wait(keeper)
	s.push(duly.Job{Delay: time.Minute})
	keeper.Quiet()
	if got := s.marker(); got != "" {
		t.Fatalf("the marker is %q: no process has taken it", got)
	}
	leave()
	keeper.Close()
	if got := s.marker(); got != "later 60" {
		t.Errorf("the process with the timer has ended, and the marker is %q", got)
	}

	woken, _ := s.wait(s.e)
	s.clock.Advance(time.Minute)
	s.awake(woken, "the job is due, and this process keeps the moment now")
	if ds := s.reserve(1); len(ds) != 1 {
		t.Errorf("reserved %d jobs", len(ds))
	}
}

// TestLostWakeUpCostsTwoSeconds checks that a lost wake-up, and a process that dies with a due
// timer, cost two seconds (C5.17).
func TestLostWakeUpCostsTwoSeconds(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	for lost, delay := range map[string]time.Duration{"the wake-up": 0, "the due timer": time.Second} {
		woken, leave := s.wait(s.e)
		s.lose(delay)
		s.clock.Advance(2*time.Second - time.Millisecond)
		s.asleep(woken, lost+" was lost and two seconds are not over")
		s.clock.Advance(time.Millisecond)
		s.awake(woken, lost+" was lost two seconds ago")
		leave()
		s.reserve(1)
	}
}

// lose stores a job without a marker in one step, so that no process is notified of it.
func (s *sleeper) lose(delay time.Duration) {
	s.Helper()
	now, n := clock.Milli(s.clock.Now()), duly.NewNumber()
	number, due, set := string(n[:]), now+delay.Milliseconds(), "ready"
	if delay > 0 {
		set = "delayed"
	}
	conn, err := s.server.Dial(s.Context())
	s.must(err)
	defer conn.Close()
	shard := "duly:{default/q/0}:"
	for _, command := range [][]any{
		{"MULTI"},
		{"HSET", shard + "records", number, rawRecord(now, due)},
		{"ZADD", shard + set, due, number},
		{"HINCRBY", shard + "tally", "pushed", 1},
		{"EXEC"},
	} {
		_, err := conn.Do(s.Context(), command...)
		s.must(err)
	}
}

// TestWaitersOfAProcessShareOneLook checks that two hundred waiters for sixty queues send one look every
// two seconds (C5.17).
func TestWaitersOfAProcessShareOneLook(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("q%d", i))
		s.must(s.e.Configure(t.Context(), duly.Q(names[i]), duly.QueueConfig{}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range 200 {
		go s.e.Wait(ctx, duly.WaitParams{Queues: names[i%60 : i%60+1], Timeout: duly.MaxWait})
	}
	redistest.Await(t, "all wait", func() bool {
		return s.e.hub.Probe().Waiters(true) == 200
	})
	s.e.Quiet()
	const looks = 7
	s.server.Must("CONFIG", "RESETSTAT")
	for range looks {
		s.clock.Advance(2 * time.Second)
		s.e.hub.Probe().Idle()
	}
	sent := map[string]bool{}
	for line := range strings.Lines(fmt.Sprint(s.server.Must("INFO", "commandstats"))) {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":")
		sent[name] = true
		if strings.HasPrefix(line, "cmdstat_fcall") && !strings.HasPrefix(line,
			fmt.Sprintf("cmdstat_fcall_ro:calls=%d,", looks)) {
			t.Errorf("%d looks at 60 queues made the calls %s", looks, strings.TrimSpace(line))
		}
	}
	// Expected are the calls of the look, the blocking call, and the client library's ping of a
	// connection that was silent for ten seconds.
	for _, known := range []string{"# Commandstats", "fcall_ro", "bzpopmin", "ping", "config|resetstat", "getrange",
		"exists", "hget", "hmget"} {
		delete(sent, known)
	}
	for name := range sent {
		t.Errorf("the process sends %s as well", name)
	}
}

// TestWaitAfterAnEmptyReserveNeedsNoLook checks that a new waiter looks at its queues first. Only
// the first waiter directly after a Reserve that left no job does not look, because a job that was
// pushed in between has set the marker.
func TestWaitAfterAnEmptyReserveNeedsNoLook(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	looks := func(f func()) int {
		s.server.Must("CONFIG", "RESETSTAT")
		f()
		for line := range strings.Lines(fmt.Sprint(s.server.Must("INFO", "commandstats"))) {
			var n int
			if _, err := fmt.Sscanf(line, "cmdstat_fcall_ro:calls=%d", &n); err == nil {
				return n
			}
		}
		return 0
	}
	wait := func() {
		woken, leave := s.wait(s.e)
		leave()
		<-woken
	}
	s.reserve(1)
	if n := looks(wait); n != 0 {
		t.Errorf("got %d looks after a Reserve that left no job", n)
	}
	if n := looks(wait); n != 1 {
		t.Errorf("got %d looks without a Reserve since the last wait, want 1", n)
	}
	s.reserve(1)
	s.clock.Advance(store.Recheck)
	// A look for the earlier waiters may still be in flight.
	s.e.Quiet()
	if n := looks(wait); n != 1 {
		t.Errorf("got %d looks two seconds after the Reserve, want 1", n)
	}
	s.push(duly.Job{}, duly.Job{})
	s.reserve(1)
	if n := looks(func() {
		ready, err := s.e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: duly.MaxWait})
		if !ready || err != nil {
			t.Error(ready, err)
		}
	}); n != 1 {
		t.Errorf("got %d looks after a Reserve that left a job, want 1", n)
	}
	s.reserve(2)
	other := s.engine()
	if _, err := other.Push(t.Context(), []duly.Job{{Queue: "q"}}); err != nil {
		t.Fatal(err)
	}
	if n := looks(func() {
		ready, err := s.e.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: duly.MaxWait})
		if !ready || err != nil {
			t.Error(ready, err)
		}
	}); n != 0 {
		t.Errorf("got %d looks for a job that came between Reserve and Wait", n)
	}
}

// rawRecord returns the record of a bare job without a body.
func rawRecord(pushed, due int64) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(pushed))[2:]
	b = append(b, codec.PlaceBare, codec.HasDue)
	return string(append(b, binary.BigEndian.AppendUint64(nil, uint64(due))[2:]...))
}

// TestVainWakeUpsSlowDown checks a group that is woken by Publishes that its filter does not match.
// The first wake-up comes at once. The following ones slow down until the group gets a message.
//
// C12.185
func TestVainWakeUpsSlowDown(t *testing.T) {
	t.Parallel()
	s := newSleeper(t)
	ctx := t.Context()
	const group = "events@paid"
	_, err := s.e.CreateGroup(ctx, duly.Q(group), duly.FromStart)
	s.must(err)
	s.must(s.e.Configure(ctx, duly.Q(group), duly.QueueConfig{Group: duly.GroupConfig{Filter: "type=paid"}}))

	publish := func(kind string) {
		t.Helper()
		_, err := s.e.Publish(ctx, []duly.Message{{Topic: "events", Headers: map[string]string{"type": kind}}})
		s.must(err)
	}
	quiet := s.e.Quiet
	sleep := func() <-chan error {
		woken := make(chan error, 1)
		go func() {
			ready, err := s.e.Wait(ctx, duly.WaitParams{Queues: []string{group}, Timeout: duly.MaxWait})
			if err == nil && !ready {
				err = contract.Errorf(duly.CodeInternal, "the wait is over")
			}
			woken <- err
		}()
		redistest.Await(t, "it waits", func() bool { return s.e.Waiters() == 1 })
		quiet()
		return woken
	}
	reserve := func() int {
		t.Helper()
		ds, err := s.e.Reserve(ctx, duly.ReserveParams{Queues: []string{group}, Max: 1})
		s.must(err)
		return len(ds)
	}
	// wakes publishes, and expects a wake-up after a pause, and not before.
	wakes := func(kind string, pause time.Duration) {
		t.Helper()
		woken := sleep()
		publish(kind)
		if pause > 0 {
			quiet()
			s.clock.Advance(pause - 1)
			quiet()
			if len(woken) > 0 {
				t.Errorf("the waiter was woken before %v", pause)
			}
			s.clock.Advance(1)
		}
		s.must(<-woken)
	}

	for _, pause := range []time.Duration{0, 1, 2, 4, 8, 16, 25, 25} {
		wakes("free", pause*time.Millisecond)
		if n := reserve(); n > 0 {
			t.Fatalf("the group got %d messages that do not match", n)
		}
	}
	s.clock.Advance(25 * time.Millisecond)
	wakes("paid", 0)
	if n := reserve(); n != 1 {
		t.Fatalf("the group got %d messages, want 1", n)
	}
	wakes("paid", 0)
}

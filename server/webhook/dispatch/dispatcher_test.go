package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// No goroutine of a dispatcher outlives its Run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// C16.13, C16.44: jobs of all namespaces are sent, each with its own webhook-id.
func TestJobsOfAllNamespacesAreSent(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		want := map[string]bool{}
		for n := range 3 {
			for q := range 4 {
				namespace, queue := fmt.Sprintf("n%d", n), fmt.Sprintf("q%d", q)
				r.push(duly.Job{Namespace: namespace, Queue: queue, ID: "same.id"})
				want[namespace+"/"+queue+"/same~id"] = true
			}
		}

		pass(time.Second)
		for _, got := range r.rs.got() {
			if !want[got.id] {
				t.Errorf("an unexpected or repeated webhook-id: %s", got.id)
			}
			delete(want, got.id)
		}

		if len(want) > 0 {
			t.Errorf("not sent: %v", want)
		}
	})
}

// C16.9, C16.67, C16.44: a job that fails is tried again after each step of the staircase, to the
// millisecond. All its tries have the same webhook-id. After the last try the job is dead with its
// last error.
func TestFailedJobIsTriedAfterEachDelay(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(request, int) answer { return answer{status: 500, body: "down"} }
		r.push(duly.Job{ID: "a"})
		pass(26 * time.Hour)

		steps := []time.Duration{0, 15 * time.Second, 3 * time.Minute, 10 * time.Minute, 30 * time.Minute,
			30 * time.Minute,
			time.Hour, 2 * time.Hour, 6 * time.Hour, 15 * time.Hour}
		got := r.rs.got()
		if len(got) != len(steps) {
			t.Fatalf("%d requests, want %d", len(got), len(steps))
		}
		for i, step := range steps[1:] {
			if after := got[i+1].at - got[i].ended; after != step {
				t.Errorf("try %d begins %s after the end of try %d, want %s", i+2, after, i+1, step)
			}
			if got[i+1].id != got[0].id || got[i+1].attempt != fmt.Sprint(i+2) {
				t.Errorf("try %d has webhook-id %s and attempt %s", i+2, got[i+1].id, got[i+1].attempt)
			}
		}
		info, _ := r.state("a")
		if info.State != duly.StateDead ||
			!strings.Contains(info.LastError, "500 Internal Server Error from orders.example") ||
			!strings.Contains(info.LastError, "down") {
			t.Errorf("the job is %s: %s", info.State, info.LastError)
		}
	})
}

// C16.65, C16.72: a receiver that throttles for two hours gets one request per minute.
// The job uses no try and arrives.
func TestThrottlingUsesNoTry(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(q request, _ int) answer {
			if q.at < 2*time.Hour {
				return answer{status: http.StatusTooManyRequests, header: map[string]string{"retry-after": "60"}}
			}
			return answer{status: http.StatusNoContent}
		}

		r.push(duly.Job{ID: "a"})
		pass(2*time.Hour - time.Second)
		info, _ := r.state("a")

		if info.Failures != 0 || info.Stalls != 0 || info.State != duly.StateDelayed {
			t.Errorf("after two hours the job is %s with %d failures and %d stalls", info.State, info.Failures,
				info.Stalls)
		}
		if n := len(r.rs.got()); n < 118 || n > 120 {
			t.Errorf("%d requests within two hours, want one per minute", n)
		}
		pass(3 * time.Minute)
		r.gone("a")
	})
}

// C18.18, C18.63: a throttled try is an overload for the adaptive limit of its queue. The queue stays
// open for the jobs of other hosts.
func TestThrottlingLowersTheAdaptiveLimit(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(request, int) answer {
			return answer{status: http.StatusTooManyRequests, header: map[string]string{"retry-after": "60"}}
		}
		orders := duly.QueueRef{Namespace: "shop", Name: "orders"}
		limits := duly.QueueConfig{MaxLeased: 100, Adapt: duly.Adapt{Floor: 0.1}, Delivery: duly.DeliverPush}
		if err := r.model.Configure(t.Context(), orders, limits); err != nil {
			t.Fatal(err)
		}

		r.push(duly.Job{ID: "a"})
		pass(time.Second)

		stats, err := r.model.Stats(t.Context(), orders)
		if err != nil {
			t.Fatal(err)
		}
		if stats.Factor >= 1 || stats.Counters.Slowed != 1 || !stats.Closing.Until.IsZero() {
			t.Errorf("after a throttled try the factor is %v, %d deliveries were slow, and the queue is closed until %s",
				stats.Factor, stats.Counters.Slowed, stats.Closing.Until)
		}
		if info, _ := r.state("a"); info.State != duly.StateDelayed || info.Failures != 0 {
			t.Errorf("the job is %s with %d failures, want delayed without a failure", info.State, info.Failures)
		}
	})
}

// C16.62: the answer becomes the result of a job with Retain.
func TestAnswerIsTheResultOfTheJob(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(request, int) answer { return answer{status: 200, body: "invoice 7"} }
		r.push(duly.Job{ID: "a", Retain: time.Hour})
		pass(time.Second)
		if info, _ := r.state("a"); info.State != duly.StateDone || string(info.Result) != "invoice 7" {
			t.Errorf("the job is %s with the result %q", info.State, info.Result)
		}
	})
}

// C16.49, C16.79: a job whose answer comes too late is sent again with the same webhook-id. A job
// that is pushed again after its end is also sent again with the same webhook-id.
func TestRepeatedRequestHasTheSameWebhookID(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(_ request, before int) answer {
			if before == 0 {
				return answer{status: 200, after: 11 * time.Second} // later than the timeout of 10 s
			}
			return answer{status: 200}
		}

		r.push(duly.Job{ID: "a"})
		pass(time.Minute)
		r.gone("a")
		r.push(duly.Job{ID: "a"})
		pass(time.Minute)
		r.gone("a")
		got := r.rs.got()
		if len(got) != 3 || got[1].id != got[0].id || got[2].id != got[0].id || !got[0].aborted {
			t.Errorf("the receiver got %+v", got)
		}
	})
}

// C16.104, C16.105: a job that is held back counts as delayed, and in the state of its gate
// as held back. Its TTL continues.
func TestHeldBackJobsCountAsDelayed(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(request, int) answer {
			return answer{status: 503, header: map[string]string{"retry-after": "600"}}
		}
		r.push(duly.Job{ID: "first"})
		pass(time.Second)
		r.push(duly.Job{ID: "lasting"})
		r.push(duly.Job{ID: "short", TTL: time.Minute})
		pass(10 * time.Second)
		stats, err := r.model.Stats(t.Context(), duly.QueueRef{Namespace: "shop", Name: "orders"})
		if err != nil || stats.Sizes.Delayed != 3 || stats.Sizes.Ready != 0 {
			t.Errorf("the queue has %+v, %v", stats.Sizes, err)
		}
		if g := r.gateOf("https://orders.example:443"); g.Open || g.HeldBack != 2 {
			t.Errorf("the gate is %+v, want closed with 2 held back", g)
		}
		pass(2 * time.Hour)
		stats, _ = r.model.Stats(t.Context(), duly.QueueRef{Namespace: "shop", Name: "orders"})
		if stats.Counters.Expired != 1 || stats.Sizes.Delayed != 2 {
			t.Errorf("the queue has %+v", stats)
		}

		for _, q := range r.rs.got() {
			if q.job == "short" {
				t.Errorf("an expired job is sent at %s", q.at)
			}
		}
	})
}

// C16.85: the setting max leased of a queue bounds its requests, even if its gate admits more.
func TestMaxLeasedBoundsTheRequestsOfAQueue(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		ref := duly.QueueRef{Namespace: "shop", Name: "orders"}
		if err := r.model.Configure(t.Context(), ref,
			duly.QueueConfig{Delivery: duly.DeliverPush, MaxLeased: 2}); err != nil {
			t.Fatal(err)
		}
		r.rs.answer = func(request, int) answer { return answer{status: 200, after: time.Second} }
		for i := range 20 {
			r.push(duly.Job{ID: fmt.Sprint("j", i)})
		}
		pass(time.Minute)
		if n := r.rs.most["orders.example"]; n != 2 || len(r.rs.got()) != 20 {
			t.Errorf("%d requests at once, want 2; %d of 20 jobs arrived", n, len(r.rs.got()))
		}
	})
}

// C16.106, C16.107: jobs of one order key arrive in order, one at a time, even after retries,
// throttling and closed gates. After a job is dead, the next one is sent.
func TestJobsOfAnOrderKeyArriveInOrder(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(q request, before int) answer {
			switch {
			case q.job == "a" && before < 3:
				return answer{status: 500}
			case q.job == "b" && before < 3:
				return answer{status: 429, header: map[string]string{"retry-after": "90"}}
			case q.job == "c":
				return answer{status: 422, header: map[string]string{"duly-no-retry": "true"}}
			case q.job == "d" && before < 5: // this answer closes the gate
				return answer{err: errors.New("reset")}
			}
			return answer{status: 200, after: time.Second}
		}
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			r.push(duly.Job{ID: id, OrderKey: "customer 1"})
		}
		pass(24 * time.Hour)

		var order []string
		for i, q := range r.rs.got() {
			if len(order) == 0 || order[len(order)-1] != q.job {
				order = append(order, q.job)
			}
			if i > 0 && q.at < r.rs.got()[i-1].ended {
				t.Errorf("%s begins before the request before it has ended", q.job)
			}
		}
		if !slices.Equal(order, []string{"a", "b", "c", "d", "e"}) {
			t.Errorf("the receiver gets %v", order)
		}
		if info, _ := r.state("c"); info.State != duly.StateDead {
			t.Errorf("c is %s, want dead", info.State)
		}
		r.gone("e")
	})
}

// C16.83, C16.101, C16.102, C16.134: a dead host gets only probes. Each of its waiting jobs is
// reserved at most once per closure, and all of them arrive after the host has recovered.
func TestDeadHostGetsOnlyProbes(t *testing.T) {
	bubble(t, Config{Slots: 32}, func(t *testing.T, r *rig) {
		const jobs = 500
		down := true

		r.rs.answer = func(request, int) answer {
			if down {
				return answer{err: errors.New("connection refused")}
			}
			return answer{status: 200, after: 10 * time.Millisecond}
		}

		for i := range jobs {
			r.push(duly.Job{ID: fmt.Sprint("j", i)})
		}
		pass(20 * time.Minute)
		requests := len(r.rs.got())
		closures := strings.Count(r.log.String(), "its gate is closed")
		if requests > 20+closures {
			t.Errorf("a dead host got %d requests in %d closures", requests, closures)
		}

		for i := range jobs {
			if n := r.tap.deliveries(fmt.Sprint("j", i)); n > closures+2 {
				t.Errorf("job %d was reserved %d times in %d closures", i, n, closures)
			}
		}

		r.rs.mu.Lock()
		down = false
		r.rs.mu.Unlock()
		pass(20 * time.Minute)
		for i := range jobs {
			r.gone(fmt.Sprint("j", i))
		}
		if r.log.Count("its gate is open") != 1 {
			t.Errorf("the log reports %d times that the gate is open", r.log.Count("its gate is open"))
		}
		if n := r.rs.most["orders.example"]; n > 64 {
			t.Errorf("the host had %d requests at once", n)
		}
	})
}

// C16.103: the jobs of a backlog are not reserved again and again.
func TestJobsOfABacklogAreReservedFewTimes(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		const jobs = 2000
		r.rs.answer = func(request, int) answer { return answer{status: 200, after: 20 * time.Millisecond} }
		for i := range jobs {
			r.push(duly.Job{ID: fmt.Sprint("j", i)})
		}
		pass(time.Hour)
		total := 0
		for i := range jobs {
			total += r.tap.deliveries(fmt.Sprint("j", i))
			r.gone(fmt.Sprint("j", i))
		}
		if total > 3*jobs {
			t.Errorf("%d jobs were reserved %d times", jobs, total)
		}
	})
}

// C16.86, C16.83: a host that hangs does not delay other hosts.
func TestHangingHostDelaysNoOtherHost(t *testing.T) {
	bubble(t, Config{Slots: 32}, func(t *testing.T, r *rig) {
		r.rs.answer = func(q request, _ int) answer {
			if q.host == "hang.example" {
				return answer{status: 200, after: time.Hour}
			}
			return answer{status: 200, after: 5 * time.Millisecond}
		}

		for i := range 200 {
			r.push(duly.Job{Queue: "hang", ID: fmt.Sprint("h", i)})
		}
		pass(time.Second)

		for i := range 100 {
			r.push(duly.Job{ID: fmt.Sprint("j", i)})
			pass(50 * time.Millisecond)
		}
		pass(time.Second)

		for _, q := range r.rs.got() {
			if q.host == "orders.example" && q.attempt != "1" {
				t.Errorf("job %s needed attempt %s", q.job, q.attempt)
			}
		}

		for i := range 100 {
			r.gone(fmt.Sprint("j", i))
		}
		if n := r.rs.most["hang.example"]; n > 16 {
			t.Errorf("the host that hangs has %d of 32 slots", n)
		}
	})
}

// C16.63, C16.71, C16.108, C16.109, C16.110: a 410 disables the target. Its jobs wait, use no try
// and cause no requests. After the target is enabled, all jobs arrive, slowly at first.
func TestDisabledTargetGetsNoRequests(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.book.route = func(_ *duly.Delivery, to *Route) error { to.To.Target = "crm"; return nil }
		gone := true
		r.rs.answer = func(request, int) answer {
			if gone {
				return answer{status: http.StatusGone}
			}
			return answer{status: 200, after: time.Second}
		}
		r.push(duly.Job{ID: "first"})
		pass(time.Second)
		for i := range 50 {
			r.push(duly.Job{ID: fmt.Sprint("j", i)})
		}
		pass(5 * time.Hour)
		if n := len(r.rs.got()); n != 1 {
			t.Errorf("a disabled target got %d requests, want 1", n)
		}
		if info, _ := r.state("first"); info.Failures != 0 || info.State != duly.StateDelayed {
			t.Errorf("a waiting job is %s with %d failures", info.State, info.Failures)
		}
		if n := r.tap.deliveries("j7"); n > 80 {
			t.Errorf("a waiting job was reserved %d times in 5 hours", n)
		}
		if r.log.Count("a target is disabled because it answered 410") != 1 {
			t.Errorf("the log is %s", r.log)
		}

		r.rs.mu.Lock()
		gone = false
		r.rs.most = map[string]int{}
		r.rs.mu.Unlock()
		r.book.disable("crm", false)
		pass(20 * time.Minute)
		for i := range 50 {
			r.gone(fmt.Sprint("j", i))
		}
		if r.log.Count("a target is enabled again") != 1 {
			t.Errorf("the log is %s", r.log)
		}
		first := r.rs.got()[1]
		for _, q := range r.rs.got()[2:] {
			if q.at < first.ended {
				t.Errorf("%s is sent before the first answer after the target was enabled", q.job)
			}
		}
	})
}

// C16.53, C16.71: while a secret cannot be read, no request is sent and no try is used.
// The log reports it once. After the correction the jobs arrive.
func TestUnreadableSecretHoldsJobsBack(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		fault := error(&Postponed{Reason: Unreadable,
			Err: errors.New("sealed with a key that push.keys does not list")})
		r.book.route = func(*duly.Delivery, *Route) error { return fault }
		for i := range 20 {
			r.push(duly.Job{ID: fmt.Sprint("j", i)})
		}
		pass(2 * time.Second)
		if r.log.Count("a secret can't be read") != 1 {
			t.Errorf("after 2 s the log is %s", r.log)
		}
		pass(time.Minute)
		if n := len(r.rs.got()); n > 0 {
			t.Errorf("%d requests without a secret", n)
		}
		r.book.mu.Lock()
		fault = nil
		r.book.mu.Unlock()
		pass(10 * time.Minute)
		for i := range 20 {
			r.gone(fmt.Sprint("j", i))
		}

		for _, q := range r.rs.got() {
			if q.attempt != "1" {
				t.Errorf("job %s arrives with attempt %s", q.job, q.attempt)
			}
		}
	})
}

// C16.81, C16.82: the lease is extended during a long try; a lost lease aborts the
// request.
func TestLostLeaseAbortsTheRequest(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.book.route = func(_ *duly.Delivery, to *Route) error { to.To.Timeout = 10 * time.Minute; return nil }
		r.rs.answer = func(request, int) answer { return answer{status: 200, after: 5 * time.Minute} }
		r.push(duly.Job{ID: "kept"})
		r.push(duly.Job{ID: "lost"})

		pass(2 * time.Minute)
		if n := len(r.rs.got()); n > 0 {
			t.Fatalf("%d requests have ended, want 0", n)
		}
		if err := r.model.Delete(t.Context(), duly.QueueRef{Namespace: "shop", Name: "orders"}, "lost"); err != nil {
			t.Fatal(err)
		}

		pass(16 * time.Second)
		if got := r.rs.got(); len(got) != 1 || got[0].job != "lost" || !got[0].aborted {
			t.Errorf("after the deletion the ended requests are %+v", got)
		}
		pass(5 * time.Minute)
		r.gone("kept")
		if r.tap.deliveries("kept") != 1 {
			t.Errorf("the job was delivered %d times", r.tap.deliveries("kept"))
		}
	})
}

// C4.97, C16.82: the removal of a job ends only its own request, at once, in each namespace.
func TestRemovedJobEndsItsRequest(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(request, int) answer { return answer{status: 200, after: 9 * time.Second} }
		for _, namespace := range []string{"shop", "bank"} {
			r.push(duly.Job{Namespace: namespace, ID: namespace + "-removed"})
			r.push(duly.Job{Namespace: namespace, ID: namespace + "-kept"})
		}
		pass(time.Second)

		for i, namespace := range []string{"shop", "bank"} {
			if err := r.model.Delete(t.Context(), duly.QueueRef{Namespace: namespace, Name: "orders"},
				namespace+"-removed"); err != nil {
				t.Fatal(err)
			}
			pass(100 * time.Millisecond)
			if got := r.rs.got(); len(got) != i+1 || got[i].job != namespace+"-removed" || !got[i].aborted {
				t.Fatalf("100 ms after the deletion in %s the ended requests are %+v", namespace, got)
			}
		}

		pass(10 * time.Second)
		if got := r.rs.got(); len(got) != 4 || got[2].aborted || got[3].aborted {
			t.Errorf("the requests are %+v", got)
		}
	})
}

// A namespace is watched once, again after a failure, and until its jobs have ended.
func TestWatchesOfNamespacesEnd(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		watches := func() int { r.tap.mu.Lock(); defer r.tap.mu.Unlock(); return r.tap.calls["watch"] }
		for range 3 {
			r.push(duly.Job{})
			pass(time.Minute)
		}
		if n := watches(); n != 1 {
			t.Errorf("%d watches began, want 1", n)
		}
		pass(watchIdle)
		r.push(duly.Job{})
		pass(time.Minute)
		if n := watches(); n != 2 {
			t.Errorf("after the pause %d watches have begun, want 2", n)
		}

		pass(watchIdle)
		r.tap.failing(func(op, _ string) error {
			if op == "watch" {
				return duly.ErrUnavailable
			}
			return nil
		}, nil)
		r.push(duly.Job{})
		pass(10 * time.Second)
		if n := watches(); n < 10 || n > 14 {
			t.Errorf("in 10 s %d watches failed, want one a second", n-2)
		}
	})
}

// C16.43: a clock that differs by more than 60 s is reported once, and its end too.
func TestClockDifferenceIsReportedOnce(t *testing.T) {
	var largest atomic.Int64
	skewed := &skewedClock{Clock: clock.Later(clock.System(), 100*365*24*time.Hour)}
	skewed.by.Store(int64(61 * time.Second))
	o := Observer{ClockDiffers: func(by time.Duration) { largest.Store(max(largest.Load(), int64(by))) }}

	bubble(t, Config{Clock: skewed, Observer: o}, func(t *testing.T, r *rig) {
		r.push(duly.Job{})
		pass(time.Second)
		r.push(duly.Job{})
		pass(time.Second)
		if r.log.Count("differs from the engine's") != 1 || largest.Load() < int64(61*time.Second) {
			t.Errorf("the difference is %s and the log %s", time.Duration(largest.Load()), r.log)
		}
		skewed.by.Store(int64(59 * time.Second))
		r.push(duly.Job{})
		pass(time.Second)
		if r.log.Count("agrees with the engine's again") != 1 {
			t.Errorf("the log is %s", r.log)
		}
	})
}

// skewedClock is a clock whose wall time differs from the engine's.
type skewedClock struct {
	duly.Clock
	by atomic.Int64
}

func (s *skewedClock) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

// C16.70: a job whose destination is refused is buried.
func TestJobWithRefusedDestinationIsBuried(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.book.route = func(*duly.Delivery, *Route) error {
			return contract.Invalid("callback", "has the scheme ftp, must have https or http")
		}
		r.push(duly.Job{ID: "a"})
		pass(time.Second)
		if info, _ := r.state("a"); info.State != duly.StateDead || !strings.Contains(info.LastError, "ftp") {
			t.Errorf("the job is %s: %s", info.State, info.LastError)
		}
	})
}

// C16.71: a dispatcher that stops lets requests end, and releases the other jobs, which uses no
// try.
func TestStoppingDispatcherReleasesJobs(t *testing.T) {
	bubble(t, Config{Drain: 5 * time.Second}, func(t *testing.T, r *rig) {
		r.rs.answer = func(q request, _ int) answer {
			if q.job == "short" {
				return answer{status: 200, after: 3 * time.Second}
			}
			return answer{status: 200, after: 9 * time.Second}
		}

		r.push(duly.Job{ID: "short"})
		r.push(duly.Job{ID: "long"})
		pass(time.Second)
		r.stop()
		r.gone("short")
		info, _ := r.state("long")
		if info.State != duly.StateReady || info.Failures != 0 || info.Stalls != 0 {
			t.Errorf("the other job is %s with %d failures and %d stalls", info.State, info.Failures, info.Stalls)
		}
		r.start()
	})
}

// C16.10: after a dispatcher was killed, another one sends its jobs when the leases end.
func TestJobsOfAKilledDispatcherAreSent(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(_ request, before int) answer {
			if before == 0 {
				return answer{status: 200, after: 9 * time.Second}
			}
			return answer{status: 200}
		}

		r.push(duly.Job{ID: "a"})
		pass(time.Second)
		// Every call fails, as if the process were dead.
		r.tap.failing(func(string, string) error { return duly.ErrUnavailable }, nil)
		r.Kill()
		r.stop()
		r.tap.failing(nil, nil)
		r.start()
		pass(16 * time.Second)
		r.gone("a")
		if got := r.rs.got(); len(got) != 2 || got[1].attempt != "1" {
			t.Errorf("the receiver got %+v", got)
		}
	})
}

// C16.136: the log of a failed try names namespace, host, queue, ID, status and time,
// and neither path nor body.
func TestLogOfAFailedTryHasNoSecrets(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.rs.answer = func(request, int) answer {
			return answer{status: 503, body: "very secret", after: 40 * time.Millisecond}
		}
		r.book.route = func(_ *duly.Delivery, to *Route) error { to.To.URL.Path = "/hidden"; return nil }
		r.push(duly.Job{ID: "a"})
		pass(time.Second)
		lines := r.log.Lines("job failed")
		if len(lines) != 1 {
			t.Fatalf("the log is %s", r.log)
		}

		for _, want := range []string{"queue=orders", "job=a", "attempt=1", "error.namespace=shop",
			"error.host=orders.example", "error.status=503", "error.ms=40"} {
			if !strings.Contains(lines[0], want) {
				t.Errorf("the line lacks %s: %s", want, lines[0])
			}
		}

		if log := r.log.String(); strings.Contains(log, "hidden") || strings.Contains(log, "very secret") {
			t.Errorf("the log is %s", log)
		}
	})
}

// C16.135: each try has a separate span, whose trace the request carries. A job that is held back
// has no span.
func TestEachTryHasItsOwnSpan(t *testing.T) {
	var began, ended atomic.Int64
	trace := func(context.Context, *duly.Delivery, string) (map[string]string, func(int, duly.Settlement)) {
		n := began.Add(1)
		return map[string]string{"traceparent": fmt.Sprint("span ", n)}, func(status int, as duly.Settlement) {
			if status == 500 && as == duly.Nack || status == 200 && as == duly.Ack {
				ended.Add(1)
			}
		}
	}

	bubble(t, Config{Trace: trace}, func(t *testing.T, r *rig) {
		r.rs.answer = func(q request, before int) answer {
			if q.job == "a" && before == 0 {
				return answer{status: 500}
			}
			if q.job == "b" && before == 0 {
				return answer{status: 503, header: map[string]string{"retry-after": "600"}}
			}
			return answer{status: 200}
		}
		r.push(duly.Job{ID: "a", Headers: map[string]string{"traceparent": "of the job"}})
		pass(time.Minute)
		got := r.rs.got()
		if len(got) != 2 || got[0].trace != "span 1" || got[1].trace != "span 2" || ended.Load() != 2 {
			t.Errorf("the requests are %+v, and %d spans have ended", got, ended.Load())
		}
		r.push(duly.Job{ID: "b"})
		pass(time.Second)
		r.push(duly.Job{ID: "held"})
		pass(time.Minute)
		if began.Load() != 3 || r.tap.deliveries("held") == 0 {
			t.Errorf("%d spans for 3 requests", began.Load())
		}
	})
}

// C16.130: the bodies in flight share the memory. A body that is larger than the memory is sent
// alone.
func TestBodiesInFlightShareTheMemory(t *testing.T) {
	bubble(t, Config{Memory: 1000}, func(t *testing.T, r *rig) {
		flying, most := 0, 0
		alone := true
		r.rs.answer = func(q request, _ int) answer { return answer{status: 200, after: time.Second} }

		r.book.route = func(d *duly.Delivery, to *Route) error {
			to.To.Transport = counting{r.rs, func(n int, body int) {
				flying += n * body
				most = max(most, min(flying, 1000))
				if body > 1000 && n > 0 && flying != body {
					alone = false
				}
				if flying > 1000 && flying != 5000 {
					alone = false
				}
			}}
			return nil
		}

		for i := range 12 {
			size := 300
			if i == 5 {
				size = 5000
			}
			r.push(duly.Job{Queue: fmt.Sprint("q", i), Body: make([]byte, size)})
		}

		pass(time.Minute)
		if n := len(r.rs.got()); n != 12 {
			t.Errorf("%d jobs arrived, want 12", n)
		}
		if !alone || most < 900 || r.Memory() != 0 {
			t.Errorf("alone %v, most %d, left %d", alone, most, r.Memory())
		}
	})
}

// counting is a transport that reports the bodies in flight.
type counting struct {
	*receivers
	add func(n, body int)
}

func (c counting) RoundTrip(req *http.Request) (*http.Response, error) {
	n := int(req.ContentLength)
	c.mu.Lock()
	c.add(1, n)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.add(-1, n)
		c.mu.Unlock()
	}()
	return c.receivers.RoundTrip(req)
}

// C16.17, C16.16: the jobs of new queues are sent at once, even if there are more queues than the
// 100 names of one Wait. After a queue is deleted, no Wait has its name.
func TestQueuesComeAndGo(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		const queues = 250
		for i := range queues {
			r.push(duly.Job{Queue: fmt.Sprint("q", i), ID: "a"})
			if i%50 == 0 {
				pass(10 * time.Millisecond)
			}
		}
		pass(2 * time.Second)
		if n := len(r.rs.got()); n != queues {
			t.Errorf("%d of %d jobs arrived", n, queues)
		}

		r.book.mu.Lock()
		r.book.queues["shop"] = []string{"q7"}
		r.book.changed()
		r.book.mu.Unlock()
		synctest.Wait()
		r.push(duly.Job{Queue: "q7", ID: "b"})
		pass(time.Second)
		if n := len(r.rs.got()); n != queues+1 {
			t.Errorf("%d jobs arrived, want %d", n, queues+1)
		}
		r.feed.mu.Lock()
		pollers := len(r.feed.pollers["shop"])
		r.feed.mu.Unlock()
		if pollers != 1 {
			t.Errorf("%d pollers wait for one queue", pollers)
		}
	})
}

// C16.18: idle queues cost one Wait per minute for each 100 queues.
func TestIdleQueuesCostOneWaitPerMinute(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		for i := range 1000 {
			r.book.add("shop", fmt.Sprint("q", i))
		}
		pass(time.Second)
		r.tap.mu.Lock()
		r.tap.calls = map[string]int{}
		r.tap.mu.Unlock()
		pass(10 * time.Minute)
		r.tap.mu.Lock()
		defer r.tap.mu.Unlock()
		if n := r.tap.calls["wait"]; n > 110 || r.tap.calls["reserve"] > 0 {
			t.Errorf("in 10 minutes 1000 idle queues cost %v", r.tap.calls)
		}
	})
}

// C16.16: a namespace whose calls fail, for instance because its pool is lost, does not delay other
// namespaces.
func TestOneNamespaceFails(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.tap.failing(func(_, namespace string) error {
			if namespace == "lost" {
				return duly.ErrUnavailable
			}
			return nil
		}, nil)

		r.push(duly.Job{Namespace: "lost", ID: "l"})
		for i := range 50 {
			r.push(duly.Job{ID: fmt.Sprint("j", i)})
			pass(20 * time.Millisecond)
			r.gone(fmt.Sprint("j", i))
		}

		r.tap.failing(nil, nil)
		pass(3 * time.Second)
		if n := len(r.rs.got()); n != 51 {
			t.Errorf("%d jobs arrived, want 51", n)
		}
	})
}

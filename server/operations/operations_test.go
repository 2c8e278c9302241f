package operations

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C14.91, P8.3: a requeue of a group takes the jobs of the group that died before its start, and no other.
func TestRequeueOfAGroupTakesJobsBeforeItsStart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 2500, "disk is full")
		r.die("b", 30, "no such user")
		o := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull, Rate: 100})
		r.die("late", 5, "disk is full")

		if o.State != contract.OperationQueued && o.State != contract.OperationRunning || o.By != "account ada" || o.Filter == "" {
			t.Errorf("it begins as %+v", o)
		}
		o = r.await(o.ID, contract.OperationDone)
		r.want(o, 2500, 0, 0)
		if o.Found != 2500 || o.Ended.IsZero() || len(o.Answers) != maxAnswers || o.Answers[99].Outcome != "done" {
			t.Errorf("it ends as %+v", o)
		}
		if s := r.stats(); s.Sizes.Dead != 35 || s.Sizes.Ready != 2500 || s.Counters.Requeued != 2500 {
			t.Errorf("the queue has %+v", s)
		}
	})
}

// C14.91: without a group, a requeue takes all dead jobs. It takes none of its own jobs again.
func TestRequeueOfAllTakesNoJobTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 60, "disk is full")
		r.die("b", 40, "no such user")
		o := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Rate: 4, Tries: 3, TTL: time.Hour})
		for range 10 { // below the automatic stop
			time.Sleep(2 * time.Second)
			r.bury(1, "again")
		}
		o = r.await(o.ID, contract.OperationDone)
		r.want(o, 100, 0, 0)
		if s := r.stats(); s.Sizes.Dead != 10 || s.Counters.Requeued != 100 {
			t.Errorf("the queue has %+v", s)
		}
		if j, err := r.engine.Get(t.Context(), mail, "b39"); err != nil || j.Tries != 3 || j.TTL != time.Hour {
			t.Errorf("a job has %d tries and the TTL %s, %v", j.Tries, j.TTL, err)
		}
	})
}

// C14.90, P8: a deletion by IDs or of a group, a promotion, and a purge.
func TestOtherKinds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 1500, "disk is full")
		r.die("b", 20, "no such user")
		later := func(j *duly.Job) { j.Delay = time.Hour }
		r.push("d", 300, later)
		time.Sleep(time.Millisecond)

		for _, tt := range []struct {
			n    contract.NewOperation
			want [3]int64
		}{
			{contract.NewOperation{Kind: contract.OperationDelete, Group: diskFull}, [3]int64{1500, 0, 0}},
			{contract.NewOperation{Kind: contract.OperationDelete, IDs: []string{"b0", "d0", "none"}}, [3]int64{2, 1, 0}},
			{contract.NewOperation{Kind: contract.OperationDelete, IDs: []string{"b1", "d1"}, State: duly.StateDead},
				[3]int64{1, 1, 0}},
			{contract.NewOperation{Kind: contract.OperationPromote, IDs: []string{"d1", "b2", "none"}}, [3]int64{1, 2, 0}},
			{contract.NewOperation{Kind: contract.OperationPromote}, [3]int64{298, 0, 0}},
			{contract.NewOperation{Kind: contract.OperationRequeue, IDs: []string{"b2", "d1", "none"}}, [3]int64{1, 2, 0}},
			{contract.NewOperation{Kind: contract.OperationPurge, State: duly.StateReady}, [3]int64{300, 0, 0}},
			{contract.NewOperation{Kind: contract.OperationPurge, State: duly.StateDead}, [3]int64{17, 0, 0}},
		} {
			o := r.begin(tt.n)
			o = r.await(o.ID, contract.OperationDone)
			if got := [3]int64{o.Done, o.Skipped, o.Failed}; got != tt.want {
				t.Errorf("%s: %v, want %v: %+v", tt.n.Kind, got, tt.want, o)
			}
		}
		if s := r.sizes(); s != (duly.Sizes{}) {
			t.Errorf("the queue has %+v", s)
		}
	})
}

// C14.92: a purge takes the jobs that were there at its start, in steps of at most 1000.
func TestPurgeInSteps(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.push("a", 10_500, nil)
		time.Sleep(time.Millisecond)
		o := r.begin(contract.NewOperation{Kind: contract.OperationPurge, State: duly.StateReady, Rate: 4000})
		r.push("late", 5, nil)
		o = r.await(o.ID, contract.OperationDone)
		r.want(o, 10_500, 0, 0)
		if s := r.sizes(); s.Ready != 5 || r.engine.calls["delete"] < 11 {
			t.Errorf("%d jobs are left after %d calls", s.Ready, r.engine.calls["delete"])
		}
	})
}

// C14.93, P9.1: the rate holds within 10 % over 60 s, also if calls take some time. The current rate and the end are
// shown.
func TestRateHolds(t *testing.T) {
	for _, rate := range []float64{0.5, 10, 37.5, 400} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.die("a", int(80*rate), "disk is full")
				r.engine.fail(func(context.Context, string) error { time.Sleep(30 * time.Millisecond); return nil }, nil)
				o := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull, Rate: rate})
				for r.get(o.ID).Taken == 0 {
					time.Sleep(10 * time.Millisecond)
				}
				begin := r.get(o.ID).Taken
				time.Sleep(time.Minute)
				got := r.get(o.ID)
				if per := float64(got.Taken-begin) / 60; math.Abs(per-rate) > rate/10 {
					t.Errorf("%g jobs per second, want %g", per, rate)
				}
				if math.Abs(got.CurrentRate-rate) > rate/4 && rate > 1 {
					t.Errorf("the current rate is %g", got.CurrentRate)
				}
				left := float64(got.Found-got.Taken) / got.CurrentRate
				if end := time.Until(got.ExpectedEnd).Seconds(); math.Abs(end-left) > 1 {
					t.Errorf("it expects its end in %g s, want %g", end, left)
				}
				r.must(r.Stop(t.Context(), mail.Namespace, o.ID, "ada"))
			})
		})
	}
}

// C14.96: a job that another caller changes meanwhile is skipped, also if it dies again. Then it died after the start.
func TestJobsThatChangeMeanwhileAreSkipped(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ids := r.die("a", 100, "disk is full")
		o := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull, Rate: 4})
		r.await(o.ID, contract.OperationRunning)
		if _, err := r.engine.Engine.Requeue(t.Context(), mail, duly.RequeueParams{IDs: ids[90:]}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.engine.Engine.DeleteJobs(t.Context(), mail, ids[80:85], duly.StateNone); err != nil {
			t.Fatal(err)
		}
		for i := range 100 { // five of the ten die again
			d, err := r.engine.Reserve(t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{"mail"}, Max: 1})
			if err != nil || len(d) == 0 || i == 100 {
				break
			}
			if d[0].ID >= "a95" {
				_, _ = r.engine.Settle(t.Context(), "shop", []duly.SettleRequest{
					{Receipt: d[0].Receipt, As: duly.Bury, Error: "disk is full"},
				})
			}
		}
		o = r.await(o.ID, contract.OperationDone)
		r.want(o, 85, 15, 0)
		last := o.Answers[len(o.Answers)-1]
		if last.Outcome != "skipped" || last.Error == "" || r.sizes().Dead != 5 {
			t.Errorf("the last answer is %+v, the queue has %+v", last, r.sizes())
		}
	})
}

// C14.95: pause, continue and stop. A repeat changes nothing, and an operation that has ended cannot change.
func TestPauseContinueStop(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 1000, "disk is full")
		id := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Rate: 10}).ID
		time.Sleep(10 * time.Second)
		for range 2 {
			if o := r.must(r.Pause(t.Context(), mail.Namespace, id, "ada")); o.State != contract.OperationPaused ||
				o.Reason != "paused by ada" || o.CurrentRate != 0 || !o.ExpectedEnd.IsZero() {
				t.Errorf("after a pause it is %+v", o)
			}
		}
		taken := r.get(id).Taken
		time.Sleep(time.Minute)
		if o := r.get(id); o.Taken != taken || taken < 90 || taken > 110 {
			t.Errorf("%d jobs were taken before the pause, %d after it", taken, o.Taken)
		}

		changed := r.Changed()
		r.must(r.Continue(mail.Namespace, id, "ada"))
		<-changed
		r.await(id, contract.OperationRunning)
		r.must(r.Continue(mail.Namespace, id, "ada"))
		time.Sleep(10 * time.Second)
		for range 2 {
			if o := r.must(r.Stop(t.Context(), mail.Namespace, id, "bob")); o.State != contract.OperationStopped ||
				o.Reason != "stopped by bob" || o.Taken < 190 || o.Taken > 215 {
				t.Errorf("after a stop it is %+v", o)
			}
		}
		_, err := r.Continue(mail.Namespace, id, "ada")
		_, err2 := r.Pause(t.Context(), mail.Namespace, id, "ada")
		if duly.CodeOf(err) != duly.CodeConflict || duly.CodeOf(err2) != duly.CodeConflict {
			t.Errorf("a stopped operation answers %v and %v", err, err2)
		}
		if s := r.stats(); s.Counters.Requeued != r.get(id).Done {
			t.Errorf("%d jobs were requeued, %d count as done", s.Counters.Requeued, r.get(id).Done)
		}
	})
}

// C14.95, P9.2: a stop acts within a second, in the middle of a slow walk and of a slow call. The jobs of a call without an
// answer count as failed.
func TestStopActsWithinASecond(t *testing.T) {
	for _, slow := range []string{"list", "get", "requeue"} {
		t.Run(slow, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				ids := r.die("a", 50, "disk is full")
				r.engine.fail(func(ctx context.Context, call string) error {
					if call != slow {
						return nil
					}
					<-ctx.Done()
					return contract.Errorf(duly.CodeUnavailable, "no answer: %w", ctx.Err())
				}, nil)
				n := contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull}
				if slow == "get" {
					n = contract.NewOperation{Kind: contract.OperationRequeue, IDs: ids}
				}
				id := r.begin(n).ID
				time.Sleep(time.Minute)
				begin := time.Now()
				o := r.must(r.Stop(t.Context(), mail.Namespace, id, "ada"))
				if took := time.Since(begin); took > time.Second || o.State != contract.OperationStopped {
					t.Errorf("the stop took %s: %+v", took, o)
				}
				unanswered := int64(0)
				if slow == "requeue" {
					unanswered = 50
				}
				r.want(r.get(id), 0, 0, unanswered)
			})
		})
	}
}

// C14.95: the answer of a call that ends soon after the stop counts.
func TestStopCountsTheLastAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 50, "disk is full")
		r.engine.fail(func(_ context.Context, call string) error {
			if call == "requeue" {
				time.Sleep(800 * time.Millisecond)
			}
			return nil
		}, nil)
		id := r.begin(contract.NewOperation{Kind: contract.OperationRequeue}).ID
		time.Sleep(100 * time.Millisecond)
		r.want(r.must(r.Stop(t.Context(), mail.Namespace, id, "ada")), 50, 0, 0)
	})
}

// C14.98: four operations run at once. The others are queued in the order of their starts. Beyond 100 a start is full.
func TestFourRunAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ids := r.die("a", 200, "disk is full")
		var started []string
		for i := range MaxOpen {
			n := contract.NewOperation{Kind: contract.OperationRequeue, IDs: ids[2*i : 2*i+2], Rate: 1}
			started = append(started, r.begin(n).ID)
		}
		_, err := r.Start(mail.Namespace, contract.NewOperation{
			Kind: contract.OperationPurge, Queue: "mail", State: duly.StateDead}, ada)
		if duly.CodeOf(err) != duly.CodeFull {
			t.Errorf("one more start returns %v", err)
		}
		synctest.Wait()
		if got := r.States(); got[contract.OperationRunning] != MaxRunning || got[contract.OperationQueued] != MaxOpen-MaxRunning {
			t.Errorf("the states are %v", got)
		}

		// A queued one can be paused and stopped, and a slot becomes free at an end.
		r.must(r.Pause(t.Context(), mail.Namespace, started[4], "ada"))
		r.must(r.Stop(t.Context(), mail.Namespace, started[5], "ada"))
		r.must(r.Stop(t.Context(), mail.Namespace, started[0], "ada"))
		synctest.Wait()
		if o := r.get(started[6]); o.State != contract.OperationRunning {
			t.Errorf("the next one is %s", o.State)
		}
		r.must(r.Continue(mail.Namespace, started[4], "ada"))
		r.await(started[99], contract.OperationDone)
		if got := r.States(); got[contract.OperationDone] != 98 || got[contract.OperationStopped] != 2 {
			t.Errorf("at the end the states are %v", got)
		}
		if got := r.Totals()[Total{"requeue", "done"}]; got != r.stats().Counters.Requeued {
			t.Errorf("%d jobs count as done", got)
		}
	})
}

// C14.97: an operation repeats calls with growing pauses while the engine is not available, shows the error and keeps
// its place. A queue that is full is the same. An error that stays ends it.
func TestOperationWaitsForTheEngine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 2500, "disk is full")
		broken := time.Now().Add(5 * time.Minute)
		r.engine.fail(func(_ context.Context, call string) error {
			if call == "requeue" && time.Now().Before(broken) {
				return contract.Errorf(duly.CodeUnavailable, "the store does not answer")
			}
			return nil
		}, nil)
		id := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull}).ID
		time.Sleep(2 * time.Minute)
		if o := r.get(id); o.State != contract.OperationRunning || o.Error != "unavailable: the store does not answer" {
			t.Errorf("it is %+v", o)
		}
		if n := r.engine.calls["requeue"]; n < 8 || n > 14 {
			t.Errorf("%d calls in 2 minutes", n)
		}
		o := r.await(id, contract.OperationDone)
		if r.want(o, 2500, 0, 0); o.Error != "" || r.stats().Counters.Requeued != 2500 {
			t.Errorf("it ends as %+v", o)
		}

		r.bury(2500, "disk is full")
		time.Sleep(time.Millisecond)
		if err := r.engine.Configure(t.Context(), mail, duly.QueueConfig{MaxJobs: 1000}); err != nil {
			t.Fatal(err)
		}
		id = r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull}).ID
		for range 20 {
			time.Sleep(time.Minute)
			r.bury(1000, "")
		}
		r.want(r.await(id, contract.OperationDone), 2500, 0, 0)

		r.engine.fail(func(context.Context, string) error { return contract.Errorf(duly.CodeCorrupt, "it is damaged") }, nil)
		id = r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull}).ID
		if o := r.await(id, contract.OperationFailed); o.Reason != "corrupt: it is damaged" {
			t.Errorf("it failed as %+v", o)
		}
	})
}

package operations

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/operations/record"
)

// C14.94: after a canary the operation waits for an operator, and shows what became of the jobs.
func TestCanaryWaitsForAnOperator(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.die("a", 300, "disk is full")
		id := r.begin(contract.NewOperation{
			Kind: contract.OperationRequeue, Group: diskFull, Canary: &contract.OperationCanary{},
		}).ID
		o := r.await(id, contract.OperationWaiting)
		if r.want(o, 10, 0, 0); o.Canary.Jobs != 10 || o.Canary.Then != contract.CanaryWait || o.Reason == "" || o.Found != 300 {
			t.Errorf("it waits as %+v", o)
		}
		r.bury(7, "")
		r.bury(1, "again")
		pass(time.Hour)
		if o = r.get(id); o.State != contract.OperationWaiting || o.Canary.Succeeded != 7 || o.Canary.Failed != 1 || o.Taken != 10 {
			t.Errorf("an hour later it is %+v, %+v", o, o.Canary)
		}

		// It does not use one of the four slots.
		if got := r.States()[contract.OperationRunning]; got != 0 {
			t.Errorf("%d run", got)
		}
		// A pause keeps the place before the decision.
		r.must(r.Pause(t.Context(), mail.Namespace, id, "ada"))
		r.must(r.Continue(mail.Namespace, id, "ada"))
		r.await(id, contract.OperationWaiting)
		r.restart()
		if o = r.get(id); o.State != contract.OperationInterrupted {
			t.Errorf("after a restart it is %+v", o)
		}
		r.must(r.Continue(mail.Namespace, id, "ada"))
		r.await(id, contract.OperationWaiting)

		r.must(r.Continue(mail.Namespace, id, "ada"))
		r.want(r.await(id, contract.OperationDone), 300, 0, 0)
	})
}

// C14.94, P9.4: a canary whose jobs succeed continues by itself. One whose jobs fail stops the operation with a reason, and has at
// most a tenth of the jobs.
func TestCanaryDecides(t *testing.T) {
	for _, tt := range []struct {
		jobs, canary, dead, acked int
		then                      string
		state                     contract.OperationState
		touched                   int64
	}{
		{300, 10, 0, 9, contract.CanaryContinue, contract.OperationDone, 300},
		{300, 10, 1, 9, contract.CanaryContinue, contract.OperationDone, 300},
		{300, 10, 2, 8, contract.CanaryContinue, contract.OperationStopped, 10},
		{300, 10, 10, 0, contract.CanaryContinue, contract.OperationStopped, 10},
		{300, 10, 10, 0, contract.CanaryWait, contract.OperationStopped, 10},
		{300, 10, 3, 0, contract.CanaryWait, contract.OperationStopped, 10},
		{40, 10, 4, 0, contract.CanaryContinue, contract.OperationStopped, 4},
		{19, 100, 1, 0, contract.CanaryContinue, contract.OperationStopped, 1},
		{3, 100, 0, 1, contract.CanaryContinue, contract.OperationDone, 3},
		{0, 100, 0, 0, contract.CanaryContinue, contract.OperationDone, 0},
	} {
		t.Run(fmt.Sprint(tt.jobs, tt.canary, tt.dead, tt.acked, tt.then), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.die("a", tt.jobs, "disk is full")
				id := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Group: diskFull,
					Canary: &contract.OperationCanary{Jobs: tt.canary, Then: tt.then}}).ID
				if tt.jobs > 0 {
					r.await(id, contract.OperationWaiting)
				}
				r.bury(tt.dead, "disk is full")
				r.bury(tt.acked, "")
				o := r.await(id, tt.state)
				r.want(o, tt.touched, 0, 0)
				if stopped := strings.HasPrefix(o.Reason, "canary: "); stopped != (tt.state == contract.OperationStopped) {
					t.Errorf("the reason is %q", o.Reason)
				}
			})
		})
	}
}

// C14.94: an operation stops if more than 20 % of the requeued jobs are dead again, of a sample if there are many.
func TestAutomaticStop(t *testing.T) {
	for _, tt := range []struct{ jobs, percent int }{{200, 15}, {200, 30}, {6000, 15}, {6000, 26}} {
		t.Run(fmt.Sprint(tt.jobs, " ", tt.percent), func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.die("a", tt.jobs, "disk is full")
				id := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Rate: float64(tt.jobs) / 60}).ID
				for n := 0; !r.get(id).State.Ended(); pass(time.Second) {
					for ; n < int(r.get(id).Done); n++ {
						reason := ""
						if n*7919%100 < tt.percent {
							reason = "again"
						}
						if r.bury(1, reason) == 0 {
							t.Fatal("a job is missing")
						}
					}
				}
				o := r.get(id)
				if tt.percent < 20 {
					r.want(o, int64(tt.jobs), 0, 0)
				} else if o.State != contract.OperationStopped || o.Done > int64(tt.jobs/2) ||
					!strings.Contains(o.Reason, "automatic stop: ") || !strings.Contains(o.Reason, "more than 20 %") {
					t.Errorf("it is %s: %s", o.State, o.Reason)
				}
			})
		})
	}
}

// A requeued job that is merged into a waiting one is done, and in no sample.
func TestMergedJobIsDone(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		key := func(j *duly.Job) { j.Merge = duly.Merge{Key: "k"} }
		r.push("a", 1, key)
		r.bury(1, "disk is full")
		r.push("b", 1, key)
		pass(time.Millisecond)
		id := r.begin(contract.NewOperation{Kind: contract.OperationRequeue, Canary: &contract.OperationCanary{
			Then: contract.CanaryContinue}}).ID
		if r.want(r.await(id, contract.OperationDone), 1, 0, 0); r.sizes().Ready != 1 {
			t.Errorf("the queue has %+v", r.sizes())
		}
		if v, err := record.Judge(t.Context(), r.engine, mail, nil); v.Jobs != 0 || err != nil {
			t.Errorf("the verdict of no job is %+v, %v", v, err)
		}
	})
}

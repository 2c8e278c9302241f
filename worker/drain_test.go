package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// Fault C9: a worker that stops reserves no more jobs, lets its handlers finish, and leaves no
// lease behind.
func TestDrainFinishesRunningHandlers(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 10}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(20*time.Second))
		r.push(100, duly.Job{})
		r.start()
		advance(5 * time.Second)
		if took := r.stop(); took != 15*time.Second {
			t.Errorf("drained in %v", took)
		}
		if got := r.outcomes(); len(got) != 10 || len(r.memory.leased) != 0 {
			t.Errorf("settled %q, %d leases left", got, len(r.memory.leased))
		}
	})
}

func TestIdleWorkerStopsAtOnce(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(0))
		r.start()
		advance(time.Minute)
		if took := r.stop(); took != 0 {
			t.Errorf("stopped after %v", took)
		}
	})
}

func TestDrainRenewsLeases(t *testing.T) {
	bubble(t, worker.Config{Drain: time.Hour}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(30*time.Minute))
		r.push(1, duly.Job{})
		r.start()
		if took := r.stop(); took != 30*time.Minute || r.recorder.count("extend") < 100 {
			t.Errorf("drained in %v with %d extensions", took, r.recorder.count("extend"))
		}
		r.want("ack")
	})
}

func TestHandlersAreCanceledAfterTheDrainLimit(t *testing.T) {
	ignoring := func(context.Context, *worker.Delivery) error { time.Sleep(time.Hour); return nil }
	tests := []struct {
		name    string
		drain   time.Duration
		handler worker.HandlerFunc
		want    string
		most    time.Duration
	}{
		{"Obeys", 0, sleeper(time.Hour), "release", 30 * time.Second},
		{"OwnLimit", time.Minute, sleeper(time.Hour), "release", time.Minute},
		{"NoDrain", duly.None, sleeper(time.Hour), "release", 0},
		{"Ignores", 0, ignoring, "release", 31 * time.Second},
		{"FinishesAfterAll", 0, func(ctx context.Context, _ *worker.Delivery) error {
			<-ctx.Done()
			if context.Cause(ctx) != worker.ErrStopping {
				return context.Cause(ctx)
			}
			return nil
		}, "ack", 30 * time.Second},
		{"FailsByItself", 0, func(ctx context.Context, _ *worker.Delivery) error {
			<-ctx.Done()
			return worker.Bury(errors.New("no use"))
		}, "bury: no use", 30 * time.Second},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, worker.Config{Drain: tt.drain}, func(t *testing.T, r *rig) {
				r.Handle("q", tt.handler)
				r.push(1, duly.Job{})
				r.start()
				if took := r.stop(); took < tt.most-time.Second || took > tt.most {
					t.Errorf("stopped after %v, want %v", took, tt.most)
				}
				r.want(tt.want)
				if len(r.memory.leased) != 0 {
					t.Error("a lease is left")
				}
				advance(2 * time.Hour) // the worker ignores what the handler returns now
				r.want(tt.want)
			})
		})
	}
}

func TestKillEndsADrain(t *testing.T) {
	bubble(t, worker.Config{Drain: time.Hour}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(2*time.Hour))
		r.push(1, duly.Job{})
		r.start()
		r.end()
		advance(time.Minute)
		synctest.Wait()
		select {
		case <-r.ended:
			t.Fatal("stopped without waiting for its handler")
		default:
		}

		r.Kill()
		r.Kill()
		if took := r.stop(); took > time.Second {
			t.Errorf("ended %v after Kill", took)
		}
		r.want("release")
	})
}

func TestKillEndsARunningWorker(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(2*time.Hour))
		r.push(1, duly.Job{})
		r.start()
		r.Kill()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		r.want("release")
		r.end()
	})
}

func TestStopReleasesJobsOfAReserveInFlight(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.recorder.Engine = slowEngine{r.memory, 3 * time.Second}
		r.Handle("q", sleeper(0))
		r.push(5, duly.Job{})
		r.start()
		advance(time.Second)
		if took := r.stop(); took != 2*time.Second {
			t.Errorf("stopped after %v", took)
		}
		r.want("release", "release", "release", "release", "release")
	})
}

// The worker waits for a lost store for the drain limit at most.
func TestLostStoreDoesNotDelayTheStop(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(time.Second))
		r.push(1, duly.Job{})
		r.start()
		r.recorder.fail(always(duly.ErrUnavailable, allOperations...), nil)
		if took := r.stop(); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("stopped after %v", took)
		}
		r.want()
	})
}

func TestDrainSettlesWhenTheStoreIsBack(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(time.Second))
		r.push(1, duly.Job{})
		r.start()
		r.recorder.fail(always(duly.ErrUnavailable, allOperations...), nil)
		time.AfterFunc(20*time.Second, func() { r.recorder.fail(nil, nil) })
		if took := r.stop(); took > 22*time.Second {
			t.Errorf("stopped after %v", took)
		}
		r.want("ack")
	})
}

// slowSettle is an engine whose Settle takes some time, unless its context ends.
type slowSettle struct{ duly.Engine }

func (e slowSettle) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	select {
	case <-time.After(5 * time.Second):
		return e.Engine.Settle(ctx, namespace, outcomes)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestDrainWaitsForTheLastSettle(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.recorder.Engine = slowSettle{r.memory}
		r.Handle("q", sleeper(time.Second))
		r.push(1, duly.Job{})
		r.start()
		advance(2 * time.Second) // the handler has ended
		if took := r.stop(); took != 4*time.Second {
			t.Errorf("the drain took %s, want 4s", took)
		}
		r.want("ack")
	})
}

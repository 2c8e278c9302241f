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

// C9: told to stop, the worker takes no more jobs, finishes what runs, and
// leaves no lease to run out.
func TestDrainFinishesWhatRuns(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 10}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(20*time.Second))
		r.push(100, duly.Job{})
		r.start()
		pass(5 * time.Second)
		if took := r.stop(); took != 15*time.Second {
			t.Errorf("drained in %v", took)
		}
		if got := r.outcomes(); len(got) != 10 || len(r.lines.leased) != 0 {
			t.Errorf("settled %q, %d leases left", got, len(r.lines.leased))
		}
	})
}

func TestAnIdleWorkerStopsAtOnce(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(0))
		r.start()
		pass(time.Minute)
		if took := r.stop(); took != 0 {
			t.Errorf("stopped after %v", took)
		}
	})
}

func TestDrainKeepsTheLeasesOfWhatRuns(t *testing.T) {
	bubble(t, worker.Config{Drain: time.Hour}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(30*time.Minute))
		r.push(1, duly.Job{})
		r.start()
		if took := r.stop(); took != 30*time.Minute || r.tap.count("extend") < 100 {
			t.Errorf("drained in %v with %d extensions", took, r.tap.count("extend"))
		}
		r.want("ack")
	})
}

func TestAfterTheDrainLimitTheRestIsReleasedWithoutATry(t *testing.T) {
	deaf := func(context.Context, *worker.Delivery) error { time.Sleep(time.Hour); return nil }
	tests := []struct {
		name    string
		drain   time.Duration
		handler worker.HandlerFunc
		want    string
		most    time.Duration
	}{
		{"Heeds", 0, sleeper(time.Hour), "release", 30 * time.Second},
		{"OwnLimit", time.Minute, sleeper(time.Hour), "release", time.Minute},
		{"NoDrain", duly.None, sleeper(time.Hour), "release", 0},
		{"Deaf", 0, deaf, "release", 31 * time.Second},
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
				if len(r.lines.leased) != 0 {
					t.Error("a lease is left")
				}
				pass(2 * time.Hour) // a deaf handler returns to nobody
				r.want(tt.want)
			})
		})
	}
}

func TestKillCutsTheDrainShort(t *testing.T) {
	bubble(t, worker.Config{Drain: time.Hour}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(2*time.Hour))
		r.push(1, duly.Job{})
		r.start()
		r.end()
		pass(time.Minute)
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

// What a Reserve brings that was under way when the worker was told to stop is
// given back, not started.
func TestAReserveUnderWayAtTheStopIsGivenBack(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.tap.Engine = slow{r.lines, 3 * time.Second}
		r.Handle("q", sleeper(0))
		r.push(5, duly.Job{})
		r.start()
		pass(time.Second)
		if took := r.stop(); took != 2*time.Second {
			t.Errorf("stopped after %v", took)
		}
		r.want("release", "release", "release", "release", "release")
	})
}

// A store that is lost while the worker stops is waited for as long as the
// drain may last, not longer.
func TestALostStoreDoesNotHoldTheStopUp(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(time.Second))
		r.push(1, duly.Job{})
		r.start()
		r.tap.fail(always(duly.ErrUnavailable, everything...), nil)
		if took := r.stop(); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("stopped after %v", took)
		}
		r.want()
	})
}

func TestAStoreThatComesBackWhileDrainingIsStillSettled(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.Handle("q", sleeper(time.Second))
		r.push(1, duly.Job{})
		r.start()
		r.tap.fail(always(duly.ErrUnavailable, everything...), nil)
		time.AfterFunc(20*time.Second, func() { r.tap.fail(nil, nil) })
		if took := r.stop(); took > 22*time.Second {
			t.Errorf("stopped after %v", took)
		}
		r.want("ack")
	})
}

// settlingSlowly is an engine whose Settle takes a while, unless its context ends.
type settlingSlowly struct{ duly.Engine }

func (e settlingSlowly) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	select {
	case <-time.After(5 * time.Second):
		return e.Engine.Settle(ctx, namespace, outcomes)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A drain waits for the Settle under way.
func TestADrainWaitsForTheLastSettle(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.tap.Engine = settlingSlowly{r.lines}
		r.Handle("q", sleeper(time.Second))
		r.push(1, duly.Job{})
		r.start()
		pass(2 * time.Second) // the handler has ended
		if took := r.stop(); took != 4*time.Second {
			t.Errorf("the drain took %s, want 4s", took)
		}
		r.want("ack")
	})
}

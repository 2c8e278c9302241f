package pools_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/pools"
)

// wait starts a Wait of two minutes. The channel receives whether the Wait returned ready. wait and
// tick must be called in a synctest bubble.
func (r *rig) wait() chan bool {
	woken := make(chan bool, 1)
	p := duly.WaitParams{Namespace: "shop", Queues: []string{"q"}, Timeout: 2 * time.Minute}
	go func() {
		ready, err := r.Wait(r.t.Context(), p)
		woken <- ready && err == nil
	}()
	synctest.Wait()
	return woken
}

// tick advances the clock second by second.
func (r *rig) tick(d time.Duration) {
	for range int(d / time.Second) {
		r.clock.Advance(time.Second)
		synctest.Wait()
	}
}

// Both pools wake a caller that waits during a move.
func TestWaitDuringMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "orders")
		r.pushJob(duly.Job{ID: "later", Delay: time.Minute})
		r.move("shop", "orders")

		woken := r.wait()
		r.pushJob(duly.Job{ID: "new"})
		synctest.Wait()
		if len(woken) != 1 || !<-woken {
			t.Fatal("a push to the new pool does not wake the caller")
		}

		_, receipts := r.reserve(1, "q")
		r.ack(receipts...)
		woken = r.wait()
		r.tick(time.Minute)
		if len(woken) != 1 || !<-woken {
			t.Fatal("a job that becomes due in the old pool does not wake the caller")
		}

		_, receipts = r.reserve(1, "q")
		r.ack(receipts...)
		woken = r.wait()
		r.tick(119 * time.Second)
		if len(woken) != 0 {
			t.Fatal("Wait has ended early")
		}
		r.tick(2 * time.Second)
		if len(woken) != 1 || <-woken {
			t.Fatal("Wait does not end in time")
		}
	})
}

// A push to the new pool of a namespace wakes a caller that began to wait before the change of the
// pool.
func TestWaitBegunBeforeMove(t *testing.T) {
	t.Parallel()
	changes := map[string]func(r *rig){
		"by a move": func(r *rig) {
			r.must(createToken(r.t.Context(), r.Pools, "shop"))
			_, err := r.Move(r.t.Context(), "shop", "orders")
			r.must(err)
			r.must(r.Advance(r.t.Context()))
			r.tick(pools.Propagation)
			r.must(r.Advance(r.t.Context()))
			if r.phase("shop") != contract.Draining {
				r.t.Fatalf("the phase is %q", r.phase("shop"))
			}
		},
		"by its first placement": func(r *rig) {
			r.must(r.Assign(r.t.Context(), "shop", "orders"))
			r.tick(pools.Propagation)
		},
	}

	for how, change := range changes {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "orders")
				woken := r.wait()
				change(r)
				r.pushJob(duly.Job{ID: "x"})
				synctest.Wait()
				if len(woken) != 1 || !<-woken {
					r.tick(2 * time.Minute)
					t.Error("the push does not wake the caller")
				}
			})
		})
	}
}

// C4.102: Pass wakes the next waiter, even if the caller has left.
func TestPassWakesNextWaiter(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(ctx context.Context, r *rig){
		"by Pass": func(ctx context.Context, r *rig) { r.Pass(ctx, "shop", []string{"q"}) },
		"by a Reserve that fails": func(ctx context.Context, r *rig) {
			p := duly.ReserveParams{Namespace: "shop", Queues: []string{"q"}, Max: 1}
			got, err := r.Reserve(ctx, p)
			if len(got) > 0 || err == nil {
				r.t.Errorf("Reserve without a caller returned %v, %v", got, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "orders")
				first, second := r.wait(), r.wait()
				r.pushJob(duly.Job{ID: "x"})
				synctest.Wait()
				if len(first)+len(second) != 1 {
					t.Fatalf("%d and %d callers are woken", len(first), len(second))
				}

				gone, leave := context.WithCancel(t.Context())
				leave()
				pass(gone, r)
				synctest.Wait()
				if len(first)+len(second) != 2 {
					r.tick(3 * time.Second)
					t.Error("the other caller is not woken")
				}
			})
		})
	}
}

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

// wait begins a Wait of two minutes; it tells whether that was woken. Like tick
// it is for a bubble.
func (r *rig) wait() chan bool {
	woken := make(chan bool, 1)
	go func() {
		ready, err := r.Wait(r.t.Context(), duly.WaitParams{Namespace: "shop", Queues: []string{"q"}, Timeout: 2 * time.Minute})
		woken <- ready && err == nil
	}()
	synctest.Wait()
	return woken
}

// tick lets time pass, a second after the other.
func (r *rig) tick(d time.Duration) {
	for range int(d / time.Second) {
		r.clock.Advance(time.Second)
		synctest.Wait()
	}
}

// A waiter is woken by either pool.
func TestWaitOverAMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "orders")
		r.pushJob(duly.Job{ID: "later", Delay: time.Minute})
		r.move("shop", "orders")
		woken := r.wait()
		r.pushJob(duly.Job{ID: "new"})
		synctest.Wait()
		if len(woken) != 1 || !<-woken {
			t.Fatal("a push to the new pool wakes nobody")
		}
		_, receipts := r.take(1, "q")
		r.ack(receipts...)
		woken = r.wait()
		r.tick(time.Minute)
		if len(woken) != 1 || !<-woken {
			t.Fatal("a job that becomes due in the old pool wakes nobody")
		}
		_, receipts = r.take(1, "q")
		r.ack(receipts...)
		woken = r.wait()
		r.tick(119 * time.Second)
		if len(woken) != 0 {
			t.Fatal("it has ended early")
		}
		r.tick(2 * time.Second)
		if len(woken) != 1 || <-woken {
			t.Fatal("it does not end in time")
		}
	})
}

// What is pushed to the pool that a namespace has gone to wakes those who have
// waited since before that.
func TestWaitBegunBeforeItsNamespaceHasGone(t *testing.T) {
	t.Parallel()
	goes := map[string]func(r *rig){
		"by a move": func(r *rig) {
			r.must(meet(r.t.Context(), r.Pools, "shop"))
			_, err := r.Move(r.t.Context(), "shop", "orders")
			r.must(err)
			r.must(r.CarryOn(r.t.Context()))
			r.tick(pools.Settle)
			r.must(r.CarryOn(r.t.Context()))
			if r.phase("shop") != contract.Draining {
				r.t.Fatalf("it is %q", r.phase("shop"))
			}
		},
		"by its first placement": func(r *rig) {
			r.must(r.Assign(r.t.Context(), "shop", "orders"))
			r.tick(pools.Settle)
		},
	}
	for how, leave := range goes {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "orders")
				woken := r.wait()
				leave(r)
				r.pushJob(duly.Job{ID: "x"})
				synctest.Wait()
				if len(woken) != 1 || !<-woken {
					r.tick(2 * time.Minute)
					t.Error("it wakes nobody")
				}
			})
		})
	}
}

// C4.102: a woken caller that does not reserve passes its wake-up on, also when it
// has gone and every call looks its namespace up.
func TestWakeUpIsPassedOn(t *testing.T) {
	t.Parallel()
	for name, pass := range map[string]func(ctx context.Context, r *rig){
		"by Pass": func(ctx context.Context, r *rig) { r.Pass(ctx, "shop", []string{"q"}) },
		"by a Reserve that fails": func(ctx context.Context, r *rig) {
			got, err := r.Reserve(ctx, duly.ReserveParams{Namespace: "shop", Queues: []string{"q"}, Max: 1})
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
					t.Fatalf("%d and %d are woken", len(first), len(second))
				}

				gone, leave := context.WithCancel(t.Context())
				leave()
				pass(gone, r)
				synctest.Wait()
				if len(first)+len(second) != 2 {
					r.tick(3 * time.Second)
					t.Error("nobody else is woken")
				}
			})
		})
	}
}

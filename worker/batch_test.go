package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// batches records the IDs of every batch, and the time at which it was handled.
type batches struct {
	mu   sync.Mutex
	seen []string
	at   []time.Time
}

func (b *batches) note(deliveries []*worker.Delivery) {
	ids := make([]string, len(deliveries))
	for i, d := range deliveries {
		ids[i] = d.ID
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen, b.at = append(b.seen, strings.Join(ids, " ")), append(b.at, time.Now())
}

func (b *batches) ok(deliveries []*worker.Delivery) []error {
	b.note(deliveries)
	return nil
}

func (b *batches) want(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.seen, want) {
		t.Errorf("handled %q, want %q", b.seen, want)
	}
}

func TestFullBatchStartsAtOnce(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 16}, func(t *testing.T, r *rig) {
		var b batches
		r.HandleBatch("q", 3, time.Minute, b.ok)
		r.push(7, duly.Job{})
		r.start()
		b.mu.Lock()
		slices.Sort(b.seen) // the batches run concurrently
		b.mu.Unlock()
		b.want(t, "1 2 3", "4 5 6")
		advance(time.Minute)
		b.want(t, "1 2 3", "4 5 6", "7")
		r.stop()
		r.want(slices.Repeat([]string{"ack"}, 7)...)
	})
}

// The waiting time starts with the first delivery of each batch.
func TestBatchStartsWhenItsFirstDeliveryHasWaited(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 16}, func(t *testing.T, r *rig) {
		var b batches
		r.HandleBatch("q", 4, 10*time.Second, b.ok)
		r.start()
		begin := time.Now()
		r.push(2, duly.Job{ID: "a"})
		advance(6 * time.Second)
		b.want(t)
		r.push(1, duly.Job{ID: "b"})
		advance(4 * time.Second)
		b.want(t, "a1 a2 b1")
		r.push(1, duly.Job{ID: "c"})
		advance(9 * time.Second)
		b.want(t, "a1 a2 b1")
		advance(time.Second)
		b.want(t, "a1 a2 b1", "c1")

		for i, want := range []time.Duration{10 * time.Second, 20 * time.Second} {
			if took := b.at[i].Sub(begin); took != want {
				t.Errorf("batch %d was handled after %s, want %s", i, took, want)
			}
		}
		r.stop()
	})
}

func TestBatchWithoutAWaitHasOneReserve(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 16}, func(t *testing.T, r *rig) {
		var b batches
		r.HandleBatch("q", 10, 0, b.ok)
		r.push(4, duly.Job{})
		r.start()
		b.want(t, "1 2 3 4")
		r.stop()
	})
}

func TestBatchSettlesEachDeliveryByItsError(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		r.HandleBatch("q", 6, time.Minute, func(deliveries []*worker.Delivery) []error {
			_ = deliveries[0].SetResult([]byte("done"))
			return []error{nil, errors.New("boom"), worker.RetryAfter(time.Minute, nil),
				worker.Bury(errors.New("bad")), worker.Snooze(time.Second), worker.Release()}
		})
		r.push(6, duly.Job{})
		r.start()
		r.stop()
		r.want("ack = done", "nack: boom", "nack 1m0s: nack for 1m", "bury: bad", "release 1s", "release")
	})
}

func TestFailedBatchNacksEveryJob(t *testing.T) {
	for name, tt := range map[string]struct {
		handler worker.BatchFunc
		want    string
	}{
		"panic": {func([]*worker.Delivery) []error { panic("boom") }, "panic: boom"},
		"too few errors": {func([]*worker.Delivery) []error { return []error{nil, nil} },
			"returned 2 errors for 3 deliveries"},
		"Goexit": {func([]*worker.Delivery) []error { runtime.Goexit(); return nil }, "Goexit"},
		"bad error": {func(d []*worker.Delivery) []error { return []error{nil, nil, panicError{}} },
			"panic: of an error"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
				r.HandleBatch("q", 3, time.Minute, tt.handler)
				r.push(3, duly.Job{})
				r.start()
				r.stop()
				got := r.outcomes()
				if len(got) != 3 {
					t.Fatalf("settled %q", got)
				}

				for _, outcome := range got {
					if !strings.HasPrefix(outcome, "nack: ") || !strings.Contains(outcome, tt.want) {
						t.Errorf("settled %.80q, want a nack with the text %s", outcome, tt.want)
					}
				}
			})
		})
	}
}

// panicError is an error whose method panics.
type panicError struct{}

func (panicError) Error() string { panic("of an error") }

// C12.92: a delivery that has failed or stalled twice is handled in a separate batch, so that it
// cannot fail others.
func TestSuspectJobIsABatchOfItsOwn(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 16}, func(t *testing.T, r *rig) {
		var b batches
		r.HandleBatch("q", 3, time.Second, b.ok)
		r.push(5, duly.Job{})
		r.memory.mu.Lock()
		r.memory.queues["q"][1].Failures = 2
		r.memory.queues["q"][2].Stalls = 2
		r.memory.queues["q"][3].Failures, r.memory.queues["q"][3].Stalls = 1, 1
		r.memory.mu.Unlock()
		r.start()
		b.mu.Lock()
		slices.Sort(b.seen)
		b.mu.Unlock()
		b.want(t, "1 4 5", "2", "3")
		r.stop()
	})
}

// A running batch finishes.
func TestStopReleasesAWaitingBatch(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 16}, func(t *testing.T, r *rig) {
		r.HandleBatch("q", 3, time.Minute, func([]*worker.Delivery) []error {
			sleep(5 * time.Second)
			return nil
		})
		r.push(5, duly.Job{})
		r.start()
		if took := r.stop(); took != 5*time.Second {
			t.Errorf("stopped after %s, want 5s", took)
		}
		r.want("release", "release", "ack", "ack", "ack")
	})
}

// A batch leaves out a delivery whose lease was lost.
func TestLeasesAreRenewedWhileABatchWaits(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 16}, func(t *testing.T, r *rig) {
		var b batches
		r.HandleBatch("q", 3, 2*time.Minute, b.ok)
		r.push(2, duly.Job{Lease: 10 * time.Second})
		lost := r.memory.queues["q"][0].Receipt
		r.start()
		advance(time.Minute)
		if n := r.recorder.count("extend"); n < 5 {
			t.Errorf("%d extensions within six leases", n)
		}
		r.memory.mu.Lock()
		delete(r.memory.leased, lost)
		r.memory.mu.Unlock()
		advance(time.Minute)
		b.want(t, "2")
		r.stop()
	})
}

// Each context ends with the lease of its delivery.
func TestDeliveriesOfABatchHaveContexts(t *testing.T) {
	bubble(t, worker.Config{Drain: time.Second}, func(t *testing.T, r *rig) {
		r.HandleBatch("q", 2, time.Minute, func(deliveries []*worker.Delivery) []error {
			errs := make([]error, len(deliveries))
			for i, d := range deliveries {
				if own, ok := worker.FromContext(d.Context()); !ok || own != d {
					t.Errorf("delivery %d has the context of another one", i)
				}
				<-d.Context().Done()
				errs[i] = context.Cause(d.Context())
			}
			return errs
		})
		r.push(2, duly.Job{})
		r.start()
		r.stop()
		r.want("release", "release")
	})
}

func TestDefaultConcurrencyHoldsTwoBatches(t *testing.T) {
	bubble(t, worker.Config{}, func(t *testing.T, r *rig) {
		var b batches
		r.HandleBatch("q", 100, time.Minute, b.ok)
		r.push(200, duly.Job{})
		r.start()
		b.mu.Lock()
		n := len(b.seen)
		b.mu.Unlock()
		if n != 2 {
			t.Errorf("%d batches of 100 were handled, want 2", n)
		}
		r.stop()
	})
}

func TestRunRefusesBadBatches(t *testing.T) {
	t.Parallel()
	h := func([]*worker.Delivery) []error { return nil }
	for want, add := range map[string]func(w *worker.Worker){
		"handler of queue q is nil":                    func(w *worker.Worker) { w.HandleBatch("q", 1, 0, nil) },
		"batch of queue q is 0, must be between 1 and": func(w *worker.Worker) { w.HandleBatch("q", 0, 0, h) },
		"batch of queue q is 1001, must be between":    func(w *worker.Worker) { w.HandleBatch("q", 1001, 0, h) },
		"wait of queue q is -1s":                       func(w *worker.Worker) { w.HandleBatch("q", 1, -time.Second, h) },
		"concurrency is 8, must be at least 9, the ba": func(w *worker.Worker) { w.HandleBatch("q", 9, 0, h) },
		"middleware of queue q is set, but a batch": func(w *worker.Worker) {
			w.HandleBatch("q", 1, 0, h, worker.With(func(n worker.HandlerFunc) worker.HandlerFunc { return n }))
		},
		"queue q is handled twice": func(w *worker.Worker) {
			w.HandleBatch("q", 1, 0, h)
			w.HandleBatch("q", 1, 0, h)
		},
	} {
		w := worker.New(newMemoryEngine(), worker.Config{Concurrency: 8})
		add(w)
		if err := w.Run(t.Context()); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/worker"
)

// The service handles eight calls at once, and lets the others wait. Its latency then
// rises, and the limit settles near the capacity, far from both bounds.
func TestLimitFollowsTheLatencyOfTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := dulytest.New(t)
		jobs := make([]duly.Job, 1000)
		for i := range jobs {
			jobs[i] = duly.Job{Queue: "calls"}
		}
		for range 20 {
			if _, err := e.Client().PushMany(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
			for i := range jobs {
				jobs[i].ID = ""
			}
		}

		var mu sync.Mutex
		inUse := 0
		capacity := make(chan struct{}, 8)
		count := func(n int) {
			mu.Lock()
			inUse += n
			mu.Unlock()
		}
		ctx, stop := context.WithCancel(t.Context())
		w := newWorker(e, "calls", func(ctx context.Context, _ *worker.Delivery) error {
			count(1)
			defer count(-1)
			capacity <- struct{}{}
			time.Sleep(50 * time.Millisecond)
			<-capacity
			return nil
		})
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()

		time.Sleep(2 * time.Minute)
		synctest.Wait()
		mu.Lock()
		if inUse < 5 || inUse > 32 {
			t.Errorf("%d slots are in use with a capacity of 8, want 5 to 32", inUse)
		}
		mu.Unlock()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run returns %v", err)
		}
	})
}

// Failures must not look like fast calls, and a panic must not keep its permit.
func TestMiddlewareReturnsEveryPermit(t *testing.T) {
	t.Parallel()
	l := newLimiter(4, maxHandlers)
	for name, end := range map[string]func() error{
		"Ack":   func() error { return nil },
		"Nack":  func() error { return errors.New("503") },
		"Panic": func() error { panic("boom") },
	} {
		func() {
			defer func() { _ = recover() }()
			h := l.middleware(func(context.Context, *worker.Delivery) error { return end() })
			_ = h(t.Context(), &worker.Delivery{})
		}()
		if n := l.Inflight(); n != 0 {
			t.Errorf("%s: %d permits are in use, want 0", name, n)
		}
	}
}

func TestHandlerRunsWithoutAPermitAfterTheLimitFell(t *testing.T) {
	t.Parallel()
	l := newLimiter(1, maxHandlers)
	permit, _ := l.TryAcquirePermit()
	defer permit.Drop()
	ran := false
	h := l.middleware(func(context.Context, *worker.Delivery) error {
		ran = true
		return nil
	})
	if err := h(t.Context(), &worker.Delivery{}); err != nil || !ran {
		t.Errorf("the handler ran is %v, %v", ran, err)
	}
}

package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/worker"
)

// gauge counts handlers that run at once.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

func (g *gauge) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now += n
	g.most = max(g.most, g.now)
}

// since returns the most that ran at once since the last call.
func (g *gauge) since() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.most
	g.most = g.now
	return most
}

func after(d time.Duration) {
	_ = clock.Sleep(context.Background(), clock.System(), d)
	synctest.Wait()
}

func TestTheLimiterFollowsTheHandlers(t *testing.T) {
	for name, ends := range map[string]struct {
		took time.Duration
		err  error
	}{
		"Nacks":        {10 * time.Millisecond, errors.New("the database is down")},
		"SlowHandlers": {400 * time.Millisecond, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			took, failure := 10*time.Millisecond, error(nil)
			var limits []int
			o := worker.Observer{Limit: func(n int) { limits = append(limits, n) }}
			bubble(t, worker.Config{Concurrency: 16, Limiter: &worker.Limiter{}, Observer: o},
				func(t *testing.T, r *rig) {
					var g gauge
					r.Handle("q", func(ctx context.Context, _ *worker.Delivery) error {
						g.add(1)
						defer g.add(-1)
						mu.Lock()
						d, err := took, failure
						mu.Unlock()
						_ = clock.Sleep(ctx, clock.System(), d)
						return err
					})
					r.push(50_000, duly.Job{})
					r.start()
					after(5 * time.Millisecond)
					if n := g.since(); n != worker.DefaultLimit {
						t.Errorf("%d handlers run at the start, want %d", n, worker.DefaultLimit)
					}
					after(5 * time.Second)
					if n := g.since(); n != 16 {
						t.Errorf("%d handlers run while all is well, want all 16", n)
					}

					mu.Lock()
					took, failure = ends.took, ends.err
					mu.Unlock()
					after(5 * time.Second)
					g.since()
					after(2 * time.Second)
					if n := g.since(); n > 2 {
						t.Errorf("%d handlers run 5 s after the trouble began, want 1 or 2", n)
					}

					mu.Lock()
					took, failure = 10*time.Millisecond, nil
					mu.Unlock()
					after(10 * time.Second)
					g.since()
					after(time.Second)
					if n := g.since(); n != 16 {
						t.Errorf("%d handlers run after the trouble, want all 16", n)
					}
					r.stop()
					if len(limits) < 4 {
						t.Errorf("the observer has seen the limits %v", limits)
					}
				})
		})
	}
}

func TestTheLimiterLearnsNothingFromReleases(t *testing.T) {
	bubble(t, worker.Config{Concurrency: 8, Limiter: &worker.Limiter{Start: 8}}, func(t *testing.T, r *rig) {
		var g gauge
		r.Handle("q", func(ctx context.Context, _ *worker.Delivery) error {
			g.add(1)
			defer g.add(-1)
			_ = clock.Sleep(ctx, clock.System(), 10*time.Millisecond)
			return worker.Snooze(time.Hour)
		})
		r.push(10_000, duly.Job{})
		r.start()
		after(5 * time.Second)
		g.since()
		after(time.Second)
		if n := g.since(); n != 8 {
			t.Errorf("%d handlers run, want 8", n)
		}
		r.stop()
	})
}

func TestBadLimiters(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]*worker.Worker{
		"limiter.start is 9": worker.New(newLineEngine(),
			worker.Config{Concurrency: 8, Limiter: &worker.Limiter{Start: 9}}),
		"limiter.start is -1":       worker.New(newLineEngine(), worker.Config{Limiter: &worker.Limiter{Start: -1}}),
		"queue q is handled in bat": worker.New(newLineEngine(), worker.Config{Limiter: &worker.Limiter{}}),
	} {
		w.HandleBatch("q", 2, 0, func([]*worker.Delivery) []error { return nil })
		if err := w.Run(t.Context()); !errors.Is(err, duly.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Run returns %v, want %q", err, want)
		}
	}
}

package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// run is one run of a phase, or the loading of jobs before one.
type run struct {
	total   int64        // jobs to do
	claimed atomic.Int64 // jobs that somebody has begun
	done    atomic.Int64 // jobs that are finished
	early   atomic.Int64 // jobs that came before their time
	behind  atomic.Int64 // jobs that were pushed only when they were due already
	latency Histogram
	start   time.Duration // on the clock's Mono
	elapsed time.Duration
	cpu     time.Duration // of this process, meanwhile
	server  Reading       // what the server has used meanwhile

	// live ends when no new call is to be made: at the bound in time, at the
	// first error, or when the caller's context ends. Calls in flight are not
	// touched by it.
	live context.Context
	stop context.CancelCauseFunc
}

// errTime is why a run ends that has reached its bound in time.
var errTime = errors.New("bench: the time is over")

func newRun(ctx context.Context, total int) *run {
	r := &run{total: int64(total)}
	r.live, r.stop = context.WithCancelCause(ctx)
	return r
}

// timed lets the run end at its bound in time; the function that it returns
// ends that.
func (r *run) timed(clk clock.Clock, bound time.Duration) (cancel func()) {
	t := clk.AfterFunc(bound, func() { r.stop(errTime) })
	return func() { t.Stop() }
}

// cut reports whether the run ended at its bound in time.
func (r *run) cut() bool { return context.Cause(r.live) == errTime }

// claim takes up to n jobs to do and tells the number of the first, from 0; n
// is 0 when there is nothing left to do, or no new call is to be made.
func (r *run) claim(n int) (first int64, got int) {
	for r.live.Err() == nil {
		first = r.claimed.Load()
		got = int(min(int64(n), r.total-first))
		if got <= 0 {
			return 0, 0
		}
		if r.claimed.CompareAndSwap(first, first+int64(got)) {
			return first, got
		}
	}
	return 0, 0
}

// unclaim gives back jobs that were claimed and not done.
func (r *run) unclaim(n int) { r.claimed.Add(-int64(n)) }

// each runs f on n goroutines and returns the first error, which also ends the
// run for the others.
func (r *run) each(n int, f func() error) error {
	var wg sync.WaitGroup
	var first error
	var once sync.Once
	for range n {
		wg.Go(func() {
			if err := f(); err != nil {
				once.Do(func() { first = err })
				r.stop(err)
			}
		})
	}
	wg.Wait()
	return first
}

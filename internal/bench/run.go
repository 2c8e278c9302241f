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
	total   int64        // number of jobs to do
	claimed atomic.Int64 // number of jobs that goroutines have claimed
	done    atomic.Int64 // number of finished jobs
	early   atomic.Int64 // number of jobs delivered before they were due
	behind  atomic.Int64 // number of jobs pushed after they were due
	latency Histogram
	start   time.Duration // start on the clock's Mono
	elapsed time.Duration
	cpu     time.Duration // CPU time of this process during the run
	server  Reading       // usage of the server during the run

	// live is the context of the run. It ends when no new call may start: at the time limit, at the
	// first error, or when the caller's context ends. Calls in flight continue.
	live context.Context
	stop context.CancelCauseFunc
}

// errTime ends a run at its time limit.
var errTime = errors.New("bench: the time limit of the run was reached")

func newRun(ctx context.Context, total int) *run {
	r := &run{total: int64(total)}
	r.live, r.stop = context.WithCancelCause(ctx)
	return r
}

// timed ends the run at its time limit. The returned function stops the timer.
func (r *run) timed(clk clock.Clock, bound time.Duration) (cancel func()) {
	t := clk.AfterFunc(bound, func() { r.stop(errTime) })
	return func() { t.Stop() }
}

// cut reports whether the run ended at its time limit.
func (r *run) cut() bool { return context.Cause(r.live) == errTime }

// claim claims up to n jobs to do, and returns the index of the first one. got is 0 when no job is
// left, or no new call may start.
func (r *run) claim(n int) (first int64, got int) {
	// After the run has ended, no more jobs can be claimed.
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

// unclaim returns jobs that were claimed and not done.
func (r *run) unclaim(n int) { r.claimed.Add(-int64(n)) }

// each runs f on n goroutines and returns the first error, which also ends the run for the other
// goroutines.
func (r *run) each(n int, f func() error) error {
	var wg sync.WaitGroup
	var first error
	var once sync.Once
	for range n {
		wg.Go(func() {
			if err := f(); err != nil {
				// Only the first error counts, because stopping the run causes further errors.
				once.Do(func() { first = err })
				r.stop(err)
			}
		})
	}
	wg.Wait()
	return first
}

package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// watchIdle is how long a namespace is watched after its last job was reserved:
	// longer than any request may take.
	watchIdle = 15 * time.Minute
	// mostWatched bounds the namespaces that are watched, because a watch may need a
	// connection. In others, the next extension finds that a job was removed.
	mostWatched = 64
	// watchPause is the pause after a watch that failed.
	watchPause = time.Second
)

// removed watches for removed jobs in the namespaces of the jobs that are sent, and
// reports those of all of them as one watch. A report without its namespace may name
// another job too. It is a hint: the worker asks about the lease.
type removed struct {
	engine contract.CancelWatcher // nil: it reports no removed jobs
	clock  duly.Clock

	mu      sync.Mutex
	ctx     context.Context // of the worker's watch; nil: there is none
	used    map[string]time.Duration
	running sync.WaitGroup

	reports sync.Mutex // held in each call of watch
	watch   contract.CancelWatch
}

func newRemoved(engine duly.Engine, c duly.Clock) *removed {
	r := &removed{clock: c, used: map[string]time.Duration{}}
	r.engine, _ = engine.(contract.CancelWatcher)
	return r
}

// WatchCancels implements [contract.CancelWatcher] for all namespaces.
func (f *feed) WatchCancels(ctx context.Context, _ string, w contract.CancelWatch) error {
	return f.removed.follow(ctx, w)
}

// follow reports removed jobs to the worker until ctx ends.
func (r *removed) follow(ctx context.Context, w contract.CancelWatch) error {
	r.mu.Lock()
	r.ctx, r.watch = ctx, w
	for namespace := range r.used {
		r.begin(namespace)
	}
	r.mu.Unlock()

	<-ctx.Done()
	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	r.running.Wait()
	return ctx.Err()
}

// use watches a namespace from now on, because jobs of it were reserved.
func (r *removed) use(namespace string) {
	if r.engine == nil {
		return
	}
	now := r.clock.Mono()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, is := r.used[namespace]; !is && len(r.used) == mostWatched {
		return
	} else if !is && r.ctx != nil {
		r.begin(namespace)
	}
	r.used[namespace] = now
}

// begin begins the watch of a namespace. r.mu is held.
func (r *removed) begin(namespace string) {
	ctx, stop := context.WithCancel(r.ctx)
	r.running.Go(func() { defer stop(); r.rest(ctx, namespace) })
	r.running.Go(func() { r.keep(ctx, namespace) })
}

// rest returns when a namespace was not used for long, or when ctx ends.
func (r *removed) rest(ctx context.Context, namespace string) {
	for {
		r.mu.Lock()
		left := r.used[namespace] + watchIdle - r.clock.Mono()
		if left <= 0 {
			delete(r.used, namespace)
		}
		r.mu.Unlock()
		if left <= 0 || clock.Sleep(ctx, r.clock, left) != nil {
			return
		}
	}
}

// keep watches a namespace until ctx ends. A watch that fails is begun again.
func (r *removed) keep(ctx context.Context, namespace string) {
	report := func(do func()) {
		r.reports.Lock()
		defer r.reports.Unlock()
		if ctx.Err() == nil {
			do()
		}
	}
	for ctx.Err() == nil {
		_ = r.engine.WatchCancels(ctx, namespace, contract.CancelWatch{
			Ready:    func() { report(r.watch.Ready) },
			Canceled: func(c contract.Canceled) { report(func() { r.watch.Canceled(c) }) },
		})
		_ = clock.Sleep(ctx, r.clock, watchPause) // the loop looks at ctx
	}
}

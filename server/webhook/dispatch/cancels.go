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
	// watchIdle is how long a namespace is watched after its last reserved job: longer than
	// the timeout of a request.
	watchIdle = 15 * time.Minute
	// maxWatched is the largest number of watched namespaces, because a watch may need a
	// connection. In other namespaces, the next extension of the lease shows that a job was
	// removed.
	maxWatched = 64
	// watchPause is the pause after a watch that failed.
	watchPause = time.Second
)

// cancelWatcher watches the namespaces of the jobs in flight for removed jobs, and reports them as
// one watch. A report has no namespace, so it may match a job of another namespace. That does no
// harm, because the worker checks the lease after each report.
type cancelWatcher struct {
	engine contract.CancelWatcher // nil if the engine does not report removed jobs
	clock  duly.Clock

	mu      sync.Mutex
	ctx     context.Context // context of the worker's watch; nil without a watch
	lastUse map[string]time.Duration
	running sync.WaitGroup

	reports sync.Mutex // held during each call to watch
	watch   contract.CancelWatch
}

func newCancelWatcher(engine duly.Engine, c duly.Clock) *cancelWatcher {
	r := &cancelWatcher{clock: c, lastUse: map[string]time.Duration{}}
	r.engine, _ = engine.(contract.CancelWatcher)
	return r
}

// WatchCancels implements [contract.CancelWatcher] for all namespaces.
func (f *feed) WatchCancels(ctx context.Context, _ string, w contract.CancelWatch) error {
	return f.cancels.run(ctx, w)
}

// run reports removed jobs to the worker until ctx ends.
func (r *cancelWatcher) run(ctx context.Context, w contract.CancelWatch) error {
	r.mu.Lock()
	r.ctx, r.watch = ctx, w
	// Jobs may have been reserved before the worker began to watch.
	for namespace := range r.lastUse {
		r.start(namespace)
	}
	r.mu.Unlock()

	<-ctx.Done()
	r.mu.Lock()
	r.ctx = nil
	r.mu.Unlock()
	r.running.Wait()
	return ctx.Err()
}

// use watches the namespace of reserved jobs.
func (r *cancelWatcher) use(namespace string) {
	if r.engine == nil {
		return
	}
	now := r.clock.Mono()
	r.mu.Lock()
	defer r.mu.Unlock()
	// A namespace beyond the bound is left out, and its jobs end at the next extension.
	if _, ok := r.lastUse[namespace]; !ok && len(r.lastUse) == maxWatched {
		return
	} else if !ok && r.ctx != nil {
		r.start(namespace)
	}
	r.lastUse[namespace] = now
}

// start starts the watch of a namespace. r.mu is held.
func (r *cancelWatcher) start(namespace string) {
	ctx, stop := context.WithCancel(r.ctx)
	r.running.Go(func() { defer stop(); r.waitIdle(ctx, namespace) })
	r.running.Go(func() { r.watchNamespace(ctx, namespace) })
}

// waitIdle returns when a namespace has been idle for watchIdle, or when ctx ends.
func (r *cancelWatcher) waitIdle(ctx context.Context, namespace string) {
	for {
		r.mu.Lock()
		left := r.lastUse[namespace] + watchIdle - r.clock.Mono()
		// The entry goes first, so that a job reserved now starts a new watch.
		if left <= 0 {
			delete(r.lastUse, namespace)
		}
		r.mu.Unlock()
		if left <= 0 || clock.Sleep(ctx, r.clock, left) != nil {
			return
		}
	}
}

// watchNamespace watches a namespace until ctx ends. It restarts a watch that fails.
func (r *cancelWatcher) watchNamespace(ctx context.Context, namespace string) {
	// A report after the end of ctx would reach a watch of the worker that has already ended.
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
		_ = clock.Sleep(ctx, r.clock, watchPause) // the loop checks ctx after the pause
	}
}

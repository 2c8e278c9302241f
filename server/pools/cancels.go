package pools

import (
	"context"
	"errors"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

var _ contract.CancelWatcher = (*Pools)(nil)

// WatchCancels implements contract.CancelWatcher. It watches the pool of a namespace, and both
// pools while the namespace moves. The watch of the new pool begins at least one phase before
// the first job is pushed there.
func (r *Pools) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	namespace = contract.NamespaceOr(namespace)
	f := &cancelFollower{pools: r, namespace: namespace, watch: w, watched: map[string]*watchedPool{}}
	defer f.running.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f.end = end

	for first := true; ; first = false {
		where, err := r.Where(ctx, namespace)
		if err != nil && first {
			return err
		}
		// If the placement cannot be read, the current watches continue.
		if err == nil {
			f.watchPools(ctx, where.Pool, where.From)
		}
		if clock.Sleep(ctx, r.cfg.Clock, resolveInterval) != nil {
			return context.Cause(ctx)
		}
	}
}

// cancelFollower watches the pools of one namespace for removed jobs.
type cancelFollower struct {
	pools     *Pools
	namespace string
	running   sync.WaitGroup
	end       context.CancelCauseFunc

	mu      sync.Mutex // also held during calls to watch, which must not be concurrent
	watch   contract.CancelWatch
	watched map[string]*watchedPool // watches of the pools by name
}

// watchedPool is the state of the watch of one pool.
type watchedPool struct {
	stop  context.CancelFunc
	tried bool // whether the watch has begun or failed
	began bool
}

// watchPools watches the pools with these names, and no others. It ignores empty names.
func (f *cancelFollower) watchPools(ctx context.Context, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := map[string]*watchedPool{}
	for _, name := range names {
		if name == "" {
			continue
		}
		if now[name] = f.watched[name]; now[name] == nil {
			own, stop := context.WithCancel(ctx)
			one := &watchedPool{stop: stop}
			now[name] = one
			f.running.Go(func() { f.keepWatching(own, name, one) })
		}
	}

	for name, one := range f.watched {
		if now[name] == nil {
			one.stop()
		}
	}
	f.watched = now
}

// keepWatching watches one pool until ctx ends. It retries while the pool is not reachable.
func (f *cancelFollower) keepWatching(ctx context.Context, name string, one *watchedPool) {
	for ctx.Err() == nil {
		err := f.watchPool(ctx, name, one)
		if ctx.Err() != nil {
			return
		}
		// These errors are permanent, so the caller must get them.
		if errors.Is(err, duly.ErrUnsupported) || errors.Is(err, duly.ErrClosed) {
			f.end(err)
			return
		}
		f.setState(one, false)
		_ = clock.Sleep(ctx, f.pools.cfg.Clock, watchRetry)
	}
}

func (f *cancelFollower) watchPool(ctx context.Context, name string, one *watchedPool) error {
	if _, err := f.pools.poolEngine(f.namespace, name); err != nil {
		return err
	}
	// The engine of poolEngine hides WatchCancels.
	engine, err := f.pools.byName[name].get()
	if err != nil {
		return err
	}
	watcher, ok := engine.(contract.CancelWatcher)
	if !ok {
		return contract.Errorf(duly.CodeUnsupported, "the engine of pool %s does not report removed jobs", name)
	}

	return watcher.WatchCancels(ctx, f.namespace, contract.CancelWatch{
		Ready: func() { f.setState(one, true) },
		Canceled: func(c contract.Canceled) {
			f.mu.Lock()
			defer f.mu.Unlock()
			// A report may come after the pool was replaced.
			if ctx.Err() == nil {
				f.watch.Canceled(c)
			}
		},
	})
}

// setState records that the watch of a pool has begun or failed, and calls Ready after a beginning.
// It calls Ready only after every pool was tried, because until then reports of the other pool
// could be missed.
func (f *cancelFollower) setState(one *watchedPool, began bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The call to Ready may have to wait for the first failure of the other pool.
	firstFailure := !one.tried && !began
	one.tried, one.began = true, began

	for _, other := range f.watched {
		if !other.tried {
			return
		}
		began = began || firstFailure && other.began
	}
	if began && f.watch.Ready != nil {
		f.watch.Ready()
	}
}

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

// WatchCancels implements contract.CancelWatcher. It watches the pool that a namespace is
// in, and both pools while it moves: the second one begins a phase before jobs go
// there.
func (r *Pools) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	namespace = contract.NamespaceOr(namespace)
	f := &follower{pools: r, namespace: namespace, watch: w, watched: map[string]*watched{}}
	defer f.running.Wait()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f.end = end

	for first := true; ; first = false {
		where, err := r.Where(ctx, namespace)
		if err != nil && first {
			return err
		}
		if err == nil {
			f.follow(ctx, where.Pool, where.From)
		}
		// A change is seen within resolveAfter, as by a caller that waits for a job.
		if clock.Sleep(ctx, r.cfg.Clock, resolveAfter) != nil {
			return context.Cause(ctx)
		}
	}
}

// follower is one WatchCancels of a namespace.
type follower struct {
	pools     *Pools
	namespace string
	running   sync.WaitGroup
	end       context.CancelCauseFunc

	mu      sync.Mutex // held in each call of watch, which are not concurrent
	watch   contract.CancelWatch
	watched map[string]*watched // by pool
}

// watched is a pool that a follower watches.
type watched struct {
	stop  context.CancelFunc
	tried bool // its watch has begun or failed
	began bool
}

// follow watches these pools and no others; "" is none.
func (f *follower) follow(ctx context.Context, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := map[string]*watched{}
	for _, name := range names {
		if name == "" {
			continue
		}
		if now[name] = f.watched[name]; now[name] == nil {
			own, stop := context.WithCancel(ctx)
			one := &watched{stop: stop}
			now[name] = one
			f.running.Go(func() { f.keep(own, name, one) })
		}
	}
	for name, one := range f.watched {
		if now[name] == nil {
			one.stop()
		}
	}
	f.watched = now
}

// keep watches one pool until ctx ends. A pool that does not answer is tried again;
// the others go on meanwhile.
func (f *follower) keep(ctx context.Context, name string, one *watched) {
	for ctx.Err() == nil {
		err := f.watchPool(ctx, name, one)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, duly.ErrUnsupported) || errors.Is(err, duly.ErrClosed) {
			f.end(err)
			return
		}
		f.try(one, false)
		_ = clock.Sleep(ctx, f.pools.cfg.Clock, watchAgain)
	}
}

func (f *follower) watchPool(ctx context.Context, name string, one *watched) error {
	if _, err := f.pools.at(f.namespace, name); err != nil {
		return err
	}
	engine, err := f.pools.byName[name].get() // at's own has no WatchCancels
	if err != nil {
		return err
	}
	watcher, ok := engine.(contract.CancelWatcher)
	if !ok {
		return contract.Errorf(duly.CodeUnsupported, "the engine of pool %s does not report canceled jobs", name)
	}
	return watcher.WatchCancels(ctx, f.namespace, contract.CancelWatch{
		Ready: func() { f.try(one, true) },
		Canceled: func(c contract.Canceled) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if ctx.Err() == nil {
				f.watch.Canceled(c)
			}
		},
	})
}

// try notes that a pool's watch has begun or failed. Ready follows a beginning, but
// none before every pool was tried: a job of the other pool might be removed unseen.
func (f *follower) try(one *watched, began bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	missing := !one.tried && !began // others may have waited for this one
	one.tried, one.began = true, began
	for _, other := range f.watched {
		if !other.tried {
			return
		}
		began = began || missing && other.began
	}
	if began && f.watch.Ready != nil {
		f.watch.Ready()
	}
}

package pools

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// EachPushIndex lists the push queues of every pool by itself. A namespace that moves may
// have a queue in two of them.
func (r *Pools) EachPushIndex() []func(context.Context, duly.PageParams) (contract.QueuePage, error) {
	lists := make([]func(context.Context, duly.PageParams) (contract.QueuePage, error), len(r.all))
	for i, pool := range r.all {
		lists[i] = func(ctx context.Context, p duly.PageParams) (contract.QueuePage, error) {
			engine, err := pool.get()
			if err != nil {
				return contract.QueuePage{}, err
			}
			index, ok := engine.(contract.Targeter)
			if !ok { // another server's, which sends its own jobs
				return contract.QueuePage{}, nil
			}
			return index.PushQueues(ctx, p)
		}
	}
	return lists
}

// WatchPushQueues calls changed once, and after each change of the push queues of any pool
// and of the targets, until ctx ends.
func (r *Pools) WatchPushQueues(ctx context.Context, changed func()) {
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, pool := range r.all {
		watching.Go(func() {
			for ctx.Err() == nil {
				if engine, err := pool.get(); err == nil {
					watcher, ok := engine.(contract.Watcher)
					if !ok {
						return
					}
					_ = watcher.WatchTokens(ctx, func(bool) { changed() }) // it is tried again
				}
				_ = clock.Sleep(ctx, r.cfg.Clock, reopenEvery) // the loop looks at ctx
			}
		})
	}
}

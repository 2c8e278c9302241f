package pools

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// EachPushIndex returns a list of push queues per pool. While a namespace moves, a queue may be in
// two of these lists.
func (r *Pools) EachPushIndex() []func(context.Context, duly.PageParams) (contract.QueuePage, error) {
	lists := make([]func(context.Context, duly.PageParams) (contract.QueuePage, error), len(r.all))
	for i, pool := range r.all {
		lists[i] = func(ctx context.Context, p duly.PageParams) (contract.QueuePage, error) {
			engine, err := pool.get()
			if err != nil {
				return contract.QueuePage{}, err
			}
			index, ok := engine.(contract.Targeter)
			// Another server owns this engine, and its dispatcher sends the jobs.
			if !ok {
				return contract.QueuePage{}, nil
			}
			return index.PushQueues(ctx, p)
		}
	}
	return lists
}

// WatchPushQueues calls changed at its start, and after each change of a push queue or a
// target, until ctx ends.
func (r *Pools) WatchPushQueues(ctx context.Context, changed func()) {
	var watching sync.WaitGroup
	defer watching.Wait()
	for _, pool := range r.all {
		watching.Go(func() {
			// A pool may open later, and a watch may end with its connection.
			for ctx.Err() == nil {
				if engine, err := pool.get(); err == nil {
					watcher, ok := engine.(contract.Watcher)
					if !ok {
						return
					}
					_ = watcher.WatchTokens(ctx, func(bool) { changed() })
				}
				_ = clock.Sleep(ctx, r.cfg.Clock, reopenInterval)
			}
		})
	}
}

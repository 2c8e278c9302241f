package pools_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// cancelEngine is an engine that counts its watches, and whose watches fail while it is down.
type cancelEngine struct {
	*model.Engine
	mu      sync.Mutex
	down    error
	running int
}

func (e *cancelEngine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	e.mu.Lock()
	down := e.down
	if down == nil {
		e.running++
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.running--
		}()
	}
	e.mu.Unlock()

	if down != nil {
		return down
	}
	return e.Engine.WatchCancels(ctx, namespace, w)
}

func (e *cancelEngine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = err
}

func (e *cancelEngine) watches() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

// cancelTest is a rig with a watch of the namespace shop.
type cancelTest struct {
	*rig
	engines map[string]*cancelEngine
	stop    context.CancelFunc
	ended   chan error

	mu    sync.Mutex
	ready int
	ids   []string
}

// testCancels runs a test in a bubble, on another server with the rig's engines. The engines
// of the pools in down fail their watches at first.
func testCancels(t *testing.T, down map[string]error, test func(c *cancelTest)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cancelTest{rig: newRig(t, "orders"), engines: map[string]*cancelEngine{}, ended: make(chan error, 1)}
		server := c.newServer(func(name string, e *model.Engine) contract.Engine {
			c.engines[name] = &cancelEngine{Engine: e, down: down[name]}
			return c.engines[name]
		})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c.stop = stop
		go func() { c.ended <- c.follow(ctx, server) }()
		synctest.Wait()
		test(c)
	})
}

func (c *cancelTest) follow(ctx context.Context, server *pools.Pools) error {
	return server.WatchCancels(ctx, "shop", contract.CancelWatch{
		Ready: func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ready++
		},
		Canceled: func(x contract.Canceled) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ids = append(c.ids, x.IDs...)
		},
	})
}

// got returns how often the watch was ready and its reports, and resets both.
func (c *cancelTest) got() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.ids)
	got := fmt.Sprint(c.ready, slices.Compact(c.ids))
	c.ready, c.ids = 0, nil
	return got
}

func (c *cancelTest) want(what, want string) {
	c.t.Helper()
	if got := c.got(); got != want {
		c.t.Errorf("%s: ready and reports are %s, want %s", what, got, want)
	}
}

// cancel deletes jobs of a pool.
func (c *cancelTest) cancel(pool string, ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		_, err := c.engines[pool].Push(c.t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: id}})
		c.must(err)
		c.must(c.engines[pool].Delete(c.t.Context(), shop, id))
	}
}

// C4.97: a watch follows its namespace to another pool. It watches both pools during the move.
func TestCancelWatchFollowsNamespace(t *testing.T) {
	testCancels(t, nil, func(c *cancelTest) {
		c.want("at first", "1 []")
		c.cancel("default", "a")
		c.cancel("orders", "b")
		c.want("before the move", "0 [a]")

		c.pushJob(duly.Job{ID: "left"}) // keeps the move from ending yet
		c.must(errOf(c.Move(c.t.Context(), "shop", "orders")))
		c.tick(pools.Propagation / 2)
		c.want("after the start of the move", "1 []")
		c.cancel("default", "a")
		c.cancel("orders", "b")
		c.want("during the move", "0 [a b]")

		c.advance()
		c.must(c.Delete(c.t.Context(), shop, "left"))
		c.endMove("shop")
		c.tick(pools.Propagation)
		c.got()
		c.cancel("default", "a")
		c.cancel("orders", "b")
		c.want("after the move", "0 [b]")
		if n, m := c.engines["default"].watches(), c.engines["orders"].watches(); n != 0 || m != 1 {
			c.t.Errorf("%d watches in the old pool and %d in the new one", n, m)
		}

		c.stop()
		if err := <-c.ended; !errors.Is(err, context.Canceled) {
			c.t.Errorf("the watch ended with %v", err)
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

// C4.97: a watch retries a pool that is down, and in the meantime watches the other pool.
func TestCancelWatchRetriesPool(t *testing.T) {
	testCancels(t, map[string]error{contract.DefaultPool: duly.ErrUnavailable}, func(c *cancelTest) {
		c.want("while it is down", "0 []")
		c.must(createToken(c.t.Context(), c.Pools, "shop"))
		c.must(errOf(c.Move(c.t.Context(), "shop", "orders")))
		c.tick(pools.Propagation / 2)
		c.want("the other pool", "1 []")
		c.cancel("orders", "b")
		c.want("the other pool", "0 [b]")

		c.engines[contract.DefaultPool].fail(nil)
		c.tick(2 * time.Second)
		c.want("it is back", "1 []")
		c.cancel(contract.DefaultPool, "a")
		c.want("it is back", "0 [a]")
	})
}

// WatchCancels returns unsupported for an engine that does not report removed jobs.
func TestCancelWatchOfUnsupportedEngine(t *testing.T) {
	testCancels(t, map[string]error{contract.DefaultPool: duly.ErrUnsupported}, func(c *cancelTest) {
		if err := <-c.ended; !errors.Is(err, duly.ErrUnsupported) {
			c.t.Errorf("the watch ended with %v", err)
		}
	})
}

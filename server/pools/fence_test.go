package pools_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/pools"
)

// Whoever dies behind a fence and whose move is then turned around leaves no
// queue that refuses jobs, also where its engine has forgotten what it was.
func TestAFenceIsTakenDownWhenAMoveIsTurnedAround(t *testing.T) {
	t.Parallel()
	for n, fences := 1, 0; ; n++ {
		d := newDrill(t)
		s := &steps{}
		mortal := d.stepping(s)
		d.move("shop", "orders")
		d.must(mortal.CarryOn(t.Context())) // from now on it counts
		d.clock.Advance(pools.Settle)
		*s = steps{left: n, death: before}
		if err := mortal.CarryOn(t.Context()); err == nil {
			if fences == 0 {
				t.Error("nobody dies behind a fence")
			}
			break
		}
		if c, err := d.engines[contract.DefaultPool].Config(t.Context(), shop); err != nil || c.MaxJobs == 1 {
			fences++
		}
		d.turn()
		d.finish(contract.DefaultPool, "orders")
		for _, id := range []string{"a", "b"} {
			if got := d.pushJob(duly.Job{ID: id}); got.Status != duly.Created {
				t.Errorf("step %d: %s: %+v", n, id, got)
			}
		}
		if t.Failed() {
			break
		}
	}
}

// late is an engine where somebody pushes at the last moment: before the fence,
// or when it stands.
type late struct {
	*model.Engine
	push func()
	at   string
}

func (l *late) meanwhile(at string) {
	if push := l.push; push != nil && l.at == at {
		l.push = nil
		push()
	}
}

func (l *late) Configure(ctx context.Context, q duly.QueueRef, c duly.QueueConfig) error {
	l.meanwhile("configure")
	return l.Engine.Configure(ctx, q, c)
}

func (l *late) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	l.meanwhile("push")
	return l.Engine.Push(ctx, jobs)
}

func (l *late) Destroy(ctx context.Context, q duly.QueueRef) error {
	l.meanwhile("destroy")
	return l.Engine.Destroy(ctx, q)
}

// What a server pushes to the old pool that has slept through the move is not
// lost: it gets in and the queue stays, or it is refused.
func TestALatePushIsNotLost(t *testing.T) {
	t.Parallel()
	for at, stays := range map[string]bool{"configure": true, "push": true, "destroy": false} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "orders")
			engine := &late{Engine: r.engines[contract.DefaultPool], at: at}
			r.Pools = r.another(func(name string, e *model.Engine) contract.Engine {
				if name == contract.DefaultPool {
					return engine
				}
				return e
			})
			r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 9}))
			r.move("shop", "orders")
			var refused error
			engine.push = func() {
				results, err := engine.Engine.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "late"}})
				r.must(err)
				refused = results[0].Err
			}
			r.carryOn()
			if !stays {
				if !errors.Is(refused, duly.ErrFull) || len(r.left(contract.DefaultPool)) > 0 {
					t.Errorf("it is refused by %v, and left are %v", refused, r.left(contract.DefaultPool))
				}
				r.end("shop")
				return
			}
			r.must(refused)
			if r.phase("shop") != contract.Draining {
				t.Fatal("the move has ended")
			}
			r.must(r.CarryOn(t.Context()))
			again, err := engine.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "later"}})
			r.must(err)
			if !errors.Is(again[0].Err, duly.ErrFull) {
				t.Errorf("behind the fence it is %+v", again[0])
			}
			ids, receipts := r.take(5, "q")
			if !slices.Equal(ids, []string{"late"}) {
				t.Fatalf("taken are %v", ids)
			}
			r.ack(receipts...)
			r.end("shop")
		})
	}
}

// A fence that was begun and left, by a server that knew the queue with more
// shards, is known as one by every engine: its queue is removed, or freed where
// the move is turned around.
func TestAFenceThatWasLeftOnEveryEngine(t *testing.T) {
	t.Parallel()
	for name, open := range realEngines {
		for _, turned := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " turned ", turned), func(t *testing.T) {
				t.Parallel()
				engine, c := open(t), clock.NewFake()
				p := serve(t, c, map[string]pools.Engine{contract.DefaultPool: {Open: model.New(model.Config{Clock: c})}, "real": {Open: engine}})
				r := &rig{Pools: p, t: t, clock: c}
				r.must(r.Assign(t.Context(), "shop", "real"))
				r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 77}))
				r.move("shop", contract.DefaultPool)
				for n := range 9 {
					results, err := engine.Push(t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: fmt.Sprint("duly-moved-", n), Delay: 100 * 365 * 24 * time.Hour}})
					r.must(err)
					r.must(results[0].Err)
				}
				if turned {
					_, err := r.Move(t.Context(), "shop", "real")
					r.must(err)
				}
				r.carryOn()
				r.end("shop")
				stats, err := engine.Stats(t.Context(), shop)
				if err != nil || stats.Sizes != (duly.Sizes{}) {
					t.Errorf("left are %+v, %v", stats.Sizes, err)
				}
				if c, err := r.Config(t.Context(), shop); err != nil || c.MaxJobs != 77 {
					t.Errorf("it is %+v, %v", c, err)
				}
				if !turned {
					if queues, err := engine.Queues(t.Context(), "shop", duly.PageParams{}); err != nil || len(queues.Names) > 0 {
						t.Errorf("left behind are %v, %v", queues.Names, err)
					}
				}
			})
		}
	}
}

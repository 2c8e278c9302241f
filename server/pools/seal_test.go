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

// After a crash behind a seal and a reversal of the move, every queue accepts jobs again.
func TestReversalRemovesSeals(t *testing.T) {
	t.Parallel()
	for n, seals := 1, 0; ; n++ {
		d := newMoveTest(t)
		s := &stepCounter{}
		mortal := d.newCountingServer(s)
		d.move("shop", "orders")
		d.must(mortal.Advance(t.Context())) // the time of the phase starts with this turn
		d.clock.Advance(pools.Propagation)

		*s = stepCounter{left: n, crash: crashBefore}
		if err := mortal.Advance(t.Context()); err == nil {
			if seals == 0 {
				t.Error("no server crashes behind a seal")
			}
			break
		}
		if c, err := d.engines[contract.DefaultPool].Config(t.Context(), shop); err != nil || c.MaxJobs == 1 {
			seals++
		}

		d.reverse()
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

// latePusher is an engine to which another server pushes at the last moment: before a call that
// seals the queue, or after it was sealed.
type latePusher struct {
	*model.Engine
	push func()
	at   string
}

func (l *latePusher) meanwhile(at string) {
	if push := l.push; push != nil && l.at == at {
		l.push = nil
		push()
	}
}

func (l *latePusher) Configure(ctx context.Context, q duly.QueueRef, c duly.QueueConfig) error {
	l.meanwhile("configure")
	return l.Engine.Configure(ctx, q, c)
}

func (l *latePusher) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	l.meanwhile("push")
	return l.Engine.Push(ctx, jobs)
}

func (l *latePusher) Destroy(ctx context.Context, q duly.QueueRef) error {
	l.meanwhile("destroy")
	return l.Engine.Destroy(ctx, q)
}

// A late push to the old pool loses no job: either the job is stored and the queue stays, or
// the push is refused.
func TestLatePushIsNotLost(t *testing.T) {
	t.Parallel()
	for at, stays := range map[string]bool{"configure": true, "push": true, "destroy": false} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "orders")
			engine := &latePusher{Engine: r.engines[contract.DefaultPool], at: at}
			r.Pools = r.newServer(func(name string, e *model.Engine) contract.Engine {
				if name == contract.DefaultPool {
					return engine
				}
				return e
			})
			r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 9}))
			r.move("shop", "orders")

			var refused error
			engine.push = func() {
				job := duly.Job{Namespace: "shop", Queue: "q", ID: "late"}
				results, err := engine.Engine.Push(t.Context(), []duly.Job{job})
				r.must(err)
				refused = results[0].Err
			}
			r.advance()
			if !stays {
				if left := r.queuesIn(contract.DefaultPool); !errors.Is(refused, duly.ErrFull) || len(left) > 0 {
					t.Errorf("the push returned %v, and the old pool has the queues %v", refused, left)
				}
				r.endMove("shop")
				return
			}
			r.must(refused)
			r.finishLatePush(engine)
		})
	}
}

// finishLatePush checks that the late job stops the move, and that the queue is sealed and then
// removed.
func (r *rig) finishLatePush(engine *latePusher) {
	r.t.Helper()
	if r.phase("shop") != contract.Draining {
		r.t.Fatal("the move has ended")
	}

	r.must(r.Advance(r.t.Context()))
	again, err := engine.Push(r.t.Context(), []duly.Job{{Namespace: "shop", Queue: "q", ID: "later"}})
	r.must(err)
	if !errors.Is(again[0].Err, duly.ErrFull) {
		r.t.Errorf("a push to the sealed queue: %+v", again[0])
	}

	ids, receipts := r.reserve(5, "q")
	if !slices.Equal(ids, []string{"late"}) {
		r.t.Fatalf("reserved %v", ids)
	}
	r.ack(receipts...)
	r.endMove("shop")
}

// A partial seal, from a server that knew the queue with more shards, is recognized on every
// engine: the queue is removed, or unsealed if the move is reversed.
func TestPartialSealIsRecognizedOnEveryEngine(t *testing.T) {
	t.Parallel()
	for name, open := range storageEngines {
		for _, reversed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " reversed ", reversed), func(t *testing.T) {
				t.Parallel()
				engine, c := open(t), clock.NewFake()
				p := serve(t, c, map[string]pools.Engine{
					contract.DefaultPool: {Open: model.New(model.Config{Clock: c})}, "real": {Open: engine},
				})
				r := &rig{Pools: p, t: t, clock: c}
				r.must(r.Assign(t.Context(), "shop", "real"))
				r.must(r.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 77}))
				r.move("shop", contract.DefaultPool)

				for n := range 9 {
					job := duly.Job{Namespace: "shop", Queue: "q", ID: fmt.Sprint("duly-moved-", n)}
					job.Delay = 100 * 365 * 24 * time.Hour
					results, err := engine.Push(t.Context(), []duly.Job{job})
					r.must(err)
					r.must(results[0].Err)
				}
				if reversed {
					_, err := r.Move(t.Context(), "shop", "real")
					r.must(err)
				}
				r.advance()
				r.endMove("shop")

				stats, err := engine.Stats(t.Context(), shop)
				if err != nil || stats.Sizes != (duly.Sizes{}) {
					t.Errorf("the queue has %+v, %v", stats.Sizes, err)
				}
				if c, err := r.Config(t.Context(), shop); err != nil || c.MaxJobs != 77 {
					t.Errorf("the settings are %+v, %v", c, err)
				}
				if !reversed {
					queues, err := engine.Queues(t.Context(), "shop", duly.PageParams{})
					if err != nil || len(queues.Names) > 0 {
						t.Errorf("the old pool still has the queues %v, %v", queues.Names, err)
					}
				}
			})
		}
	}
}

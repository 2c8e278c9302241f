package sqliteengine

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/schedule"
)

// Ten goroutines share an engine. Each fires ticks by itself, and by the engine's own passes. In the
// second race, one answer in twenty is lost. The long form has 10 000 ticks.
//
// C17.89, C17.90, C17.91, C17.114
func TestTenGoroutinesFireEachTickOnce(t *testing.T) {
	t.Parallel()
	const goroutines, schedules = 10, 20
	ticks := 5
	if proctest.Long() {
		ticks = 500
	}
	for name, oneIn := range map[string]int{"AllAnswers": 0, "LostAnswers": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clock.NewFake()
			cfg := Config{Path: filepath.Join(t.TempDir(), "duly.db"), Clock: c, Manual: true, Logger: quiet(),
				Synchronous: SyncNormal}
			e, err := Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })

			a := newAnswers(t, oneIn)
			e.firing = schedule.NewFiring(&losing{Engine: e, answers: a}, c, quiet())
			race := enginetest.TickRace{Direct: e, Schedules: schedules, Ticks: ticks, Losses: oneIn > 0}
			for range goroutines {
				l := &losing{Engine: e, answers: a}
				l.own = schedule.NewFiring(l, c, quiet())
				race.Callers = append(race.Callers, enginetest.TickCaller{Engine: l, Clock: c})
			}
			race.Run(t)
			t.Logf("%d answers were lost", a.lost.Load())
			if race.Losses && a.lost.Load() == 0 {
				t.Error("no answer was lost, so the race proves nothing")
			}
		})
	}
}

// answers loses one answer in some, on average.
type answers struct {
	oneIn int // 0 loses none
	lost  atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
}

func newAnswers(t *testing.T, oneIn int) *answers {
	seed := rand.Uint64()
	t.Logf("losses by seed %d", seed)
	return &answers{oneIn: oneIn, random: rand.New(rand.NewPCG(seed, 0))}
}

// lose returns the error of a call, or the error of a call whose answer is lost.
func (a *answers) lose(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.oneIn == 0 || a.random.IntN(a.oneIn) > 0 {
		return err
	}
	a.lost.Add(1)
	return &duly.Error{Code: duly.CodeUnavailable, Message: "the answer was lost"}
}

// losing is an engine whose calls take effect, and can lose their answers.
type losing struct {
	*Engine
	answers *answers
	own     *schedule.Firing // fires ticks beside the engine's own passes
}

func (l *losing) Step(ctx context.Context, q duly.QueueRef) (bool, error) {
	o, err := l.own.Round(ctx, q, 0)
	if err != nil {
		return false, err
	}
	more, err := l.Engine.Step(ctx, q)
	return more || o.More, l.answers.lose(err)
}

func (l *losing) Sweep(ctx context.Context) error { return l.answers.lose(l.Engine.Sweep(ctx)) }

func (l *losing) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	ready, err := l.Engine.Wait(ctx, p)
	return ready, l.answers.lose(err)
}

func (l *losing) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	runs, err := l.Engine.Reserve(ctx, p)
	if err = l.answers.lose(err); err != nil {
		return nil, err
	}
	return runs, nil
}

func (l *losing) Settle(ctx context.Context, namespace string, requests []duly.SettleRequest) ([]error, error) {
	errs, err := l.Engine.Settle(ctx, namespace, requests)
	return errs, l.answers.lose(err)
}

func (l *losing) DueSchedules(ctx context.Context, q duly.QueueRef, shard int, cursor string) (
	contract.DueSchedules, error,
) {
	due, err := l.Engine.DueSchedules(ctx, q, shard, cursor)
	return due, l.answers.lose(err)
}

func (l *losing) Fire(ctx context.Context, q duly.QueueRef, items []contract.FireItem) ([]contract.FireResult, error) {
	results, err := l.Engine.Fire(ctx, q, items)
	return results, l.answers.lose(err)
}

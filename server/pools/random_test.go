package pools_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/pools"
)

// walker is a server that carries moves on one call at a time, each when it is
// told to.
type walker struct {
	*pools.Pools
	*steps
	turn, done chan struct{}
	over       bool
}

func (d *drill) newWalker() *walker {
	w := &walker{steps: &steps{left: -1}, turn: make(chan struct{}), done: make(chan struct{})}
	w.Pools = d.stepping(w.steps)
	w.pause = func() {
		if !w.over {
			w.done <- struct{}{}
			<-w.turn
		}
	}
	go func() {
		defer close(w.done)
		for <-w.turn; !w.over; w.pause() {
			_ = w.CarryOn(context.WithoutCancel(d.t.Context()))
		}
	}()
	return w
}

// walk lets it make one call.
func (w *walker) walk() {
	w.turn <- struct{}{}
	<-w.done
}

// end lets it end what it is at, or die.
func (w *walker) end(how death) {
	w.over, w.death = true, how
	w.turn <- struct{}{}
	<-w.done
}

// script is a run of a drill by chance.
type script struct {
	*drill
	*rand.Rand
	walkers []*walker
}

func newScript(t *testing.T, seed uint64) *script {
	s := &script{drill: newDrill(t), Rand: rand.New(rand.NewPCG(seed, 1))}
	for range 3 {
		s.walkers = append(s.walkers, s.newWalker())
	}
	return s
}

// act does what chance says.
func (s *script) act(n int) {
	s.t.Helper()
	at := s.IntN(len(s.walkers))
	pool := []string{contract.DefaultPool, "orders"}[s.IntN(2)]
	q := []duly.QueueRef{shop, wide}[s.IntN(2)]
	switch chance := s.IntN(1000); {
	case chance < 700:
		s.walkers[at].walk()
	case chance < 780:
		s.clock.Advance(time.Duration(s.IntN(3000)) * time.Millisecond)
	case chance < 800:
		s.clock.Advance(time.Duration(10+s.IntN(15)) * time.Second)
	case chance < 840:
		s.push(s, q, fmt.Sprint("job", n))
	case chance < 890: // by a server that has stood still
		if where, err := s.Where(s.t.Context(), "shop"); err == nil && where.Knows(pool) {
			s.push(s.engines[pool], q, fmt.Sprint("late", n))
		}
	case chance < 950:
		s.work()
	case chance < 965:
		s.leased++
		s.must(s.Configure(s.t.Context(), wide, duly.QueueConfig{MaxLeased: s.leased}))
	case chance < 985:
		where, err := s.Move(s.t.Context(), "shop", pool)
		if !errors.Is(err, duly.ErrInvalid) { // else what came late there has other shards
			s.must(err)
		}
		s.turned = s.turned || where.From != "" && where.Phase == contract.Draining
	default:
		s.walkers[at].end(before)
		s.walkers[at] = s.newWalker()
	}
}

// Whatever servers do at once in a move, standing still or dying between any two
// of their calls, while it is turned around, ended and begun again, queues are set
// and jobs come late: no job is lost, none is worked on twice, and nothing is left
// in the pool that the namespace is not in.
func TestMovesAtRandom(t *testing.T) {
	t.Parallel()
	seeds := uint64(40)
	switch {
	case os.Getenv("DULY_LONG") != "":
		seeds = 10_000
	case testing.Short():
		seeds = 10
	}
	for seed := range seeds {
		s := newScript(t, seed)
		for n := range 600 {
			s.act(n)
		}
		for _, w := range s.walkers {
			w.end(lives)
		}
		for range 6 { // until a move that is under way is over
			s.carryOn()
			s.work()
		}
		where, err := s.Where(t.Context(), "shop")
		s.must(err)
		out := contract.DefaultPool
		if where.Pool == out {
			out = "orders"
		}
		s.finish(where.Pool, out)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

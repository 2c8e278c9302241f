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

// stepServer is a server that advances moves by single calls. Each call to step lets it make one of
// them.
type stepServer struct {
	*pools.Pools
	*stepCounter
	turn, done chan struct{}
	ended      bool
}

func (d *moveTest) newStepServer() *stepServer {
	w := &stepServer{stepCounter: &stepCounter{left: -1}, turn: make(chan struct{}), done: make(chan struct{})}
	w.Pools = d.newCountingServer(w.stepCounter)
	w.pause = func() {
		if !w.ended {
			w.done <- struct{}{}
			<-w.turn
		}
	}
	go func() {
		defer close(w.done)
		for <-w.turn; !w.ended; w.pause() {
			_ = w.Advance(context.WithoutCancel(d.t.Context()))
		}
	}()
	return w
}

// step makes one call.
func (w *stepServer) step() {
	w.turn <- struct{}{}
	<-w.done
}

// stop finishes the current turn, or crashes.
func (w *stepServer) stop(how crash) {
	w.ended, w.crash = true, how
	w.turn <- struct{}{}
	<-w.done
}

// randomRun is a moveTest with random actions.
type randomRun struct {
	*moveTest
	*rand.Rand
	servers []*stepServer
}

func newRandomRun(t *testing.T, seed uint64) *randomRun {
	s := &randomRun{moveTest: newMoveTest(t), Rand: rand.New(rand.NewPCG(seed, 1))}
	for range 3 {
		s.servers = append(s.servers, s.newStepServer())
	}
	return s
}

// act makes a random action.
func (s *randomRun) act(n int) {
	s.t.Helper()
	at := s.IntN(len(s.servers))
	pool := []string{contract.DefaultPool, "orders"}[s.IntN(2)]
	q := []duly.QueueRef{shop, wide}[s.IntN(2)]

	switch chance := s.IntN(1000); {
	case chance < 700:
		s.servers[at].step()
	case chance < 780:
		s.clock.Advance(time.Duration(s.IntN(3000)) * time.Millisecond)
	case chance < 800:
		s.clock.Advance(time.Duration(10+s.IntN(15)) * time.Second)
	case chance < 840:
		s.push(s, q, fmt.Sprint("job", n))
	case chance < 890: // pushed by a server that was suspended
		if where, err := s.Where(s.t.Context(), "shop"); err == nil && where.Knows(pool) {
			s.push(s.engines[pool], q, fmt.Sprint("late", n))
		}
	case chance < 950:
		s.ackAll()
	case chance < 965:
		s.leased++
		s.must(s.Configure(s.t.Context(), wide, duly.QueueConfig{MaxLeased: s.leased}))
	case chance < 985:
		where, err := s.Move(s.t.Context(), "shop", pool)
		if !errors.Is(err, duly.ErrInvalid) { // an orphan may have another number of shards
			s.must(err)
		}
		s.reversed = s.reversed || where.From != "" && where.Phase == contract.Draining
	default:
		s.servers[at].stop(crashBefore)
		s.servers[at] = s.newStepServer()
	}
}

// Servers advance moves concurrently, are suspended or crash between any two calls, while moves
// are reversed, end and start again, settings change and late jobs come. No job is lost or acked
// twice, and the other pool has no queue at the end.
func TestRandomMovesLoseNothing(t *testing.T) {
	t.Parallel()
	seeds := uint64(40)
	switch {
	case os.Getenv("DULY_LONG") != "":
		seeds = 10_000
	case testing.Short():
		seeds = 10
	}

	for seed := range seeds {
		s := newRandomRun(t, seed)
		for n := range 600 {
			s.act(n)
		}
		for _, w := range s.servers {
			w.stop(noCrash)
		}
		for range 6 { // until the current move has ended
			s.advance()
			s.ackAll()
		}

		where, err := s.Where(s.t.Context(), "shop")
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

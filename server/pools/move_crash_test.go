package pools_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/pools"
)

// S: if a server crashes at any step of a move, another one ends the move. No job is lost or
// duplicated.
func TestMoveSurvivesCrash(t *testing.T) {
	t.Parallel()
	for kind := crashBefore; kind < crashKinds; kind++ {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			for n := 1; moveStep(t, n, kind); n++ {
			}
		})
	}
}

// moveStep moves a namespace on a server that crashes at the nth step, and then on another one.
// It reports whether there is such a step.
func moveStep(t *testing.T, n int, kind crash) (more bool) {
	d := newMoveTest(t)
	s := &stepCounter{left: n, crash: kind}
	mortal := d.newCountingServer(s)
	for i := range 5 {
		d.push(d, shop, fmt.Sprint("old", i))
	}
	check := func(err error) {
		if err != nil && !errors.Is(err, errCrashed) {
			t.Errorf("step %d: %v", n, err)
		}
	}

	_, err := mortal.Move(t.Context(), "shop", "orders")
	check(err)
	for i := range 6 {
		check(mortal.Advance(t.Context()))
		d.clock.Advance(pools.Propagation)
		d.push(d, wide, fmt.Sprint("new", i))
		if i == 3 {
			d.ackAll()
		}
	}

	_, err = d.Move(t.Context(), "shop", "orders")
	d.must(err)
	d.finish("orders", contract.DefaultPool)
	if len(d.accepted) != 11 {
		t.Errorf("accepted %v", d.accepted)
	}
	if t.Failed() {
		t.Logf("at step %d", n)
		return false
	}
	return s.over()
}

// If a namespace is moved to two pools concurrently, one of the calls fails with conflict. Two
// moves to the same pool both succeed.
func TestConcurrentMovesToTwoPoolsConflict(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"orders", "logs"} {
		for n, more := 1, true; more; n++ {
			d := &moveTest{rig: newRig(t, "orders", "logs")}
			d.must(d.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 77}))

			var other error
			s := &stepCounter{left: n, then: func() { _, other = d.Move(t.Context(), "shop", "orders") }}
			p, err := d.newCountingServer(s).Move(t.Context(), "shop", to)
			if more = s.over(); !more {
				break
			}
			switch {
			case other != nil && (err != nil || to == "orders" || !errors.Is(other, duly.ErrConflict)):
				t.Errorf("step %d: %v and %v", n, err, other)
			case to == "orders" && (err != nil || p.Pool != to || p.From != contract.DefaultPool):
				t.Errorf("step %d: %+v, %v", n, p, err)
			case to == "logs" && other == nil && !errors.Is(err, duly.ErrConflict):
				t.Errorf("step %d: %v", n, err)
			}
		}
	}
}

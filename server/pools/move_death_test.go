package pools_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/pools"
)

// S: whoever dies at whatever step of a move, another one ends it, and no job is
// lost or doubled.
func TestAMoveGoesOnWhoeverDies(t *testing.T) {
	t.Parallel()
	for dies := before; dies < deaths; dies++ {
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			t.Parallel()
			for n := 1; moveStep(t, n, dies); n++ {
			}
		})
	}
}

// moveStep moves a namespace by a server that dies at the nth step, and by
// another one thereafter; it tells whether there is such a step.
func moveStep(t *testing.T, n int, dies death) (more bool) {
	d := newDrill(t)
	s := &steps{left: n, death: dies}
	mortal := d.stepping(s)
	for i := range 5 {
		d.push(d, shop, fmt.Sprint("old", i))
	}
	died := func(err error) {
		if err != nil && !errors.Is(err, errDied) {
			t.Errorf("step %d: %v", n, err)
		}
	}
	_, err := mortal.Move(t.Context(), "shop", "orders")
	died(err)
	for i := range 6 {
		died(mortal.CarryOn(t.Context()))
		d.clock.Advance(pools.Settle)
		d.push(d, wide, fmt.Sprint("new", i))
		if i == 3 {
			d.work()
		}
	}
	_, err = d.Move(t.Context(), "shop", "orders")
	d.must(err)
	d.finish("orders", contract.DefaultPool)
	if len(d.accepted) != 11 {
		t.Errorf("accepted were %v", d.accepted)
	}
	if t.Failed() {
		t.Logf("at step %d", n)
		return false
	}
	return s.over()
}

// Of two concurrent moves of a namespace to two pools one fails with conflict. Two moves
// to the same pool both succeed.
func TestConcurrentMoves(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"orders", "logs"} {
		for n, more := 1, true; more; n++ {
			d := &drill{rig: newRig(t, "orders", "logs")}
			d.must(d.Configure(t.Context(), shop, duly.QueueConfig{MaxJobs: 77}))
			var other error
			s := &steps{left: n, then: func() { _, other = d.Move(t.Context(), "shop", "orders") }}
			p, err := d.stepping(s).Move(t.Context(), "shop", to)
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

package contract_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// C4.90, C4.91, C13.8: the windows' arithmetic, which is every engine's.
func TestLimitWindowCountsAndOpensAgain(t *testing.T) {
	t.Parallel()
	l := contract.Limits{Produce: 2, Consume: 1, Per: 1500 * time.Millisecond}
	var w contract.LimitWindow
	spend := func(right contract.Right, at int64, want contract.LimitWindow, wait time.Duration) {
		t.Helper()
		got, err := w.Spend(l, right, at)
		var e *duly.Error
		switch {
		case got != want:
			t.Errorf("at %d: %+v, want %+v", at, got, want)
		case wait == 0 && err != nil, wait != 0 && (!errors.As(err, &e) || !errors.Is(err, duly.ErrLimited) || e.RetryAfter != wait):
			t.Errorf("at %d: %+v, want to wait %s", at, err, wait)
		}
		w = got
	}
	spend(contract.RightProduce, 1000, contract.LimitWindow{Begin: 1000, Calls: 1}, 0)
	spend(contract.RightProduce, 1001, contract.LimitWindow{Begin: 1000, Calls: 2}, 0)
	spend(contract.RightProduce, 2499, contract.LimitWindow{Begin: 1000, Calls: 2}, time.Millisecond)
	spend(contract.RightProduce, 2500, contract.LimitWindow{Begin: 2500, Calls: 1}, 0)
	// The clock was set back.
	spend(contract.RightProduce, 2499, contract.LimitWindow{Begin: 2499, Calls: 1}, 0)
	spend(contract.RightConsume, 2600, contract.LimitWindow{Begin: 2499, Calls: 1}, 1399*time.Millisecond)
	for _, begin := range []int64{0, 2498, 2500} {
		if got := w.GiveBack(begin); got != w {
			t.Errorf("given back to the window of %d: %+v", begin, got)
		}
	}
	if w = w.GiveBack(2499).GiveBack(2499); w.Calls != 0 {
		t.Errorf("given back twice: %+v", w)
	}
	spend(contract.RightConsume, 2700, contract.LimitWindow{Begin: 2700, Calls: 1}, 0)
}

func TestLimitsApplyToProduceAndConsume(t *testing.T) {
	t.Parallel()
	l := contract.Limits{Produce: 2, Consume: 3, Per: time.Minute}
	for right, want := range map[contract.Right]int{
		contract.RightProduce: 2, contract.RightConsume: 3, contract.RightAdmin: 0,
		contract.RightProduce | contract.RightConsume: 0, 0: 0,
	} {
		if got := l.Of(right); got != want {
			t.Errorf("the limit for %v is %d, want %d", right.Names(), got, want)
		}
	}
}

package waiters

import (
	"fmt"
	"testing"
	"time"
)

func TestPauseGrowsWithReservesInVain(t *testing.T) {
	r, now := newRegistry(), time.Hour
	if got := r.Pause("q", now); got != 0 {
		t.Errorf("the first wake-up waits %v", got)
	}
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 25, 25} {
		r.Vain("q", now)
		if got := r.Pause("q", now); got != want*time.Millisecond {
			t.Errorf("the pause is %v, want %d ms", got, want)
		}
		if got := r.Pause("other", now); got != 0 {
			t.Errorf("another queue has a pause of %v", got)
		}
		now += want * time.Millisecond
		if got := r.Pause("q", now); got != 0 {
			t.Errorf("the pause has %v left at its end", got)
		}
	}
}

func TestPauseEndsWithADelivery(t *testing.T) {
	r := newRegistry()
	for range 9 {
		r.Vain("q", 0)
	}
	r.Delivered("q")
	if got := r.Pause("q", 0); got != 0 {
		t.Errorf("the pause is %v after a delivery", got)
	}
	if r.Vain("q", 0); r.Pause("q", 0) != leastPause {
		t.Errorf("the next pause is %v, want %v", r.Pause("q", 0), leastPause)
	}
}

func TestOldPausesAreForgotten(t *testing.T) {
	r := newRegistry()
	for i := range 10_000 {
		r.Vain(fmt.Sprint(i), time.Duration(i)*10*time.Millisecond)
	}
	if n := r.Paces(); n > 500 {
		t.Errorf("%d pauses are kept", n)
	}
}

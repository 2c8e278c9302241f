package enginetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

func tokenLimitTests() []test {
	return []test{
		{"AreStoredWithTheToken", []string{"C4.84"}, Options{}, tokenLimitsKept},
		{"AreValidated", []string{"C4.84", "C13.2"}, Options{}, tokenLimitsValidated},
		{"ResetAtTheEndOfTheWindow", []string{"C4.84", "C4.90", "C13.8"}, Options{}, tokenLimitWindow},
		{"AreCountedPerTokenAndRight", []string{"C4.84"}, Options{}, tokenLimitsApart},
		{"UnlimitedTokenCountsNothing", []string{"C4.84"}, Options{}, tokenUnlimited},
		{"GivingBackACallFreesIt", []string{"C4.91"}, Options{}, tokenGiveBack},
		{"GivingBackAfterTheWindowHasNoEffect", []string{"C4.91"}, Options{}, tokenGiveBackLate},
		{"ChangesApplyToTheCurrentWindow", []string{"C4.84"}, Options{}, tokenLimitsChanged},
		{"AreNeverExceeded", []string{"C4.84"}, Options{}, tokenLimitCrowd},
		{"ClockStepBackDoesNotExtendTheWindow", []string{"C4.90", "C5.6"}, Options{}, tokenLimitStep},
		{"RestartWhenARevokedTokenIsPutAgain", []string{"C4.90"}, Options{}, tokenLimitPutAgain},
		{"RevokedTokenIsRefused", []string{"C4.83", "C4.84"}, Options{}, tokenLimitRevoked},
	}
}

// limiter returns the engine's limiter. It skips the test if the engine does not own its storage.
func (s *scene) limiter() contract.Limiter {
	s.Helper()
	l, ok := s.registry().(contract.Limiter)
	if !ok {
		s.Skip("this engine has no limits for tokens")
	}
	return l
}

// limited creates a token with limits.
func (s *scene) limited(name string, l contract.Limits) contract.Token {
	s.Helper()
	s.limiter()
	t := s.token("a", name, contract.RightProduce|contract.RightConsume)
	s.must("limit", s.limiter().LimitToken(s.ctx, t.Hash, l))
	return t
}

// spend requires that n calls are counted. It returns the start of the window of the last call.
func (s *scene) spend(t contract.Token, right contract.Right, n int) (window time.Time) {
	s.Helper()
	for range n {
		var err error
		window, err = s.limiter().Spend(s.ctx, t.Hash, right)
		s.must("spend", err)
	}
	return window
}

// usedUp checks that a call is refused and reports the time until the window ends.
func (s *scene) usedUp(t contract.Token, right contract.Right, until time.Duration) {
	s.Helper()
	window, err := s.limiter().Spend(s.ctx, t.Hash, right)
	s.refused("one call more", err, duly.CodeLimited)
	var e *duly.Error
	if errors.As(err, &e) {
		same(s, "the time until the limit opens", e.RetryAfter, until)
	}
	if !window.IsZero() {
		s.Errorf("a refused call is counted in the window of %s, want no window", window)
	}
}

func tokenLimitsKept(s *scene) {
	l, r := s.limiter(), s.registry()
	want := contract.Limits{Produce: 5, Consume: 7, Per: time.Minute}
	t := s.token("a", "worker", contract.RightConsume)
	t.Limits = want
	s.must("put with limits", r.PutToken(s.ctx, t))
	check := func(want contract.Limits) {
		s.Helper()
		got, err := r.FindToken(s.ctx, t.Hash)
		s.must("find", err)
		same(s, "the limits", got.Limits, want)
		page, err := r.Tokens(s.ctx, "a", duly.PageParams{})
		s.must("tokens", err)
		if len(page.Tokens) != 1 || page.Tokens[0].Limits != want {
			s.Errorf("the list has %+v, want the limits %+v", page.Tokens, want)
		}
		// A change of the limits must not change the rest of the token.
		same(s, "the rights", got.Rights, t.Rights)
		same(s, "the description", got.Description, t.Description)
	}

	check(want)
	want = contract.Limits{Consume: contract.MaxLimit, Per: contract.MaxLimitWindow}
	s.must("limit", l.LimitToken(s.ctx, t.Hash, want))
	s.must("limit again", l.LimitToken(s.ctx, t.Hash, want))
	check(want)
	s.must("limit no more", l.LimitToken(s.ctx, t.Hash, contract.Limits{}))
	check(contract.Limits{})
	s.refused("limits for an unknown token", l.LimitToken(s.ctx, [32]byte{1}, want), duly.CodeNotFound)
	if _, err := r.FindToken(s.ctx, [32]byte{1}); duly.CodeOf(err) != duly.CodeNotFound {
		s.Errorf("limits for an unknown token have created it: %v, want not_found", err)
	}
}

func tokenLimitsValidated(s *scene) {
	want := contract.Limits{Produce: 1, Per: time.Hour}
	t := s.limited("worker", want)
	for _, bad := range []struct {
		limits contract.Limits
		field  string
	}{
		{contract.Limits{Produce: -1, Per: time.Minute}, "limits.produce"},
		{contract.Limits{Consume: contract.MaxLimit + 1, Per: time.Minute}, "limits.consume"},
		{contract.Limits{Produce: 1}, "limits.per"},
		{contract.Limits{Produce: 1, Per: time.Second - 1}, "limits.per"},
		{contract.Limits{Consume: 1, Per: contract.MaxLimitWindow + 1}, "limits.per"},
		{contract.Limits{Per: time.Minute}, "limits.per"},
	} {
		// LimitToken and PutToken check the same bounds.
		s.names("limit", s.limiter().LimitToken(s.ctx, t.Hash, bad.limits), duly.CodeInvalid, bad.field)
		other := t
		other.Limits = bad.limits
		s.names("put", s.registry().PutToken(s.ctx, other), duly.CodeInvalid, bad.field)
	}

	got, err := s.registry().FindToken(s.ctx, t.Hash)
	s.must("find", err)
	same(s, "the limits", got.Limits, want)
}

func tokenLimitWindow(s *scene) {
	t := s.limited("worker", contract.Limits{Produce: 3, Per: time.Minute})
	// The window starts at the first call, not at a multiple of its length.
	s.Advance(17 * time.Millisecond)
	begin := s.now()
	sameTime(s, "the window's beginning", s.spend(t, contract.RightProduce, 1), begin)
	s.Advance(40 * time.Second)
	sameTime(s, "the window's beginning", s.spend(t, contract.RightProduce, 2), begin)
	s.usedUp(t, contract.RightProduce, 20*time.Second)

	s.Advance(20*time.Second - time.Millisecond)
	s.usedUp(t, contract.RightProduce, time.Millisecond)
	s.Advance(time.Millisecond)
	sameTime(s, "the next window's beginning", s.spend(t, contract.RightProduce, 3), begin.Add(time.Minute))
	s.usedUp(t, contract.RightProduce, time.Minute)

	// A window starts with a call, whatever the time.
	s.Advance(time.Hour)
	sameTime(s, "a later window's beginning", s.spend(t, contract.RightProduce, 1), begin.Add(61*time.Minute))
}

func tokenLimitsApart(s *scene) {
	a := s.limited("a", contract.Limits{Produce: 1, Consume: 2, Per: time.Minute})
	b := s.limited("b", contract.Limits{Produce: 1, Per: time.Minute})
	s.spend(a, contract.RightProduce, 1)
	s.usedUp(a, contract.RightProduce, time.Minute)
	// The two rights have separate windows.
	s.Advance(time.Second)
	s.spend(a, contract.RightConsume, 2)
	s.usedUp(a, contract.RightConsume, time.Minute)
	s.usedUp(a, contract.RightProduce, 59*time.Second)
	s.spend(b, contract.RightProduce, 1)
	s.usedUp(b, contract.RightProduce, time.Minute)
	for range 10 {
		same(s, "an unlimited right is counted", s.spend(b, contract.RightConsume, 1).IsZero(), true)
	}
}

func tokenUnlimited(s *scene) {
	l := s.limiter()
	t := s.token("a", "worker", contract.RightProduce)
	for range 10 {
		same(s, "nothing is counted", s.spend(t, contract.RightProduce, 1).IsZero(), true)
	}

	// The zero time says that the call was not counted.
	s.must("giving back what was not counted", l.GiveBack(s.ctx, t.Hash, contract.RightProduce, time.Time{}))
	s.must("limit", l.LimitToken(s.ctx, t.Hash, contract.Limits{Produce: 1, Per: time.Minute}))
	s.spend(t, contract.RightProduce, 1)
	s.must("giving back what was not counted", l.GiveBack(s.ctx, t.Hash, contract.RightProduce, time.Time{}))
	s.usedUp(t, contract.RightProduce, time.Minute)
}

func tokenGiveBack(s *scene) {
	l := s.limiter()
	t := s.limited("worker", contract.Limits{Consume: 2, Per: time.Minute})
	window := s.spend(t, contract.RightConsume, 1)

	// A call that is given back can be made again.
	for range 5 {
		s.must("give back", l.GiveBack(s.ctx, t.Hash, contract.RightConsume, s.spend(t, contract.RightConsume, 1)))
	}
	s.spend(t, contract.RightConsume, 1)
	s.usedUp(t, contract.RightConsume, time.Minute)
	// This gives back more calls than were counted. The window then has its full limit, not more.
	for range 5 {
		s.must("give back", l.GiveBack(s.ctx, t.Hash, contract.RightConsume, window))
	}
	s.spend(t, contract.RightConsume, 2)
	s.usedUp(t, contract.RightConsume, time.Minute)
	s.must("give back for an unknown token", l.GiveBack(s.ctx, [32]byte{1}, contract.RightConsume, window))
}

func tokenGiveBackLate(s *scene) {
	t := s.limited("worker", contract.Limits{Consume: 1, Per: time.Minute})
	window := s.spend(t, contract.RightConsume, 1)
	s.Advance(time.Minute)
	s.spend(t, contract.RightConsume, 1)
	// The call belongs to a window that is over, so giving it back must not free a call of the next
	// window.
	s.must("give back to a window that is over", s.limiter().GiveBack(s.ctx, t.Hash, contract.RightConsume, window))
	s.usedUp(t, contract.RightConsume, time.Minute)
}

func tokenLimitsChanged(s *scene) {
	l := s.limiter()
	t := s.limited("worker", contract.Limits{Produce: 3, Per: time.Minute})
	s.spend(t, contract.RightProduce, 3)
	// The calls of the current window count towards the new limit.
	s.must("a higher limit", l.LimitToken(s.ctx, t.Hash, contract.Limits{Produce: 5, Per: time.Minute}))
	s.spend(t, contract.RightProduce, 2)
	s.usedUp(t, contract.RightProduce, time.Minute)
	s.must("a lower limit", l.LimitToken(s.ctx, t.Hash, contract.Limits{Produce: 1, Per: time.Minute}))
	s.usedUp(t, contract.RightProduce, time.Minute)
	s.must("a longer window", l.LimitToken(s.ctx, t.Hash, contract.Limits{Produce: 1, Per: time.Hour}))
	// The longer window began with the first call, one minute ago.
	s.Advance(time.Minute)
	s.usedUp(t, contract.RightProduce, 59*time.Minute)

	// The shorter window is over already.
	s.must("a shorter window", l.LimitToken(s.ctx, t.Hash, contract.Limits{Produce: 1, Per: time.Second}))
	s.spend(t, contract.RightProduce, 1)
	s.usedUp(t, contract.RightProduce, time.Second)
}

func tokenLimitCrowd(s *scene) {
	const limit, callers = 50, 8
	t := s.limited("worker", contract.Limits{Produce: limit, Per: time.Hour})
	var counted atomic.Int64
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range limit {
				switch _, err := s.limiter().Spend(s.ctx, t.Hash, contract.RightProduce); duly.CodeOf(err) {
				case "":
					counted.Add(1)
				case duly.CodeLimited:
				default:
					s.Error(err)
				}
			}
		})
	}

	wg.Wait()
	same(s, "the calls that were counted", counted.Load(), limit)
}

func tokenLimitStep(s *scene) {
	t := s.limited("worker", contract.Limits{Produce: 1, Per: time.Minute})
	s.Advance(2 * time.Hour)
	s.spend(t, contract.RightProduce, 1)
	s.usedUp(t, contract.RightProduce, time.Minute)

	// A window that begins in the future is over.
	s.Clock.Step(-time.Hour)
	s.spend(t, contract.RightProduce, 1)
	s.usedUp(t, contract.RightProduce, time.Minute)
	s.Clock.Step(time.Hour)
	s.spend(t, contract.RightProduce, 1)
}

func tokenLimitPutAgain(s *scene) {
	t := s.limited("worker", contract.Limits{Produce: 2, Consume: 1, Per: time.Hour})
	t.Limits = contract.Limits{Produce: 2, Consume: 1, Per: time.Hour}
	s.spend(t, contract.RightProduce, 2)
	s.spend(t, contract.RightConsume, 1)
	s.usedUp(t, contract.RightProduce, time.Hour)
	s.usedUp(t, contract.RightConsume, time.Hour)

	// The new token starts with full limits, although it has the same hash.
	s.must("revoke", s.registry().DeleteToken(s.ctx, t.Hash))
	s.must("put it again", s.registry().PutToken(s.ctx, t))
	s.Advance(time.Minute)
	sameTime(s, "the new window's beginning", s.spend(t, contract.RightProduce, 1), s.now())
	s.spend(t, contract.RightProduce, 1)
	s.spend(t, contract.RightConsume, 1)
	s.usedUp(t, contract.RightProduce, time.Hour)
	s.usedUp(t, contract.RightConsume, time.Hour)
}

func tokenLimitRevoked(s *scene) {
	t := s.limited("worker", contract.Limits{Produce: 1, Per: time.Hour})
	s.spend(t, contract.RightProduce, 1)
	s.must("delete", s.registry().DeleteToken(s.ctx, t.Hash))
	_, err := s.limiter().Spend(s.ctx, t.Hash, contract.RightProduce)
	s.refused("a call of a revoked token", err, duly.CodeNotFound)

	// A canceled call must not report the token as unknown.
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.limiter().Spend(ended, t.Hash, contract.RightProduce); !errors.Is(err, context.Canceled) {
		s.Errorf("a canceled call returns %v, want context.Canceled", err)
	}
}

package sqliteengine

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

var _ duly.Limiter = (*Engine)(nil)

// spending is what was counted under the tokens' limits. One process has the
// file, so its memory is shared by all that use it, and no call costs a sync.
type spending struct {
	mu      sync.Mutex
	windows map[spent]duly.LimitWindow
}

// spent names what is counted under one limit.
type spent struct {
	hash  [32]byte
	right duly.Right
}

func (s *spending) forget(hash [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.windows, spent{hash, duly.RightProduce})
	delete(s.windows, spent{hash, duly.RightConsume})
}

// LimitToken implements duly.Limiter.
func (e *Engine) LimitToken(ctx context.Context, hash [32]byte, l duly.Limits) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return e.changeToken(ctx, needsLittle, func(t *tx) error {
		s := t.stmt("token_limit").Blob(1, hash[:])
		bindLimits(s, 2, l)
		found, err := s.Run()
		if err == nil && found == 0 {
			err = duly.NoToken()
		}
		return err
	})
}

// Spend implements duly.Limiter.
func (e *Engine) Spend(ctx context.Context, hash [32]byte, right duly.Right) (window time.Time, err error) {
	token, err := e.FindToken(ctx, hash)
	if err != nil || token.Limits.Of(right) == 0 {
		return window, err
	}
	s, now := &e.spending, clock.Milli(e.cfg.Clock.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	w, err := s.windows[spent{hash, right}].Spend(token.Limits, right, now)
	if err != nil {
		return window, err
	}
	if s.windows == nil {
		s.windows = map[spent]duly.LimitWindow{}
	}
	s.windows[spent{hash, right}] = w
	return clock.FromMilli(w.Begin), nil
}

// GiveBack implements duly.Limiter.
func (e *Engine) GiveBack(ctx context.Context, hash [32]byte, right duly.Right, window time.Time) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	s := &e.spending
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.windows[spent{hash, right}]; ok {
		s.windows[spent{hash, right}] = w.GiveBack(clock.Milli(window))
	}
	return nil
}

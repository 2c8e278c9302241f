package sqliteengine

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

var _ contract.Limiter = (*Engine)(nil)

// tokenUsage counts the calls under the tokens' limits. It is kept in memory, because
// only one process has the file open, and no call then costs a sync.
type tokenUsage struct {
	mu      sync.Mutex
	windows map[usageKey]contract.LimitWindow
}

// usageKey identifies a counter: a token and a right.
type usageKey struct {
	hash  [32]byte
	right contract.Right
}

func (s *tokenUsage) forget(hash [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.windows, usageKey{hash, contract.RightProduce})
	delete(s.windows, usageKey{hash, contract.RightConsume})
}

// LimitToken implements contract.Limiter.
func (e *Engine) LimitToken(ctx context.Context, hash [32]byte, l contract.Limits) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return e.changeToken(ctx, spaceSome, func(t *tx) error {
		s := t.stmt("token_limit").Blob(1, hash[:])
		bindLimits(s, 2, l)
		found, err := s.Run()
		if err == nil && found == 0 {
			err = contract.NoToken()
		}
		return err
	})
}

// Spend implements contract.Limiter.
func (e *Engine) Spend(ctx context.Context, hash [32]byte, right contract.Right) (window time.Time, err error) {
	token, err := e.FindToken(ctx, hash)
	if err != nil || token.Limits.Of(right) == 0 {
		return window, err
	}
	s, now := &e.tokenUsage, clock.Milli(e.cfg.Clock.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	w, err := s.windows[usageKey{hash, right}].Spend(token.Limits, right, now)
	if err != nil {
		return window, err
	}
	if s.windows == nil {
		s.windows = map[usageKey]contract.LimitWindow{}
	}
	s.windows[usageKey{hash, right}] = w
	return clock.FromMilli(w.Begin), nil
}

// GiveBack implements contract.Limiter.
func (e *Engine) GiveBack(ctx context.Context, hash [32]byte, right contract.Right, window time.Time) error {
	if err := e.checkOpen(ctx); err != nil {
		return err
	}
	s := &e.tokenUsage
	s.mu.Lock()
	defer s.mu.Unlock()
	if w, ok := s.windows[usageKey{hash, right}]; ok {
		s.windows[usageKey{hash, right}] = w.GiveBack(clock.Milli(window))
	}
	return nil
}

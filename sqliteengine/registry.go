package sqliteengine

import (
	"context"
	"encoding/hex"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// PutToken implements contract.Registry.
func (e registryAPI) PutToken(ctx context.Context, token contract.Token) error {
	if err := token.Validate(); err != nil {
		return err
	}
	return e.changeToken(ctx, spaceSome, func(t *tx) error {
		created := t.now
		if !token.CreatedAt.IsZero() {
			created = clock.Milli(token.CreatedAt)
		}
		s := t.stmt("token_put").Blob(1, token.Hash[:]).Text(2, token.Namespace).Int(3, int64(token.Rights))
		bindLimits(s.Text(4, token.Description).Int(5, created), 6, token.Limits)
		_, err := s.Run()
		return err
	})
}

// changeToken is like add for changes that token watchers must see.
func (e registryAPI) changeToken(ctx context.Context, n spaceClass, run func(t *tx) error) error {
	return e.changeWithSpace(ctx, n, func(t *tx) error {
		err := run(t)
		t.tokensChanged = t.tokensChanged || err == nil
		return err
	})
}

func bindLimits(s *sqliteconn.Stmt, at int, l contract.Limits) {
	s.Int(at, int64(l.Produce)).Int(at+1, int64(l.Consume)).Int(at+2, int64(l.Per))
}

// FindToken implements contract.Registry.
func (e registryAPI) FindToken(ctx context.Context, hash [32]byte) (token contract.Token, err error) {
	err = e.read(ctx, func(c *conn) error {
		s := c.stmt("token_find").Blob(1, hash[:])
		row, err := s.Step()
		if err != nil {
			return err
		}
		if !row {
			return contract.NoToken()
		}
		token = scanToken(s)
		s.Reset()
		return nil
	})
	return token, err
}

// scanToken reads the columns hash, namespace, rights, description, created,
// produce, consume, per.
func scanToken(s *sqliteconn.Stmt) (t contract.Token) {
	copy(t.Hash[:], s.ColRaw(0))
	t.Namespace, t.Rights, t.Description = s.ColText(1), contract.Right(s.ColInt(2)), s.ColText(3)
	t.CreatedAt = clock.FromMilli(s.ColInt(4))
	t.Limits = contract.Limits{Produce: int(s.ColInt(5)), Consume: int(s.ColInt(6)), Per: time.Duration(s.ColInt(7))}
	return t
}

// DeleteToken implements contract.Registry.
func (e registryAPI) DeleteToken(ctx context.Context, hash [32]byte) error {
	err := e.changeToken(ctx, spaceNone, func(t *tx) error {
		gone, err := t.stmt("token_drop").Blob(1, hash[:]).Run()
		if err == nil && gone == 0 {
			err = contract.NoToken()
		}
		return err
	})
	// A token with the same secret may be stored again, and must then start with a new window.
	if err == nil {
		e.tokenUsage.forget(hash)
	}
	return err
}

// Tokens implements contract.Registry.
func (e registryAPI) Tokens(ctx context.Context, namespace string, p duly.PageParams) (page contract.TokenPage, err error) {
	after, err := contract.ValidateTokenPage(&p)
	if err != nil {
		return page, err
	}

	err = e.read(ctx, func(c *conn) error {
		// The query reads one row more than the page has, which shows whether another page follows.
		s := c.stmt("token_list").Blob(1, after).Int(2, int64(p.Limit)+1).Text(3, namespace)
		for {
			row, err := s.Step()
			if err != nil || !row {
				return err
			}
			page.Tokens = append(page.Tokens, scanToken(s))
		}
	})
	if len(page.Tokens) > p.Limit {
		page.Tokens = page.Tokens[:p.Limit]
		page.Next = hex.EncodeToString(page.Tokens[p.Limit-1].Hash[:])
	}

	return page, err
}

// tokenUsage counts the calls under the tokens' limits. It is kept in memory, because only one
// process has the file open, and so that no call costs a sync.
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
func (e registryAPI) LimitToken(ctx context.Context, hash [32]byte, l contract.Limits) error {
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
func (e registryAPI) Spend(ctx context.Context, hash [32]byte, right contract.Right) (window time.Time, err error) {
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
func (e registryAPI) GiveBack(ctx context.Context, hash [32]byte, right contract.Right, window time.Time) error {
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

// tokenWatchers are the WatchTokens calls. The writer notifies these calls after a commit with
// changes of tokens, and after it has reopened the store, because a failed commit may have taken
// effect.
type tokenWatchers struct {
	mu      sync.Mutex
	signals map[chan struct{}]struct{} // each channel holds at most one signal
}

func (w *tokenWatchers) add() chan struct{} {
	bell := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.signals == nil {
		w.signals = map[chan struct{}]struct{}{}
	}
	w.signals[bell] = struct{}{}
	return bell
}

func (w *tokenWatchers) remove(bell chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.signals, bell)
}

func (w *tokenWatchers) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for bell := range w.signals {
		select {
		case bell <- struct{}{}:
		default: // a signal is already waiting
		}
	}
}

// WatchTokens implements contract.Watcher.
func (e registryAPI) WatchTokens(ctx context.Context, changed func(watching bool)) error {
	if err := e.checkOpen(ctx); err != nil {
		return err
	}
	bell := e.tokenWatchers.add()
	defer e.tokenWatchers.remove(bell)
	for {
		changed(true)
		select {
		case <-bell:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.stopped:
			return duly.ErrClosed
		}
	}
}

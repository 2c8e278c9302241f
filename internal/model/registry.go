package model

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// PutToken implements contract.Registry.
func (e *Engine) PutToken(ctx context.Context, t contract.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	if t.CreatedAt.IsZero() {
		t.CreatedAt, _ = e.now()
	}
	e.tokens[t.Hash] = t
	e.tokensChanged()
	return nil
}

// FindToken implements contract.Registry.
func (e *Engine) FindToken(ctx context.Context, hash [32]byte) (contract.Token, error) {
	if err := e.begin(ctx); err != nil {
		return contract.Token{}, err
	}
	defer e.mu.Unlock()
	t, ok := e.tokens[hash]
	if !ok {
		return t, contract.NoToken()
	}
	return t, nil
}

// DeleteToken implements contract.Registry.
func (e *Engine) DeleteToken(ctx context.Context, hash [32]byte) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	if _, ok := e.tokens[hash]; !ok {
		return contract.NoToken()
	}
	delete(e.tokens, hash)

	// A new token with the same hash begins with full limits.
	delete(e.windows, spent{hash, contract.RightProduce})
	delete(e.windows, spent{hash, contract.RightConsume})
	e.tokensChanged()
	return nil
}

// LimitToken implements contract.Limiter.
func (e *Engine) LimitToken(ctx context.Context, hash [32]byte, l contract.Limits) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	t, ok := e.tokens[hash]
	if !ok {
		return contract.NoToken()
	}
	t.Limits = l
	e.tokens[hash] = t
	e.tokensChanged()
	return nil
}

// spent is the key under which calls are counted for one limit.
type spent struct {
	hash  [32]byte
	right contract.Right
}

// Spend implements contract.Limiter.
func (e *Engine) Spend(ctx context.Context, hash [32]byte, right contract.Right) (window time.Time, err error) {
	if err := e.begin(ctx); err != nil {
		return window, err
	}
	defer e.mu.Unlock()
	t, ok := e.tokens[hash]
	switch {
	case !ok:
		return window, contract.NoToken()
	case t.Limits.Of(right) == 0:
		return window, nil
	}
	_, now := e.now()
	w, err := e.windows[spent{hash, right}].Spend(t.Limits, right, now)
	if err != nil {
		return window, err
	}
	e.windows[spent{hash, right}] = w
	return clock.FromMilli(w.Begin), nil
}

// GiveBack implements contract.Limiter.
func (e *Engine) GiveBack(ctx context.Context, hash [32]byte, right contract.Right, window time.Time) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.mu.Unlock()
	w := e.windows[spent{hash, right}]
	e.windows[spent{hash, right}] = w.GiveBack(clock.Milli(window))
	return nil
}

// WatchTokens implements contract.Watcher.
func (e *Engine) WatchTokens(ctx context.Context, notify func(listening bool)) error {
	if err := e.begin(ctx); err != nil {
		return err
	}

	// One place in the channel is enough, because a watcher reads all tokens after each signal.
	bell := make(chan struct{}, 1)
	e.watchers[bell] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watchers, bell)
	}()

	for {
		notify(true)
		select {
		case _, open := <-bell:
			if !open {
				return duly.ErrClosed
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tokensChanged rings everybody who watches.
func (e *Engine) tokensChanged() {
	for bell := range e.watchers {
		select {
		case bell <- struct{}{}:
		default: // the watcher has not received the last signal yet
		}
	}
}

// Tokens implements contract.Registry.
func (e *Engine) Tokens(ctx context.Context, namespace string, p duly.PageParams) (page contract.TokenPage, err error) {
	after, err := contract.ValidateTokenPage(&p)
	if err != nil {
		return page, err
	}
	if err := e.begin(ctx); err != nil {
		return page, err
	}
	defer e.mu.Unlock()

	for hash, t := range e.tokens {
		if (namespace == "" || t.Namespace == namespace) && bytes.Compare(hash[:], after) > 0 {
			page.Tokens = append(page.Tokens, t)
		}
	}

	slices.SortFunc(page.Tokens, func(a, b contract.Token) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
	if len(page.Tokens) > p.Limit {
		page.Tokens = page.Tokens[:p.Limit]
		page.Next = hex.EncodeToString(page.Tokens[p.Limit-1].Hash[:])
	}
	return page, nil
}

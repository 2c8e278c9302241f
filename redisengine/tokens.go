package redisengine

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

var (
	_ duly.Limiter = (*Engine)(nil)
	_ duly.Watcher = (*Engine)(nil)
)

// LimitToken implements duly.Limiter.
func (e *Engine) LimitToken(ctx context.Context, hash [32]byte, l duly.Limits) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if err := e.alive(ctx); err != nil {
		return err
	}
	_, err := e.callToken(ctx, scriptTokenLimit, append([]string{hex.EncodeToString(hash[:])}, limitArgs(l)...)...)
	return err
}

// Spend implements duly.Limiter.
func (e *Engine) Spend(ctx context.Context, hash [32]byte, right duly.Right) (window time.Time, err error) {
	if err := e.alive(ctx); err != nil {
		return window, err
	}
	r, err := e.callToken(ctx, scriptTokenSpend, e.clock(), hex.EncodeToString(hash[:]), rightName(right))
	if err != nil || r.word == "free" {
		return window, err
	}
	begin := integer(&r.rest[0])
	if r.word == "limited" {
		limits := duly.Limits{Produce: int(integer(&r.rest[3])), Consume: int(integer(&r.rest[4])), Per: time.Duration(integer(&r.rest[5]))}
		_, err := duly.LimitWindow{Begin: begin, Calls: int(integer(&r.rest[1]))}.Spend(limits, right, integer(&r.rest[2]))
		return window, err
	}
	return clock.FromMilli(begin), nil
}

// GiveBack implements duly.Limiter.
func (e *Engine) GiveBack(ctx context.Context, hash [32]byte, right duly.Right, window time.Time) error {
	if err := e.alive(ctx); err != nil || window.IsZero() {
		return err
	}
	_, err := e.callToken(ctx, scriptTokenGiveBack, hex.EncodeToString(hash[:]), rightName(right), decimal(clock.Milli(window)))
	return err
}

// rightName is what the scripts call a right.
func rightName(right duly.Right) string { return strings.Join(right.Names(), "+") }

// WatchTokens implements duly.Watcher, each call on a connection of its own.
func (e *Engine) WatchTokens(ctx context.Context, tell func(hearing bool)) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	return e.link.Subscribe(ctx, e.tokenKey("changes"), tell, e.lostTokens)
}

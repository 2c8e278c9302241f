package tokens

import (
	"context"
	"encoding/hex"
	"strings"
	"time"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// LimitToken implements contract.Limiter.
func (e *Tokens) LimitToken(ctx context.Context, hash [32]byte, l contract.Limits) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if err := e.store.Alive(ctx); err != nil {
		return err
	}
	_, err := e.callToken(ctx, scriptTokenLimit, append([]string{hex.EncodeToString(hash[:])}, limitArgs(l)...)...)
	return err
}

// Spend implements contract.Limiter.
func (e *Tokens) Spend(ctx context.Context, hash [32]byte, right contract.Right) (window time.Time, err error) {
	if err := e.store.Alive(ctx); err != nil {
		return window, err
	}
	r, err := e.callToken(ctx, scriptTokenSpend, e.store.Clock(), hex.EncodeToString(hash[:]), rightName(right))
	if err != nil || r.Word == "free" {
		return window, err
	}
	begin := codec.Integer(&r.Rest[0])
	// The error says when the window ends, so it is computed from the script's counts.
	if r.Word == "limited" {
		limits := contract.Limits{
			Produce: int(codec.Integer(&r.Rest[3])), Consume: int(codec.Integer(&r.Rest[4])),
			Per: time.Duration(codec.Integer(&r.Rest[5])),
		}
		_, err := contract.LimitWindow{Begin: begin, Calls: int(codec.Integer(&r.Rest[1]))}.Spend(limits, right,
			codec.Integer(&r.Rest[2]))
		return window, err
	}
	return clock.FromMilli(begin), nil
}

// GiveBack implements contract.Limiter.
func (e *Tokens) GiveBack(ctx context.Context, hash [32]byte, right contract.Right, window time.Time) error {
	if err := e.store.Alive(ctx); err != nil || window.IsZero() {
		return err
	}
	_, err := e.callToken(ctx, scriptTokenGiveBack, hex.EncodeToString(hash[:]), rightName(right),
		decimal(clock.Milli(window)))
	return err
}

// rightName returns the scripts' name of a right.
func rightName(right contract.Right) string { return strings.Join(right.Names(), "+") }

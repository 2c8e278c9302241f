package auth

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
)

// Create makes a token, stores its hash, and returns its text: the only time
// that anybody sees it. It answers [duly.ErrInvalid] for a token that names no
// namespace or right.
func (g *Guard) Create(ctx context.Context, t duly.Token) (secret string, made duly.Token, err error) {
	if err := t.Validate(); err != nil {
		return "", t, err
	}
	if t.Limits != (duly.Limits{}) && g.cfg.Limiter == nil {
		return "", t, errNoLimiter()
	}
	secret = NewSecret()
	t.Hash, _ = Hash(secret)
	t.CreatedAt = g.now()
	if err := g.cfg.Registry.PutToken(ctx, t); err != nil {
		return "", t, err
	}
	return secret, t, nil
}

// CreateAs makes a token whose secret was made elsewhere, under the hash that
// it has. It answers [duly.ErrConflict] if there is one already.
func (g *Guard) CreateAs(ctx context.Context, t duly.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if t.Limits != (duly.Limits{}) && g.cfg.Limiter == nil {
		return errNoLimiter()
	}
	_, err := g.cfg.Registry.FindToken(ctx, t.Hash)
	if err == nil {
		return duly.Errorf(duly.CodeConflict, "there is such a token already")
	}
	if !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	t.CreatedAt = g.now()
	return g.cfg.Registry.PutToken(ctx, t)
}

// now is in whole milliseconds, as engines keep times, so that a token is told
// with the same moment when it is made and when it is listed.
func (g *Guard) now() time.Time { return g.cfg.Clock.Now().Truncate(time.Millisecond) }

// Limit replaces the limits of a token; [duly.ErrNotFound].
func (g *Guard) Limit(ctx context.Context, hash [32]byte, l duly.Limits) error {
	if g.cfg.Limiter == nil {
		return errNoLimiter()
	}
	err := g.cfg.Limiter.LimitToken(ctx, hash, l)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.change++ // also after an error: the store may have done it
	return err
}

// Revoke deletes a token. Once it has answered, the token opens nothing on this
// server, and what waits with it ends; on the others within a second. It
// answers [duly.ErrNotFound] for one that is not there, and [duly.ErrConflict]
// for the last one by which others could be made.
func (g *Guard) Revoke(ctx context.Context, hash [32]byte) error {
	if err := g.keepsOperator(ctx, hash); err != nil {
		return err
	}
	if err := g.removeFile(hash); err != nil {
		return err
	}
	err := g.cfg.Registry.DeleteToken(ctx, hash)
	g.forget(hash, revoked()) // also after an error: the store may have done it
	return err
}

// keepsOperator refuses to revoke what nobody could undo.
func (g *Guard) keepsOperator(ctx context.Context, hash [32]byte) error {
	if g.HasAccounts() {
		return nil
	}
	t, err := g.cfg.Registry.FindToken(ctx, hash)
	if err != nil || !Operator.Allows(&t, "") {
		return err
	}
	another, err := g.any(ctx, duly.AllNamespaces, func(t *duly.Token) bool { return t.Hash != hash && Operator.Allows(t, "") })
	if err == nil && !another {
		err = duly.Errorf(duly.CodeConflict, "this is the last token with the right admin for all namespaces; make another one first")
	}
	return err
}

// Any tells whether the registry has a token at all.
func (g *Guard) Any(ctx context.Context) (bool, error) {
	return g.any(ctx, "", func(*duly.Token) bool { return true })
}

// AnyOperator tells whether somebody may use the admin address: an account, or
// a token with the right admin for all namespaces.
func (g *Guard) AnyOperator(ctx context.Context) (bool, error) {
	if g.HasAccounts() {
		return true, nil
	}
	return g.AnyOperatorToken(ctx)
}

// AnyOperatorToken is AnyOperator without the accounts.
func (g *Guard) AnyOperatorToken(ctx context.Context) (bool, error) {
	return g.any(ctx, duly.AllNamespaces, func(t *duly.Token) bool { return Operator.Allows(t, "") })
}

// any tells whether a namespace ("" for all) has a token of that kind.
func (g *Guard) any(ctx context.Context, namespace string, kind func(*duly.Token) bool) (bool, error) {
	p := duly.PageParams{Limit: duly.MaxBatch}
	for {
		page, err := g.cfg.Registry.Tokens(ctx, namespace, p)
		if err != nil {
			return false, err
		}
		for i := range page.Tokens {
			if kind(&page.Tokens[i]) {
				return true, nil
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return false, nil
		}
	}
}

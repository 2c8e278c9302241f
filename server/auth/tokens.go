package auth

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Create creates a token, stores its hash, and returns its text. The text is available
// only now. Create returns [duly.ErrInvalid] for a token without a namespace or a right.
func (g *Guard) Create(ctx context.Context, t contract.Token) (secret string, created contract.Token, err error) {
	if err := t.Validate(); err != nil {
		return "", t, err
	}
	if t.Limits != (contract.Limits{}) && g.cfg.Limiter == nil {
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

// CreateAs stores a token whose secret was created elsewhere, under its hash. It
// returns [duly.ErrConflict] if the token exists.
func (g *Guard) CreateAs(ctx context.Context, t contract.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if t.Limits != (contract.Limits{}) && g.cfg.Limiter == nil {
		return errNoLimiter()
	}

	_, err := g.cfg.Registry.FindToken(ctx, t.Hash)
	if err == nil {
		return contract.Errorf(duly.CodeConflict, "this token exists already")
	}
	if !errors.Is(err, duly.ErrNotFound) {
		return err
	}
	t.CreatedAt = g.now()
	return g.cfg.Registry.PutToken(ctx, t)
}

// now returns the time in whole milliseconds, as engines store it. So a token has the
// same creation time in the answer to its creation and in lists.
func (g *Guard) now() time.Time { return g.cfg.Clock.Now().Truncate(time.Millisecond) }

// Limit replaces the limits of a token. It returns [duly.ErrNotFound] if the token does
// not exist.
func (g *Guard) Limit(ctx context.Context, hash [32]byte, l contract.Limits) error {
	if g.cfg.Limiter == nil {
		return errNoLimiter()
	}
	err := g.cfg.Limiter.LimitToken(ctx, hash, l)
	g.mu.Lock()
	defer g.mu.Unlock()
	// Even after an error, the store may have changed the limits.
	g.version++
	return err
}

// Revoke deletes a token. When it returns, this server no longer admits the token, and waiting
// requests with the token end. Other servers follow within a second. Revoke returns
// [duly.ErrNotFound] if the token does not exist, and [duly.ErrConflict] for the last token that
// can create tokens.
func (g *Guard) Revoke(ctx context.Context, hash [32]byte) error {
	if err := g.checkLastOperator(ctx, hash); err != nil {
		return err
	}
	// The file goes first: after a crash, a start must not store the token again.
	if err := g.removeFile(hash); err != nil {
		return err
	}
	err := g.cfg.Registry.DeleteToken(ctx, hash)
	// Even after an error, the store may have deleted the token.
	g.invalidate(hash, revoked())
	return err
}

// checkLastOperator returns an error for the last token that can create tokens.
func (g *Guard) checkLastOperator(ctx context.Context, hash [32]byte) error {
	if g.HasAccounts() {
		return nil
	}
	t, err := g.cfg.Registry.FindToken(ctx, hash)
	if err != nil || !Operator.Allows(&t, "") {
		return err
	}

	another, err := g.anyToken(ctx, contract.AllNamespaces, func(t *contract.Token) bool {
		return t.Hash != hash && Operator.Allows(t, "")
	})
	if err == nil && !another {
		err = contract.Errorf(duly.CodeConflict,
			"this is the last token with the right admin for all namespaces; create another one first")
	}
	return err
}

// Any reports whether the registry has a token.
func (g *Guard) Any(ctx context.Context) (bool, error) {
	return g.anyToken(ctx, "", func(*contract.Token) bool { return true })
}

// AnyOperator reports whether an account or a token has the access Operator.
func (g *Guard) AnyOperator(ctx context.Context) (bool, error) {
	if g.HasAccounts() {
		return true, nil
	}
	return g.AnyOperatorToken(ctx)
}

// AnyOperatorToken reports whether a token has the access Operator.
func (g *Guard) AnyOperatorToken(ctx context.Context) (bool, error) {
	return g.anyToken(ctx, contract.AllNamespaces, func(t *contract.Token) bool { return Operator.Allows(t, "") })
}

// anyToken reports whether a namespace has a token that matches. The namespace ""
// means all.
func (g *Guard) anyToken(ctx context.Context, namespace string, matches func(*contract.Token) bool) (bool, error) {
	p := duly.PageParams{Limit: duly.MaxBatch}
	for {
		page, err := g.cfg.Registry.Tokens(ctx, namespace, p)
		if err != nil {
			return false, err
		}
		for i := range page.Tokens {
			if matches(&page.Tokens[i]) {
				return true, nil
			}
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return false, nil
		}
	}
}

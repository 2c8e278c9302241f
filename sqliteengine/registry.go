package sqliteengine

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/sqliteengine/internal/sq"
)

var _ contract.Registry = (*Engine)(nil)

// PutToken implements contract.Registry.
func (e *Engine) PutToken(ctx context.Context, token contract.Token) error {
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

// changeToken is add for changes that token watchers must see.
func (e *Engine) changeToken(ctx context.Context, n spaceClass, run func(t *tx) error) error {
	return e.changeWithSpace(ctx, n, func(t *tx) error {
		err := run(t)
		t.tokensChanged = t.tokensChanged || err == nil
		return err
	})
}

func bindLimits(s *sq.Stmt, at int, l contract.Limits) {
	s.Int(at, int64(l.Produce)).Int(at+1, int64(l.Consume)).Int(at+2, int64(l.Per))
}

// FindToken implements contract.Registry.
func (e *Engine) FindToken(ctx context.Context, hash [32]byte) (token contract.Token, err error) {
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
func scanToken(s *sq.Stmt) (t contract.Token) {
	copy(t.Hash[:], s.ColRaw(0))
	t.Namespace, t.Rights, t.Description = s.ColText(1), contract.Right(s.ColInt(2)), s.ColText(3)
	t.CreatedAt = clock.FromMilli(s.ColInt(4))
	t.Limits = contract.Limits{Produce: int(s.ColInt(5)), Consume: int(s.ColInt(6)), Per: time.Duration(s.ColInt(7))}
	return t
}

// DeleteToken implements contract.Registry.
func (e *Engine) DeleteToken(ctx context.Context, hash [32]byte) error {
	err := e.changeToken(ctx, spaceNone, func(t *tx) error {
		gone, err := t.stmt("token_drop").Blob(1, hash[:]).Run()
		if err == nil && gone == 0 {
			err = contract.NoToken()
		}
		return err
	})
	if err == nil {
		e.tokenUsage.forget(hash)
	}
	return err
}

// Tokens implements contract.Registry.
func (e *Engine) Tokens(ctx context.Context, namespace string, p duly.PageParams) (page contract.TokenPage, err error) {
	after, err := contract.ValidateTokenPage(&p)
	if err != nil {
		return page, err
	}

	err = e.read(ctx, func(c *conn) error {
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

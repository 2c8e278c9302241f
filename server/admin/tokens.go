package admin

import (
	"net/http"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

func (a *API) createToken(c *route.Call) error {
	t, err := a.readToken(c)
	if err != nil {
		return err
	}
	secret, created, err := a.Guard.Create(c.Context(), t)
	if err != nil {
		return err
	}
	c.Log().Info("token created", "created", auth.Name(created.Hash), "namespace", created.Namespace,
		"rights", created.Rights.Names(), "by", c.Caller())
	return c.Reply(http.StatusCreated, wire.MadeTokenForm.Append(c.Out(), wire.Token{Token: created, Secret: secret}))
}

// readToken reads the token of a request. If the query names a pool, readToken places the token's
// namespace in that pool.
func (a *API) readToken(c *route.Call) (contract.Token, error) {
	t, err := route.Read(c, wire.NewTokenForm.ReadRequest)
	if err != nil {
		return contract.Token{}, err
	}
	if pool := c.Query("pool"); pool != "" {
		// The token is validated first, because a refused token must not place its namespace.
		if err := t.Validate(); err != nil {
			return contract.Token{}, err
		}
		err = a.Pools.Assign(c.Context(), t.Namespace, pool)
	}
	return t, err
}

// adoptToken stores a token whose text was created elsewhere. The request has only the hash of the
// text.
func (a *API) adoptToken(c *route.Call) error {
	hash, err := wire.ParseTokenID(c.PathValue("id"))
	if err != nil {
		return err
	}
	t, err := a.readToken(c)
	if err != nil {
		return err
	}

	t.Hash = hash
	if err := a.Guard.CreateAs(c.Context(), t); err != nil {
		return err
	}
	// The log has the name of the hash, never the text of a token.
	c.Log().Info("token imported", "created", auth.Name(hash), "namespace", t.Namespace,
		"rights", t.Rights.Names(), "by", c.Caller())
	return c.Empty()
}

func (a *API) tokens(c *route.Call) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	namespace := c.Query("namespace")
	// The name that means all namespaces is not a valid namespace.
	if namespace != contract.AllNamespaces {
		if err := contract.ValidateNamespace(namespace); err != nil {
			return err
		}
	}

	page, err := a.Registry.Tokens(c.Context(), namespace, p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.TokensForm.Append(c.Out(), page))
}

func (a *API) limitToken(c *route.Call) error {
	hash, err := wire.ParseTokenID(c.PathValue("id"))
	if err != nil {
		return err
	}
	limits, err := route.Read(c, wire.ReadLimits)
	if err != nil {
		return err
	}
	if err := a.Guard.Limit(c.Context(), hash, limits); err != nil {
		return err
	}
	c.Log().Info("token limited", "limited", auth.Name(hash), "by", c.Caller())
	return c.Empty()
}

func (a *API) revokeToken(c *route.Call) error {
	hash, err := wire.ParseTokenID(c.PathValue("id"))
	if err != nil {
		return err
	}
	text, err := c.Body()
	if err == nil {
		err = wire.ReadEmpty(text)
	}
	if err == nil {
		err = a.Guard.Revoke(c.Context(), hash)
	}
	if err != nil {
		return err
	}
	c.Log().Info("token revoked", "revoked", auth.Name(hash), "by", c.Caller())
	return c.Empty()
}

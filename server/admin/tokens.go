package admin

import (
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/auth"
	"github.com/dulymq/duly/server/route"
)

func (a *API) createToken(c *route.Call) error {
	t, err := a.asked(c)
	if err != nil {
		return err
	}
	secret, made, err := a.Guard.Create(c.Context(), t)
	if err != nil {
		return err
	}
	c.Log().Info("token made", "made", auth.Name(made.Hash), "namespace", made.Namespace, "rights", made.Rights.Names(), "by", c.Who())
	return c.Reply(http.StatusCreated, wire.AppendToken(c.Out(), wire.Token{Token: made, Secret: secret}))
}

// asked is the token that is asked for. Its namespace is then in the pool that
// is asked for.
func (a *API) asked(c *route.Call) (duly.Token, error) {
	t, err := route.Read(c, wire.ReadToken)
	if err != nil {
		return duly.Token{}, err
	}
	if pool := c.Query("pool"); pool != "" {
		if err := t.Validate(); err != nil {
			return duly.Token{}, err
		}
		err = a.Pools.Assign(c.Context(), t.Namespace, pool)
	}
	return t.Token, err
}

// adoptToken stores a token whose text was made elsewhere, by its hash alone.
func (a *API) adoptToken(c *route.Call) error {
	hash, err := wire.ParseTokenID(c.PathValue("id"))
	if err != nil {
		return err
	}
	t, err := a.asked(c)
	if err != nil {
		return err
	}
	t.Hash = hash
	if err := a.Guard.CreateAs(c.Context(), t); err != nil {
		return err
	}
	c.Log().Info("token adopted", "made", auth.Name(hash), "namespace", t.Namespace, "rights", t.Rights.Names(), "by", c.Who())
	return c.Empty()
}

func (a *API) tokens(c *route.Call) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	namespace := c.Query("namespace")
	if namespace != duly.AllNamespaces {
		if err := duly.ValidateNamespace(namespace); err != nil {
			return err
		}
	}
	page, err := a.Registry.Tokens(c.Context(), namespace, p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.AppendTokens(c.Out(), page))
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
	c.Log().Info("token limited", "limited", auth.Name(hash), "by", c.Who())
	return c.Empty()
}

func (a *API) revokeToken(c *route.Call) error {
	hash, err := wire.ParseTokenID(c.PathValue("id"))
	if err != nil {
		return err
	}
	text, err := c.Body()
	if err == nil {
		err = wire.ReadEmpty(text, wire.Strict)
	}
	if err == nil {
		err = a.Guard.Revoke(c.Context(), hash)
	}
	if err != nil {
		return err
	}
	c.Log().Info("token revoked", "revoked", auth.Name(hash), "by", c.Who())
	return c.Empty()
}

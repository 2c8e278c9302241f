package admin

import (
	"net/http"

	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

func (a *API) pools(c *route.Call) error {
	return c.Reply(http.StatusOK, wire.PoolsForm.Append(c.Out(), a.Pools.States(c.Context())))
}

func (a *API) placeNamespace(c *route.Call) error {
	pool, err := route.Read(c, wire.ReadPlace)
	if err != nil {
		return err
	}
	if err := a.Pools.Assign(c.Context(), c.PathValue("name"), pool); err != nil {
		return err
	}
	return c.Empty()
}

func (a *API) moves(c *route.Call) error {
	namespace := c.Query("namespace")
	// An empty name means every namespace that moves.
	if namespace != "" {
		if err := contract.ValidateNamespace(namespace); err != nil {
			return err
		}
	}
	moves, err := a.Pools.Moves(c.Context(), namespace)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.MovesForm.Append(c.Out(), moves))
}

func (a *API) move(c *route.Call) error {
	m, err := route.Read(c, wire.ReadMoving)
	if err != nil {
		return err
	}
	// The move continues without the caller, so the answer is only its beginning.
	where, err := a.Pools.Move(c.Context(), m.Namespace, m.To)
	if err != nil {
		return err
	}
	c.Log().Info("namespace moves", "namespace", where.Namespace, "from", where.From, "to", where.Pool, "by", c.Caller())
	return c.Reply(http.StatusAccepted, wire.MoveForm.Append(c.Out(), contract.MoveState{Placement: where}))
}

func (a *API) namespaces(c *route.Call) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	names, err := a.Registry.Namespaces(c.Context(), p)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.AppendNames(c.Out(), "namespaces", names))
}

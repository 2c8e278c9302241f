package native

import (
	"net/http"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
)

// pushHandler serves a route of HTTP push.
type pushHandler func(c *route.Call, targets contract.PushTargets, name string) error

// onTargets returns a handler for the target that the path names.
func (a *API) onTargets(h pushHandler) route.Handler {
	return func(c *route.Call) error {
		// The routes exist on every server, so that the error names the reason.
		if a.cfg.Push.Targets == nil {
			return contract.Errorf(duly.CodeUnsupported,
				"this server has no HTTP push, because its engine stores no targets; use another server")
		}
		return h(c, a.cfg.Push.Of(c.Namespace), c.PathValue("name"))
	}
}

// changing is like onTargets for a route that changes a target and has no result.
func (a *API) changing(h pushHandler) route.Handler {
	return a.onTargets(func(c *route.Call, targets contract.PushTargets, name string) error {
		if err := h(c, targets, name); err != nil {
			return err
		}
		return c.Empty()
	})
}

// targetBytes bounds the size of a target in a list, without its CA.
const targetBytes = 8 << 10

func (a *API) targets(c *route.Call, targets contract.PushTargets, _ string) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	list, next, err := targets.Targets(c.Context(), p)
	if err != nil {
		return err
	}

	size := 0
	for i := range list {
		// A certificate authority is the only part without a small bound.
		size += targetBytes + len(list[i].Settings.CA)
	}
	if err := c.ReserveMemory(int64(size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.TargetsForm.Append(c.Room(size), wire.TargetPage{Targets: list, Next: next}))
}

func (a *API) target(c *route.Call, targets contract.PushTargets, name string) error {
	t, err := targets.Target(c.Context(), name)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.TargetForm.Append(c.Out(), t))
}

func (a *API) putTarget(c *route.Call, targets contract.PushTargets, name string) error {
	s, err := route.Read(c, wire.TargetSettingsForm.ReadRequest)
	if err != nil {
		return err
	}
	return targets.SetTarget(c.Context(), name, s)
}

func (a *API) deleteTarget(c *route.Call, targets contract.PushTargets, name string) error {
	if err := empty(c); err != nil {
		return err
	}
	return targets.DeleteTarget(c.Context(), name)
}

func (a *API) enable(enabled bool) pushHandler {
	return func(c *route.Call, targets contract.PushTargets, name string) error {
		if err := empty(c); err != nil {
			return err
		}
		if err := targets.EnableTarget(c.Context(), name, enabled); err != nil {
			return err
		}
		// Deliveries start or stop, so the log names the caller.
		c.Log().Info("a target of HTTP push was enabled or disabled",
			"namespace", c.Namespace, "target", name, "enabled", enabled, "by", c.Caller())
		return nil
	}
}

// rotate replaces the secret of a target, or that of the namespace, by a new one.
func (a *API) rotate(c *route.Call, targets contract.PushTargets, name string) error {
	p, err := route.Read(c, wire.PushRotateForm.ReadRequest)
	if err != nil {
		return err
	}
	if err := targets.RotateSecret(c.Context(), name, p); err != nil {
		return err
	}
	// Receivers may refuse later signatures, so the log names the caller.
	c.Log().Info("a secret was rotated",
		"namespace", c.Namespace, "target", name, "overlap", overlapOf(p), "by", c.Caller())
	return nil
}

// secret shows the secret of a target, or that of the namespace, and logs it.
func (a *API) secret(c *route.Call, _ contract.PushTargets, name string) error {
	pair, err := a.cfg.Push.Targets.Secret(c.Context(), c.Namespace, name)
	if err != nil {
		return err
	}
	// A person has seen the secret now, so the log names the caller.
	c.Log().Warn("a secret was shown", "namespace", c.Namespace, "target", name, "by", c.Caller())
	return c.Reply(http.StatusOK, wire.PushSecretForm.Append(c.Out(), contract.PushSecret{
		Secret: pair.V1.Reveal(), PrivateKey: pair.V1a.Reveal(), PublicKey: pair.V1a.Public(),
	}))
}

func (a *API) testTarget(c *route.Call, targets contract.PushTargets, name string) error {
	if err := empty(c); err != nil {
		return err
	}
	t, err := targets.TestTarget(c.Context(), name)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.PushTestForm.Append(c.Out(), t))
}

func (a *API) pushHosts(c *route.Call, targets contract.PushTargets, _ string) error {
	hosts, err := targets.Hosts(c.Context())
	if err != nil {
		return err
	}
	size := len(hosts) * queueBytes
	if err := c.ReserveMemory(int64(size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.PushHostsForm.Append(c.Room(size), hosts))
}

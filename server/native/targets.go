package native

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
	"github.com/dulymq/duly/server/route"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/sign"
	"github.com/dulymq/duly/server/webhook/target"
)

// Push has what the routes of HTTP push need. The zero value is for a server without HTTP push.
type Push struct {
	// Targets is nil for an engine that stores no targets.
	Targets *target.Store
	// Hosts returns the gates of the hosts that jobs of a namespace go to. It is nil if this server
	// sends no jobs.
	Hosts func(namespace string) []contract.PushHost
	// Test sends a test request to a target. Changed is called after this server has changed
	// a target.
	Test    func(ctx context.Context, namespace, name string) (webhook.Tested, error)
	Changed func()
}

// pushHandler serves a route of HTTP push.
type pushHandler func(c *route.Call, targets *target.Store, name string) error

// onTargets returns a handler for the target that the path names.
func (a *API) onTargets(h pushHandler) route.Handler {
	return func(c *route.Call) error {
		// The routes exist on every server, so that the error names the reason.
		if a.cfg.Push.Targets == nil {
			return contract.Errorf(duly.CodeUnsupported,
				"this server has no HTTP push, because its engine stores no targets; use another server")
		}
		return h(c, a.cfg.Push.Targets, c.PathValue("name"))
	}
}

// changing is like onTargets for a route that changes a target and has no result.
func (a *API) changing(h pushHandler) route.Handler {
	return a.onTargets(func(c *route.Call, targets *target.Store, name string) error {
		if err := h(c, targets, name); err != nil {
			return err
		}
		// The dispatcher of this server uses the change at once. Other servers notice it by
		// themselves.
		a.cfg.Push.Changed()
		return c.Empty()
	})
}

func (a *API) hosts(namespace string) []contract.PushHost {
	if a.cfg.Push.Hosts == nil {
		return nil
	}
	return a.cfg.Push.Hosts(namespace)
}

// wireTarget returns a target without its secrets.
func wireTarget(t *target.Target, hosts []contract.PushHost) contract.PushTarget {
	w := contract.PushTarget{
		Name: t.Name, HeaderNames: t.HeaderNames, OwnSecret: t.OwnSecret, Version: t.Version,
		Settings: contract.PushTargetSettings{
			URL: t.URL, Method: t.Method, Timeout: t.Timeout, Success: t.Success, Permanent: t.Permanent,
			Concurrency: t.Concurrency, Rate: t.Rate, Sign: t.Sign, CA: t.CA, Disabled: t.Disabled,
		},
	}

	// A second generation exists only while both secrets sign.
	if len(t.Generations) > 1 {
		w.OverlapUntil = t.Generations[1].Until
	}
	// All targets of a host share its gate.
	host := webhook.HostOfURL(t.URL)
	if i := slices.IndexFunc(hosts, func(h contract.PushHost) bool { return h.Host == host }); i >= 0 {
		w.Host = &hosts[i]
	}
	return w
}

// targetBytes bounds the size of a target in a list, without its CA.
const targetBytes = 8 << 10

func (a *API) targets(c *route.Call, targets *target.Store, _ string) error {
	p, err := c.Page()
	if err != nil {
		return err
	}
	found, next, err := targets.List(c.Context(), c.Namespace, p)
	if err != nil {
		return err
	}

	hosts := a.hosts(c.Namespace)
	list, size := make([]contract.PushTarget, len(found)), 0
	for i := range found {
		list[i] = wireTarget(&found[i], hosts)
		// A certificate authority is the only part without a small bound.
		size += targetBytes + len(found[i].CA)
	}
	if err := c.ReserveMemory(int64(size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.TargetsForm.Append(c.Room(size), wire.TargetPage{Targets: list, Next: next}))
}

func (a *API) target(c *route.Call, targets *target.Store, name string) error {
	t, err := targets.Get(c.Context(), c.Namespace, name)
	if err != nil {
		return err
	}
	w := wireTarget(&t, a.hosts(c.Namespace))
	return c.Reply(http.StatusOK, wire.TargetForm.Append(c.Out(), w))
}

func (a *API) putTarget(c *route.Call, targets *target.Store, name string) error {
	s, err := route.Read(c, wire.TargetSettingsForm.ReadRequest)
	if err != nil {
		return err
	}
	keys, err := keysOf(s.Secret)
	if err != nil {
		return err
	}
	return targets.Put(c.Context(), c.Namespace, name, target.Settings{
		URL: s.URL, Method: s.Method, Headers: s.Headers, Timeout: s.Timeout,
		Success: s.Success, Permanent: s.Permanent, Concurrency: s.Concurrency, Rate: s.Rate,
		Sign: s.Sign, CA: s.CA, Disabled: s.Disabled,
	}, keys)
}

// keysOf returns a key pair with the secret of a caller, nil without a secret.
func keysOf(secret string) (*sign.Pair, error) {
	if secret == "" {
		return nil, nil
	}
	s, err := sign.ParseSecret(secret)
	if err != nil {
		return nil, err
	}
	// A caller can set only the symmetric secret. The server always creates the asymmetric pair.
	pair := sign.NewPair()
	pair.Replace(s)
	return &pair, nil
}

func (a *API) deleteTarget(c *route.Call, targets *target.Store, name string) error {
	if err := empty(c); err != nil {
		return err
	}
	return targets.Delete(c.Context(), c.Namespace, name)
}

func (a *API) enable(enabled bool) pushHandler {
	return func(c *route.Call, targets *target.Store, name string) error {
		if err := empty(c); err != nil {
			return err
		}
		if err := targets.Enable(c.Context(), c.Namespace, name, enabled); err != nil {
			return err
		}
		// Deliveries start or stop, so the log names the caller.
		c.Log().Info("a target of HTTP push was enabled or disabled",
			"namespace", c.Namespace, "target", name, "enabled", enabled, "by", c.Caller())
		return nil
	}
}

// rotate replaces the secret of a target, or that of the namespace, by a new one.
func (a *API) rotate(c *route.Call, targets *target.Store, name string) error {
	p, err := route.Read(c, wire.PushRotateForm.ReadRequest)
	if err != nil {
		return err
	}
	keys, err := keysOf(p.Secret)
	if err != nil {
		return err
	}

	overlap := sign.DefaultOverlap
	// An overlap of 0 is a valid value, so only a missing overlap gets the default.
	if p.Overlap != nil {
		overlap = *p.Overlap
	}
	if _, err := targets.Rotate(c.Context(), c.Namespace, name, keys, overlap); err != nil {
		return err
	}
	// Receivers may refuse later signatures, so the log names the caller.
	c.Log().Info("a secret was rotated",
		"namespace", c.Namespace, "target", name, "overlap", overlap, "by", c.Caller())
	return nil
}

// secret shows the secret of a target, or that of the namespace, and logs it.
func (a *API) secret(c *route.Call, targets *target.Store, name string) error {
	pair, err := targets.Secret(c.Context(), c.Namespace, name)
	if err != nil {
		return err
	}
	// A person has seen the secret now, so the log names the caller.
	c.Log().Warn("a secret was shown", "namespace", c.Namespace, "target", name, "by", c.Caller())
	return c.Reply(http.StatusOK, wire.PushSecretForm.Append(c.Out(), contract.PushSecret{
		Secret: pair.V1.Reveal(), PrivateKey: pair.V1a.Reveal(), PublicKey: pair.V1a.Public(),
	}))
}

func (a *API) testTarget(c *route.Call, _ *target.Store, name string) error {
	if err := empty(c); err != nil {
		return err
	}
	t, err := a.cfg.Push.Test(c.Context(), c.Namespace, name)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.PushTestForm.Append(c.Out(), contract.PushTest{
		Status: t.Status, As: t.As, Error: t.Error, Took: t.Took.Round(time.Millisecond), WebhookID: t.WebhookID,
	}))
}

func (a *API) pushHosts(c *route.Call, _ *target.Store, _ string) error {
	hosts := a.hosts(c.Namespace)
	size := len(hosts) * queueBytes
	if err := c.ReserveMemory(int64(size)); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, wire.PushHostsForm.Append(c.Room(size), hosts))
}

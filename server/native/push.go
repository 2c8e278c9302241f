package native

import (
	"context"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
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

// Of returns the targets of a namespace.
func (p Push) Of(namespace string) contract.PushTargets { return &namespaceTargets{p, namespace} }

// namespaceTargets are the targets of a namespace.
type namespaceTargets struct {
	push      Push
	namespace string
}

// Targets implements contract.PushTargets.
func (t *namespaceTargets) Targets(
	ctx context.Context, p duly.PageParams,
) (targets []contract.PushTarget, next string, err error) {
	found, next, err := t.push.Targets.List(ctx, t.namespace, p)
	if err != nil {
		return nil, "", err
	}

	hosts, _ := t.Hosts(ctx)
	targets = make([]contract.PushTarget, len(found))
	for i := range found {
		targets[i] = publicTarget(&found[i], hosts)
	}
	return targets, next, nil
}

// Target implements contract.PushTargets.
func (t *namespaceTargets) Target(ctx context.Context, name string) (contract.PushTarget, error) {
	found, err := t.push.Targets.Get(ctx, t.namespace, name)
	if err != nil {
		return contract.PushTarget{}, err
	}
	hosts, _ := t.Hosts(ctx)
	return publicTarget(&found, hosts), nil
}

// SetTarget implements contract.PushTargets.
func (t *namespaceTargets) SetTarget(ctx context.Context, name string, s contract.PushTargetSettings) error {
	keys, err := keysOf(s.Secret)
	if err != nil {
		return err
	}
	return t.changed(t.push.Targets.Put(ctx, t.namespace, name, target.Settings{
		URL: s.URL, Method: s.Method, Headers: s.Headers, Timeout: s.Timeout,
		Success: s.Success, Permanent: s.Permanent, Concurrency: s.Concurrency, Rate: s.Rate,
		Sign: s.Sign, CA: s.CA, Disabled: s.Disabled,
	}, keys))
}

// DeleteTarget implements contract.PushTargets.
func (t *namespaceTargets) DeleteTarget(ctx context.Context, name string) error {
	return t.changed(t.push.Targets.Delete(ctx, t.namespace, name))
}

// EnableTarget implements contract.PushTargets.
func (t *namespaceTargets) EnableTarget(ctx context.Context, name string, enabled bool) error {
	return t.changed(t.push.Targets.Enable(ctx, t.namespace, name, enabled))
}

// RotateSecret implements contract.PushTargets.
func (t *namespaceTargets) RotateSecret(ctx context.Context, name string, r contract.PushRotation) error {
	keys, err := keysOf(r.Secret)
	if err != nil {
		return err
	}
	_, err = t.push.Targets.Rotate(ctx, t.namespace, name, keys, overlapOf(r))
	return t.changed(err)
}

// overlapOf returns the time for which the previous secret stays valid.
func overlapOf(r contract.PushRotation) time.Duration {
	// An overlap of 0 is a valid value, so only a missing overlap gets the default.
	if r.Overlap == nil {
		return sign.DefaultOverlap
	}
	return *r.Overlap
}

// TestTarget implements contract.PushTargets.
func (t *namespaceTargets) TestTarget(ctx context.Context, name string) (contract.PushTest, error) {
	tested, err := t.push.Test(ctx, t.namespace, name)
	if err != nil {
		return contract.PushTest{}, err
	}
	return contract.PushTest{
		Status: tested.Status, As: tested.As, Error: tested.Error, Took: tested.Took.Round(time.Millisecond),
		WebhookID: tested.WebhookID,
	}, nil
}

// Hosts implements contract.PushTargets. A server that sends no jobs has no hosts.
func (t *namespaceTargets) Hosts(context.Context) ([]contract.PushHost, error) {
	if t.push.Hosts == nil {
		return nil, nil
	}
	return t.push.Hosts(t.namespace), nil
}

// changed reports a change that had no error: the dispatcher of this server uses it at once. Other servers notice it by
// themselves.
func (t *namespaceTargets) changed(err error) error {
	if err == nil && t.push.Changed != nil {
		t.push.Changed()
	}
	return err
}

// publicTarget returns a target without its secrets.
func publicTarget(t *target.Target, hosts []contract.PushHost) contract.PushTarget {
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

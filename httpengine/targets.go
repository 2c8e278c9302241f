package httpengine

import (
	"context"
	"net/url"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// Push manages the targets and secrets of HTTP push in the engine's namespace. Methods
// take the name of a target. Where a name may be empty, the empty name means the namespace.
type Push struct{ engine *Engine }

// HTTPPush returns the targets and secrets of the server.
func (e *Engine) HTTPPush() *Push { return &Push{e} }

// path returns the path of a target, followed by below. If name is "", the path is that of HTTP
// push of the namespace.
func (p *Push) path(name, below string) string {
	base := p.engine.base + "/push"
	if name != "" {
		base += "/targets/" + url.PathEscape(name)
	}
	return base + below
}

var _ contract.PushTargets = (*Push)(nil)

// get makes a request that changes nothing on the server.
func get[T any](ctx context.Context, p *Push, r request, read func(string) (T, error)) (none T, err error) {
	if err := p.engine.begin(""); err != nil {
		return none, err
	}
	defer p.engine.calls.Done()
	r.method, r.max = "GET", maxJobs
	return fetch(ctx, p.engine.link, r, read)
}

// do makes a request that changes something.
func (p *Push) do(ctx context.Context, r request) error {
	if err := p.engine.begin(""); err != nil {
		return err
	}
	defer p.engine.calls.Done()
	return p.engine.changeOnly(ctx, r)
}

// Targets returns a page of targets, by name, and the cursor of the next page.
func (p *Push) Targets(ctx context.Context, params duly.PageParams) (targets []contract.PushTarget, next string, err error) {
	if err := contract.ValidatePage(&params); err != nil {
		return nil, "", err
	}
	query, err := page(params)
	if err != nil {
		return nil, "", err
	}
	found, err := get(ctx, p, request{path: p.path("", "/targets"), query: query}, wire.TargetsForm.ReadAnswer)
	return found.Targets, found.Next, err
}

// Target returns one target. It returns [duly.ErrNotFound] if there is none.
func (p *Push) Target(ctx context.Context, name string) (contract.PushTarget, error) {
	return get(ctx, p, request{path: p.path(name, "")}, wire.TargetForm.ReadAnswer)
}

// SetTarget creates a target, or replaces its settings.
func (p *Push) SetTarget(ctx context.Context, name string, s contract.PushTargetSettings) error {
	return p.do(ctx, request{method: "PUT", path: p.path(name, ""), body: wire.TargetSettingsForm.Append(nil, s)})
}

// DeleteTarget deletes a target. It returns [duly.ErrNotFound] if there is none.
func (p *Push) DeleteTarget(ctx context.Context, name string) error {
	return p.do(ctx, request{method: "DELETE", path: p.path(name, "")})
}

// EnableTarget enables or disables a target. It returns [duly.ErrNotFound] if there is none.
func (p *Push) EnableTarget(ctx context.Context, name string, enabled bool) error {
	below := "/disable"
	if enabled {
		below = "/enable"
	}
	return p.do(ctx, request{method: "POST", path: p.path(name, below)})
}

// RotateSecret gives a target, or the namespace, a new secret. If it is repeated, it rotates the
// secret again.
func (p *Push) RotateSecret(ctx context.Context, name string, r contract.PushRotation) error {
	below := "/rotate"
	if name == "" {
		below = "/secret/rotate"
	}
	return p.do(ctx, request{method: "POST", path: p.path(name, below), body: wire.PushRotateForm.Append(nil, r)})
}

// Secret returns the newest secret of a target, or of the namespace. The server logs the request.
func (p *Push) Secret(ctx context.Context, name string) (contract.PushSecret, error) {
	return get(ctx, p, request{path: p.path(name, "/secret")}, wire.PushSecretForm.ReadAnswer)
}

// TestTarget makes the server send a test request to a target.
func (p *Push) TestTarget(ctx context.Context, name string) (contract.PushTest, error) {
	if err := p.engine.begin(""); err != nil {
		return contract.PushTest{}, err
	}
	defer p.engine.calls.Done()
	r := request{method: "POST", path: p.path(name, "/test"), wait: maxTest}
	return change(ctx, p.engine, r, wire.PushTestForm.ReadAnswer)
}

// maxTest is the timeout of a test request: the longest timeout that a target can have.
const maxTest = duly.MaxWait

// Hosts returns the hosts to which the server sends the jobs of the namespace, the most recently
// used host first.
func (p *Push) Hosts(ctx context.Context) ([]contract.PushHost, error) {
	return get(ctx, p, request{path: p.path("", "/hosts")}, wire.PushHostsForm.ReadAnswer)
}

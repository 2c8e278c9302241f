package httpengine

import (
	"context"
	"net/url"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// Operations starts and changes the bulk operations of a server in the engine's namespace.
type Operations struct{ engine *Engine }

// Operations returns the bulk operations of the server.
func (e *Engine) Operations() *Operations { return &Operations{e} }

// path returns the path of an operation, followed by below. Without an ID it is that of the list.
func (o *Operations) path(id, below string) string {
	base := o.engine.base + "/operations"
	if id != "" {
		base += "/" + url.PathEscape(id)
	}
	return base + below
}

// Start starts an operation. If it is repeated, it starts another one, which finds only what is left.
func (o *Operations) Start(ctx context.Context, n contract.NewOperation) (contract.Operation, error) {
	if err := o.engine.begin(""); err != nil {
		return contract.Operation{}, err
	}
	defer o.engine.calls.Done()
	r := request{method: "POST", path: o.path("", ""), body: wire.NewOperationForm.Append(nil, n)}
	return change(ctx, o.engine, r, o.read)
}

// List returns a page of operations, the newest first, and the cursor of the next page.
func (o *Operations) List(
	ctx context.Context, p duly.PageParams,
) (operations []contract.Operation, next string, err error) {
	if err := contract.ValidatePage(&p); err != nil {
		return nil, "", err
	}
	query, err := page(p)
	if err != nil {
		return nil, "", err
	}
	if err := o.engine.begin(""); err != nil {
		return nil, "", err
	}
	defer o.engine.calls.Done()

	r := request{method: "GET", path: o.path("", ""), query: query, max: maxJobs}
	found, err := fetch(ctx, o.engine.link, r, wire.OperationsForm.ReadAnswer)
	for i := range found.Operations {
		found.Operations[i].Namespace = o.engine.link.namespace
	}
	return found.Operations, found.Next, err
}

// Get returns an operation with its last answers. It returns [duly.ErrNotFound] if the server has none with the ID.
func (o *Operations) Get(ctx context.Context, id string) (contract.Operation, error) {
	if err := o.engine.begin(""); err != nil {
		return contract.Operation{}, err
	}
	defer o.engine.calls.Done()
	return fetch(ctx, o.engine.link, request{method: "GET", path: o.path(id, ""), max: maxJobs}, o.read)
}

// read reads an operation of the engine's namespace.
func (o *Operations) read(text string) (contract.Operation, error) {
	found, err := wire.OperationForm.ReadAnswer(text)
	found.Namespace = o.engine.link.namespace
	return found, err
}

// Pause pauses an operation. It may be repeated.
func (o *Operations) Pause(ctx context.Context, id string) error { return o.change(ctx, id, "/pause") }

// Continue continues an operation that is paused or interrupted, or that waits after its canary.
func (o *Operations) Continue(ctx context.Context, id string) error {
	return o.change(ctx, id, "/continue")
}

// Stop ends an operation. It may be repeated.
func (o *Operations) Stop(ctx context.Context, id string) error { return o.change(ctx, id, "/stop") }

func (o *Operations) change(ctx context.Context, id, below string) error {
	if err := o.engine.begin(""); err != nil {
		return err
	}
	defer o.engine.calls.Done()
	return o.engine.changeOnly(ctx, request{method: "POST", path: o.path(id, below)})
}

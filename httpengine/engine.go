package httpengine

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cancels"
	"github.com/dulymq/duly/internal/wire"
)

// Engine implements the contract for one namespace of a server. It is safe for concurrent use.
// Share one Engine, because its calls share connections and requests.
type Engine struct {
	link *link
	cfg  Config
	base string // "/v1/NAMESPACE"

	pushes  batcher[duly.PushResult]
	settles batcher[error]
	cancels cancels.Hub

	publishers publishers

	closing context.Context // ends when Close is called
	end     context.CancelFunc
	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup // counts the calls and goroutines that Close waits for
}

var (
	_ contract.Engine     = (*Engine)(nil)
	_ contract.Surveyor   = (*Engine)(nil)
	_ contract.Finder     = (*Engine)(nil)
	_ contract.Explainer  = (*Engine)(nil)
	_ contract.KeyLister  = (*Engine)(nil)
	_ contract.Namespacer = (*Engine)(nil)
)

// Open returns an engine on a server. It sends nothing, so it does not notice that a server is
// down. It returns [duly.ErrInvalid] for an invalid URL. No error repeats the URL, because the URL
// may contain a token.
func Open(_ context.Context, cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a, err := parseAddress(cfg.URL, cfg.Token, engineForm)
	if err != nil {
		return nil, err
	}
	a.namespace = contract.NamespaceOr(a.namespace)
	if err := contract.ValidateNamespace(a.namespace); err != nil {
		return nil, err
	}

	e := &Engine{link: newLink(a, cfg.TLS, cfg.Client, cfg.Timeout), cfg: cfg, base: "/v1/" + a.namespace}
	e.closing, e.end = context.WithCancel(context.Background())
	e.pushes.start(e.spawn, func(ctx context.Context, body []byte) ([]duly.PushResult, error) {
		return postBatch(ctx, e, "/push", body, wire.PushedForm.ReadAnswer)
	})
	e.settles.start(e.spawn, func(ctx context.Context, body []byte) ([]error, error) {
		return postBatch(ctx, e, "/settle", body, wire.ResultsForm.ReadAnswer)
	})
	e.cancels.Source = e.followCancels
	return e, nil
}

// String returns the engine's URL without its token.
func (e *Engine) String() string { return e.link.String() }

// GoString returns the result of String, for %#v.
func (e *Engine) GoString() string { return e.String() }

// Namespace implements contract.Namespacer. It returns the namespace of the URL.
func (e *Engine) Namespace() string { return e.link.namespace }

// Close implements duly.Engine. It ends every Wait and WatchCancels, and waits for all other calls.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()

	// Waits and watches are ended first. Otherwise Close would wait until they end by themselves.
	e.end()
	e.cancels.Close()
	e.calls.Wait()
	e.link.close()
	return nil
}

// begin begins a call in a namespace. The call ends by e.calls.Done.
func (e *Engine) begin(namespace string) error {
	if namespace != "" && namespace != e.link.namespace {
		return e.foreignNamespace(namespace)
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return duly.ErrClosed
	}
	// Close sets closed under the same lock, so no call is added after its Wait has begun.
	e.calls.Add(1)
	return nil
}

// foreignNamespace returns the error for a namespace that is not the one in the URL.
func (e *Engine) foreignNamespace(namespace string) error {
	// A name that is not valid for any namespace is invalid, not forbidden.
	if err := contract.ValidateNamespace(namespace); err != nil {
		return err
	}
	return contract.Errorf(duly.CodeForbidden, "this engine serves only the namespace %s of its URL, not %s",
		e.link.namespace, contract.Quoted(namespace))
}

// beginQueue is like begin, for a call about one queue.
func (e *Engine) beginQueue(q duly.QueueRef) error {
	if err := e.begin(q.Namespace); err != nil {
		return err
	}
	if err := contract.ValidateQueue(q); err != nil {
		e.calls.Done()
		return err
	}
	return nil
}

// beginJob is like begin, for a call about one job.
func (e *Engine) beginJob(q duly.QueueRef, id string) error {
	if err := e.beginQueue(q); err != nil {
		return err
	}
	if err := contract.ValidateID(id); err != nil {
		e.calls.Done()
		return err
	}
	return nil
}

func (e *Engine) queuePath(q duly.QueueRef) string { return e.base + "/queues/" + q.Name }

func (e *Engine) jobPath(q duly.QueueRef, id string) string { return e.queuePath(q) + "/jobs/" + id }

// spawn runs f on a goroutine that Close waits for. Only calls in flight call spawn, so Close waits
// for the goroutine as well.
func (e *Engine) spawn(f func()) bool {
	e.calls.Go(f)
	return true
}

// postBatch posts a batch and reads its results.
func postBatch[R any](
	ctx context.Context, e *Engine, path string, body []byte, read func(string) ([]R, error),
) ([]R, error) {
	text, err := e.link.call(ctx, request{method: "POST", path: e.base + path, body: body})
	if err != nil {
		return nil, err
	}
	results, err := read(text)
	if err != nil {
		return nil, e.link.malformed("has no list of results for the batch")
	}
	return results, nil
}

// fetch makes a request and reads its answer.
func fetch[T any](ctx context.Context, l *link, r request, read func(string) (T, error)) (none T, err error) {
	text, err := l.call(ctx, r)
	if err != nil {
		return none, err
	}
	v, err := read(text)
	if err != nil {
		return none, l.malformed("has JSON of another form than this API's")
	}
	return v, nil
}

// change is like fetch for a request that changes something. It continues if its caller leaves.
func change[T any](ctx context.Context, e *Engine, r request, read func(string) (T, error)) (T, error) {
	return detach(ctx, e, func(ctx context.Context) (T, error) { return fetch(ctx, e.link, r, read) }, nil)
}

// changeOnly is like change for a request without a result.
func (e *Engine) changeOnly(ctx context.Context, r request) error {
	_, err := change(ctx, e, r, func(text string) (string, error) { return text, nil })
	return err
}

// detach makes a call that continues if its caller leaves. In that case the result goes to the
// function unwanted, if it is set.
func detach[T any](
	ctx context.Context, e *Engine, call func(context.Context) (T, error), unwanted func(T),
) (T, error) {
	var none T
	// After this check the request may be sent, so later the context's error would be wrong: it
	// means that nothing was sent.
	if err := ctx.Err(); err != nil {
		return none, err
	}
	// The caller can't leave without a context that ends, so no goroutine is needed.
	if ctx.Done() == nil {
		return call(ctx)
	}

	type result struct {
		value T
		err   error
	}
	results := make(chan result) // unbuffered, so that a result is sent only if the caller receives it
	// The caller's own call is still counted, so Close cannot have finished its Wait.
	e.calls.Add(1)
	go func() {
		defer e.calls.Done()
		v, err := call(context.WithoutCancel(ctx))
		select {
		case results <- result{v, err}:
		case <-ctx.Done():
			if err == nil && unwanted != nil {
				unwanted(v)
			}
		}
	}()

	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		return none, unanswered(ctx)
	}
}

package httpengine

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/cancels"
	"github.com/dulymq/duly/internal/wire"
)

// Engine is the contract over one namespace of a server. It is safe for
// concurrent use, and meant to be shared: its calls share connections and
// requests.
type Engine struct {
	link *link
	cfg  Config
	base string // "/v1/NAMESPACE"

	pushes  batcher[duly.PushResult]
	settles batcher[error]
	cancels cancels.Hub

	publishers publishers

	closing context.Context // ends with Close
	end     context.CancelFunc
	mu      sync.Mutex
	closed  bool
	calls   sync.WaitGroup // everything that Close has to wait for
}

var (
	_ contract.Engine     = (*Engine)(nil)
	_ contract.Surveyor   = (*Engine)(nil)
	_ contract.Namespacer = (*Engine)(nil)
)

// Open returns an engine on a server. It sends nothing: a server that is away
// is seen by the calls, and may come. It answers [duly.ErrInvalid] for a URL
// that is none; no error repeats the URL, which may hold a token.
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

// String is the engine's URL as it may be printed: without its token.
func (e *Engine) String() string { return e.link.String() }

// GoString is String, for %#v.
func (e *Engine) GoString() string { return e.String() }

// Namespace implements contract.Namespacer: the namespace of the URL, the only one
// that the engine serves.
func (e *Engine) Namespace() string { return e.link.namespace }

// Close implements duly.Engine. It waits for what is on its way, except that
// it ends every Wait and WatchCancels.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.end()
	e.cancels.Close()
	e.calls.Wait()
	e.link.close()
	return nil
}

// enter begins a call in a namespace; leave it by e.calls.Done.
func (e *Engine) enter(namespace string) error {
	if namespace != "" && namespace != e.link.namespace {
		return e.foreign(namespace)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return duly.ErrClosed
	}
	e.calls.Add(1)
	return nil
}

// foreign is the error of what names another namespace than the URL.
func (e *Engine) foreign(namespace string) error {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return err
	}
	return contract.Errorf(duly.CodeForbidden, "this engine serves the namespace %s of its URL alone, not %s", e.link.namespace, contract.Quoted(namespace))
}

// enterQueue is enter for a call about one queue.
func (e *Engine) enterQueue(q duly.QueueRef) error {
	if err := e.enter(q.Namespace); err != nil {
		return err
	}
	if err := contract.ValidateQueue(q); err != nil {
		e.calls.Done()
		return err
	}
	return nil
}

// enterJob is enter for a call about one job.
func (e *Engine) enterJob(q duly.QueueRef, id string) error {
	if err := e.enterQueue(q); err != nil {
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

// spawn runs f on a goroutine that Close waits for. It is called by calls under way,
// so Close waits already.
func (e *Engine) spawn(f func()) bool {
	e.calls.Go(f)
	return true
}

// postBatch posts a batch and reads its results.
func postBatch[R any](ctx context.Context, e *Engine, path string, body []byte, read func(string) ([]R, error)) ([]R, error) {
	text, err := e.link.call(ctx, request{method: "POST", path: e.base + path, body: body})
	if err != nil {
		return nil, err
	}
	results, err := read(text)
	if err != nil {
		return nil, e.link.garbled("a batch with what is no list of results")
	}
	return results, nil
}

// answer reads an answer by its reader.
func answer[T any](l *link, text string, read func(string) (T, error)) (T, error) {
	v, err := read(text)
	if err != nil {
		var none T
		return none, l.garbled("with JSON that is not this API's")
	}
	return v, nil
}

// outlive makes a call that runs on if its caller goes. What it then brings is
// handed to unwanted, if that is set: to it or to the caller, never to both.
func outlive[T any](ctx context.Context, e *Engine, call func(context.Context) (T, error), unwanted func(T)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if ctx.Done() == nil {
		return call(ctx)
	}
	type outcome struct {
		value T
		err   error
	}
	hand := make(chan outcome) // without a buffer: what is sent has a taker
	e.calls.Add(1)
	go func() {
		defer e.calls.Done()
		v, err := call(context.WithoutCancel(ctx))
		select {
		case hand <- outcome{v, err}:
		case <-ctx.Done():
			if err == nil && unwanted != nil {
				unwanted(v)
			}
		}
	}()
	select {
	case o := <-hand:
		return o.value, o.err
	case <-ctx.Done():
		return none, unanswered(ctx)
	}
}

package redisengine

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/inspect"
	"github.com/dulymq/duly/redisengine/internal/jobs"
	"github.com/dulymq/duly/redisengine/internal/maintain"
	"github.com/dulymq/duly/redisengine/internal/operate"
	"github.com/dulymq/duly/redisengine/internal/schedules"
	"github.com/dulymq/duly/redisengine/internal/store"
	"github.com/dulymq/duly/redisengine/internal/tokens"
	"github.com/dulymq/duly/redisengine/internal/topics"
	"github.com/dulymq/duly/redisengine/internal/wait"
)

// Engine is an engine on Redis. It implements contract.Engine, contract.Maintainer,
// contract.Registry, contract.Firer and contract.CancelWatcher, and is safe for concurrent use.
// Any number of engines, in any number of processes, may share the servers.
type Engine struct {
	store   *store.Store
	catalog *catalog.Catalog
	hub     *wait.Hub
	cancels *cancel.Reporter
	once    sync.Once // makes Close run once

	// Each part implements some of the interfaces.
	*calls
	*inspector
	*operator
	*maintainer
	*registry
	*topicCalls
	*scheduleCalls
	passes *schedules.Passes
}

// These aliases embed the parts without exporting their names.
type (
	calls      = jobs.Jobs
	inspector  = inspect.Inspector
	operator   = operate.Operator
	maintainer = maintain.Maintainer
	registry   = tokens.Tokens
	topicCalls = topics.Topics

	scheduleCalls = schedules.Schedules
)

var (
	_ contract.Engine        = (*Engine)(nil)
	_ contract.Maintainer    = (*Engine)(nil)
	_ contract.Resetter      = (*Engine)(nil)
	_ contract.Registry      = (*Engine)(nil)
	_ contract.Limiter       = (*Engine)(nil)
	_ contract.Watcher       = (*Engine)(nil)
	_ contract.Placer        = (*Engine)(nil)
	_ contract.Targeter      = (*Engine)(nil)
	_ contract.Surveyor      = (*Engine)(nil)
	_ contract.Finder        = (*Engine)(nil)
	_ contract.Explainer     = (*Engine)(nil)
	_ contract.KeyLister     = (*Engine)(nil)
	_ contract.CancelWatcher = (*Engine)(nil)
	_ contract.Passer        = (*Engine)(nil)
	_ contract.Topics        = (*Engine)(nil)
	_ contract.Firer         = (*Engine)(nil)
)

// Open connects, checks that the servers can hold queues and that the user has the rights, and
// loads the engine's functions.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	options, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	options.Observe, options.Sent = cfg.Observe, cfg.sent
	s, err := store.Open(ctx, cfg.settings(), options)
	if err != nil {
		return nil, err
	}

	// The catalog is created first, because the other parts use it.
	e := &Engine{store: s, cancels: cancel.New(s)}
	e.catalog = catalog.New(s, e.cancels)
	e.hub = wait.New(e.catalog)
	e.scheduleCalls, e.passes = schedules.New(e.catalog, e.hub.Go)
	e.maintainer = maintain.New(e.catalog)
	e.calls = jobs.New(e.catalog, e.hub, e.cancels, e.maintainer.Repairer)
	e.topicCalls = topics.New(e.catalog, e.cancels)
	// Maintainer and topics need each other, so the maintainer's field is set after both exist.
	e.maintainer.Logs = e.topicCalls
	e.inspector = &inspect.Inspector{Catalog: e.catalog, Of: e.topicCalls}
	e.operator = &operate.Operator{Catalog: e.catalog, Cancels: e.cancels}
	e.registry = tokens.New(s, e.catalog.Resets)
	if err := e.prepare(ctx); err != nil {
		s.Link.Close()
		return nil, err
	}
	return e, nil
}

// prepare checks that the servers' user has the rights that the engine needs, and
// loads the functions that every process calls.
func (e *Engine) prepare(ctx context.Context) error {
	if err := e.store.Rights(ctx); err != nil {
		return err
	}
	// Provide checks the rights first, because without rights the later calls fail with a less
	// helpful error.
	if err := e.store.Link.Provide(ctx, store.LibrariesOfOpen()...); err != nil {
		return err
	}
	// The entry keeps other processes from deleting the library that this process uses.
	return e.maintainer.Libraries.RecordOwn(ctx)
}

// closeLimit is how long Close waits for calls in flight, in case a server hangs.
const closeLimit = 2 * store.Recheck

// Close implements duly.Engine. Calls in flight finish. A call whose server does not answer
// within closeLimit fails with duly.ErrClosed.
func (e *Engine) Close() error {
	e.once.Do(func() {
		s := e.store
		s.Closing.Store(true)
		// A hung server must not block Close, so a timer cuts its connections.
		cut := clock.System().AfterFunc(closeLimit, s.Link.Close)
		// Waiters and watchers end first, because they would otherwise block until their own
		// deadlines.
		e.hub.Close()
		e.passes.Close()
		e.cancels.Close()
		// Tasks in flight still use the link, so it closes last.
		s.Tasks.Close()
		cut.Stop()
		s.End()
		s.Link.Close()
	})
	return nil
}

// Wait implements duly.Engine. It reserves no job for the waiter.
func (e *Engine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	return e.hub.Wait(ctx, p)
}

// Pass implements contract.Passer. It wakes another waiter of the queues.
func (e *Engine) Pass(_ context.Context, namespace string, queues []string) {
	// The caller may have waited as a dispatcher or as a worker.
	for _, dispatcher := range []bool{false, true} {
		e.hub.PassOn(namespace, queues, dispatcher)
	}
}

// WatchCancels implements contract.CancelWatcher. All watchers of a namespace share one
// connection.
func (e *Engine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	return e.cancels.Watch(ctx, namespace, w)
}

// LastReset implements contract.Resetter.
func (e *Engine) LastReset() contract.Reset { return e.catalog.Resets.Last() }

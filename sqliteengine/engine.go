package sqliteengine

import "github.com/dulymq/duly/contract"

// Engine is an engine that stores everything in one SQLite file. It implements
// contract.Engine and the optional interfaces of an engine that owns its storage:
// contract.Maintainer, contract.Registry, contract.Placer, contract.Surveyor, contract.Watcher,
// contract.Limiter, contract.CancelWatcher, contract.Backuper, contract.Topics and contract.Firer.
// It is safe for concurrent use.
type Engine struct {
	*store
	jobAPI
	operatorAPI
	inspectorAPI
	maintainerAPI
	registryAPI
	topicAPI
	scheduleAPI
}

var (
	_ contract.Engine        = (*Engine)(nil)
	_ contract.Accepter      = (*Engine)(nil)
	_ contract.Backuper      = (*Engine)(nil)
	_ contract.CancelWatcher = (*Engine)(nil)
	_ contract.Explainer     = (*Engine)(nil)
	_ contract.Firer         = (*Engine)(nil)
	_ contract.Inspector     = (*Engine)(nil)
	_ contract.KeyLister     = (*Engine)(nil)
	_ contract.Limiter       = (*Engine)(nil)
	_ contract.Maintainer    = (*Engine)(nil)
	_ contract.Operator      = (*Engine)(nil)
	_ contract.Passer        = (*Engine)(nil)
	_ contract.Placer        = (*Engine)(nil)
	_ contract.Registry      = (*Engine)(nil)
	_ contract.Surveyor      = (*Engine)(nil)
	_ contract.Targeter      = (*Engine)(nil)
	_ contract.Topics        = (*Engine)(nil)
	_ contract.Watcher       = (*Engine)(nil)
)

// The methods of the contract, grouped by their callers.
type (
	// jobAPI has the methods of producers and workers.
	jobAPI struct{ *store }
	// operatorAPI changes jobs and queues by name.
	operatorAPI struct{ *store }
	// inspectorAPI reads jobs and queues.
	inspectorAPI struct{ *store }
	// maintainerAPI steps, checks and copies the store.
	maintainerAPI struct{ *store }
	// registryAPI has tokens, their limits, placements and targets.
	registryAPI struct{ *store }
	// topicAPI has topics and groups.
	topicAPI struct{ *store }
	// scheduleAPI has schedules.
	scheduleAPI struct{ *store }
)

// newEngine opens a store and returns its engine. The caller starts the writer.
func newEngine(cfg Config, l layout) (*Engine, error) {
	s, err := openStore(cfg, l)
	if err != nil {
		return nil, err
	}
	return &Engine{
		s, jobAPI{s}, operatorAPI{s}, inspectorAPI{s}, maintainerAPI{s}, registryAPI{s}, topicAPI{s}, scheduleAPI{s},
	}, nil
}

// Close implements duly.Engine. Operations submitted before Close still run.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.closing.Store(true)
		e.inbox.close()
		<-e.stopped
		e.cancels.Close()
		e.notifier.close()
		e.firing.Close()
		e.err = e.closeStore()
	})
	return e.err
}

package pools

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/health"
	"github.com/dulymq/duly/server/route"
)

// Engine is the engine of one pool. It may be opened later.
type Engine struct {
	// Open is the open engine. Nil: Run calls Opener.
	Open contract.Engine
	// Opener opens the engine. Run calls it until it succeeds.
	Opener func(ctx context.Context) (contract.Engine, error)
}

// pool is an engine with a name.
type pool struct {
	name   string
	opener func(ctx context.Context) (contract.Engine, error)

	mu       sync.RWMutex
	engine   contract.Engine // nil until the engine is open
	closed   bool
	observed *observedEngine // wraps the engine once it is open
}

// get returns the engine, or an error while it is not open.
func (p *pool) get() (contract.Engine, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.engine == nil {
		return nil, contract.Errorf(duly.CodeUnavailable, "pool %s has not been reached yet", p.name)
	}
	return p.engine, nil
}

// reopenInterval is the time between two attempts to open an engine.
const reopenInterval = 2 * time.Second

// keepOpening opens the engine, and retries until it succeeds or ctx ends.
func (p *pool) keepOpening(ctx context.Context, r *Pools) {
	for tracker := health.New(r.cfg.Clock, 0); ; {
		if _, err := p.get(); err == nil || p.opener == nil {
			return
		}

		engine, err := p.opener(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return
		case err == nil:
			p.setEngine(engine)
			r.cfg.Logger.Info("the engine of a pool is open", "pool", p.name)
			return
		// An operator needs each reason once, not every retry.
		case tracker.Record(p.name, err).NewReason:
			r.cfg.Logger.Error("the engine of a pool cannot be opened; retrying",
				"pool", p.name, "code", string(duly.CodeOf(err)), "error", route.Fault(err))
		}

		if clock.Sleep(ctx, r.cfg.Clock, reopenInterval) != nil {
			return
		}
	}
}

// setEngine sets the engine. After close was called, it closes the engine instead.
func (p *pool) setEngine(engine contract.Engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		engine.Close()
		return
	}
	p.engine, p.observed.Engine = engine, engine
	p.observeFire(p.observed.pools.onFire.Load())
}

// observeFire passes the observer of ticks to the engine, if that is open. The caller holds the lock.
func (p *pool) observeFire(f *contract.Firing) {
	if o, ok := p.engine.(contract.FireObserver); ok && f != nil {
		o.ObserveFire(*f)
	}
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.engine == nil {
		return nil
	}
	return p.engine.Close()
}

// maintainer returns the engine's maintainer. It returns unsupported for an engine that
// does not own its storage.
func (p *pool) maintainer() (contract.Maintainer, error) {
	engine, err := p.get()
	if err != nil {
		return nil, err
	}
	m, ok := engine.(contract.Maintainer)
	if !ok {
		return nil, contract.Errorf(duly.CodeUnsupported, "the engine of pool %s does its own maintenance, on its own server", p.name)
	}
	return m, nil
}

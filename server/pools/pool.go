package pools

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/route"
)

// Engine is one pool's engine, open or still to be opened.
type Engine struct {
	// Open is the engine. Nil: Opener opens it while Run runs.
	Open contract.Engine
	// Opener opens it, again and again until that succeeds.
	Opener func(ctx context.Context) (contract.Engine, error)
}

// pool is an engine with a name.
type pool struct {
	name   string
	opener func(ctx context.Context) (contract.Engine, error)

	mu     sync.RWMutex
	engine contract.Engine // nil until it is open
	closed bool
	heeded *heeded // around the engine, once that is open
}

// get is the engine, or why there is none.
func (p *pool) get() (contract.Engine, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.engine == nil {
		return nil, contract.Errorf(duly.CodeUnavailable, "pool %s has not been reached yet", p.name)
	}
	return p.engine, nil
}

// reopenEvery is how long to wait before an engine is tried again.
const reopenEvery = 2 * time.Second

// reach opens the engine if it is not open.
func (p *pool) reach(ctx context.Context, r *Pools) {
	for told := (said{}); ; {
		if _, err := p.get(); err == nil || p.opener == nil {
			return
		}
		engine, err := p.opener(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return
		case err == nil:
			p.take(engine)
			r.cfg.Logger.Info("the pool was reached", "pool", p.name)
			return
		case told.anew(p.name, err):
			r.cfg.Logger.Error("the pool was not reached; it is tried again", "pool", p.name, "code", string(duly.CodeOf(err)), "error", route.Fault(err))
		}
		if clock.Sleep(ctx, r.cfg.Clock, reopenEvery) != nil {
			return
		}
	}
}

func (p *pool) take(engine contract.Engine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		engine.Close()
		return
	}
	p.engine, p.heeded.Engine = engine, engine
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

// maintainer is the engine's, where it owns its storage.
func (p *pool) maintainer() (contract.Maintainer, error) {
	engine, err := p.get()
	if err != nil {
		return nil, err
	}
	m, ok := engine.(contract.Maintainer)
	if !ok {
		return nil, contract.Errorf(duly.CodeUnsupported, "the engine of pool %s keeps itself", p.name)
	}
	return m, nil
}

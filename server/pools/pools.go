package pools

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Config says which engines there are. Engines must have an open one by the
// name contract.DefaultPool, which must be a contract.Registry and a contract.Placer.
type Config struct {
	Engines map[string]Engine
	// Clock is for tests. Default the system's.
	Clock duly.Clock
	// Logger. Default slog's.
	Logger *slog.Logger
}

// Pools is several engines as one. A nil *Pools is the default pool alone, for
// a server with one engine. It is safe for concurrent use.
type Pools struct {
	contract.Registry
	cfg     Config
	placer  contract.Placer
	watcher contract.Watcher // nil: every call looks its namespace up
	byName  map[string]*pool
	all     []*pool // the default one first, then by name
	reload  chan struct{}
	heed    atomic.Pointer[func(ctx context.Context, pool string, err error)] // nil: nobody listens

	mu         sync.RWMutex
	hearing    bool
	change     uint64 // counts what was told
	loaded     uint64 // the change that placements have in them
	placements map[string]contract.Placement
	states     map[string]*moving // of the namespaces that move
	pasts      map[string]*past   // of those that have moved lately
}

// New puts engines together; [Pools.Close] closes them. It answers
// [duly.ErrInvalid] with everything that is wrong.
func New(cfg Config) (*Pools, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	r := &Pools{cfg: cfg, byName: map[string]*pool{}, states: map[string]*moving{}, pasts: map[string]*past{}, reload: make(chan struct{}, 1)}
	var bad contract.BadFields
	for name, e := range cfg.Engines {
		bad.Take(contract.ValidatePool(name))
		p := &pool{name: name, opener: e.Opener, engine: e.Open, heeded: &heeded{e.Open, r, name}}
		if name == contract.DefaultPool {
			r.all = append([]*pool{p}, r.all...)
		} else {
			r.all = append(r.all, p)
		}
		r.byName[name] = p
	}
	if d := r.byName[contract.DefaultPool]; d == nil || d.engine == nil {
		bad.Add("pools", "have no open engine by the name %s; it holds the tokens", contract.DefaultPool)
	} else {
		r.Registry, _ = d.engine.(contract.Registry)
		r.placer, _ = d.engine.(contract.Placer)
		r.watcher, _ = d.engine.(contract.Watcher)
		if r.Registry == nil || r.placer == nil {
			bad.Add("pools", "have an engine for %s that stores no tokens and placements; give a file or Redis", contract.DefaultPool)
		}
		slices.SortFunc(r.all[1:], func(a, b *pool) int { return compare(a.name, b.name) })
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// Run opens what is not open yet, listens to changes, and carries moves on, until
// ctx ends.
func (r *Pools) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, p := range r.all {
		running.Go(func() { p.reach(ctx, r) })
	}
	running.Go(func() { r.keepLoaded(ctx) })
	running.Go(func() { r.keepMoving(ctx) })
	r.watch(ctx)
}

// watchAgain is how long to wait before an engine that tells nothing any more is
// asked again.
const watchAgain = time.Second

func (r *Pools) watch(ctx context.Context) {
	for r.watcher != nil && ctx.Err() == nil {
		err := r.watcher.WatchTokens(ctx, r.told)
		r.told(false)
		if errors.Is(err, duly.ErrClosed) || clock.Sleep(ctx, r.cfg.Clock, watchAgain) != nil {
			return
		}
	}
}

// told takes the engine's notice.
func (r *Pools) told(hearing bool) {
	r.mu.Lock()
	r.hearing = hearing
	r.mu.Unlock()
	r.doubt()
}

// doubt lets whatever was read before be read again.
func (r *Pools) doubt() {
	r.mu.Lock()
	r.change++
	hearing := r.hearing
	r.mu.Unlock()
	if !hearing {
		return
	}
	select {
	case r.reload <- struct{}{}:
	default:
	}
}

// keepLoaded reads the placements after every change.
func (r *Pools) keepLoaded(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.reload:
		}
		for r.load(ctx) != nil {
			if clock.Sleep(ctx, r.cfg.Clock, watchAgain) != nil {
				return
			}
		}
	}
}

func (r *Pools) load(ctx context.Context) error {
	r.mu.RLock()
	change := r.change
	r.mu.RUnlock()
	all := map[string]contract.Placement{}
	err := r.EachPlacement(ctx, func(p *contract.Placement) { all[p.Namespace] = *p })
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.placements, r.loaded = all, change
	return nil
}

// EachPlacement hands on every placement that is stored, by namespace.
func (r *Pools) EachPlacement(ctx context.Context, do func(p *contract.Placement)) error {
	if r == nil {
		return nil
	}
	p := duly.PageParams{Limit: duly.MaxBatch}
	for {
		page, err := r.placer.Placements(ctx, p)
		if err != nil {
			return err
		}
		for i := range page.Placements {
			do(&page.Placements[i])
		}
		if p.Cursor = page.Next; p.Cursor == "" {
			return nil
		}
	}
}

// Where tells where a namespace is. One that was never placed is in the default
// pool, by version 0.
func (r *Pools) Where(ctx context.Context, namespace string) (contract.Placement, error) {
	namespace = contract.NamespaceOr(namespace)
	unplaced := contract.Placement{Namespace: namespace, Pool: contract.DefaultPool}
	if r == nil {
		return unplaced, nil
	}
	if p, known, ok := r.remembered(namespace); ok {
		if known {
			return p, nil
		}
		return unplaced, nil
	}
	p, err := r.placer.FindPlacement(ctx, namespace)
	r.heard(ctx, contract.DefaultPool, err)
	if errors.Is(err, duly.ErrNotFound) {
		return unplaced, nil
	}
	return p, err
}

// remembered is what is known without asking; ok is false where nothing is.
func (r *Pools) remembered(namespace string) (p contract.Placement, known, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.hearing || r.loaded != r.change {
		return p, false, false
	}
	p, known = r.placements[namespace]
	return p, known, true
}

// Label is the pool of a namespace as far as it is known without asking, for
// metrics.
func (r *Pools) Label(namespace string) string {
	if r == nil {
		return contract.DefaultPool
	}
	if p, known, _ := r.remembered(namespace); known {
		return p.Pool
	}
	return contract.DefaultPool
}

// Names lists the pools, the default one first.
func (r *Pools) Names() []string {
	if r == nil {
		return []string{contract.DefaultPool}
	}
	names := make([]string, len(r.all))
	for i, p := range r.all {
		names[i] = p.name
	}
	return names
}

// Has tells whether there is a pool of that name.
func (r *Pools) Has(name string) bool { return slices.Contains(r.Names(), name) }

// ErrNoPool is the error for the name of a pool that a server does not have.
func (r *Pools) ErrNoPool(name string) error {
	return contract.Invalid("pool", "is %s, must be one of %v", contract.Quoted(name), r.Names())
}

// at is a pool by its name, for what a placement says.
func (r *Pools) at(namespace, name string) (contract.Engine, error) {
	p := r.byName[name]
	if p == nil {
		err := contract.Errorf(duly.CodeUnavailable, "namespace %s is in pool %s, which this server does not have; start it with --pool %s=URL", namespace, name, name)
		r.heard(context.Background(), name, err)
		return nil, err
	}
	if _, err := p.get(); err != nil {
		return nil, err
	}
	return p.heeded, nil
}

// engine is where the calls for a namespace go.
func (r *Pools) engine(ctx context.Context, namespace string) (contract.Engine, error) {
	where, err := r.Where(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if where.From != "" {
		return r.moved(&where)
	}
	return r.at(where.Namespace, where.Pool)
}

// Close implements duly.Engine: it closes every engine.
func (r *Pools) Close() error {
	var errs []error
	for _, p := range r.all {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

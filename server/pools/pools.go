package pools

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// Config configures Pools. Engines must have an open engine with the name
// contract.DefaultPool, which must be a contract.Registry and a contract.Placer.
type Config struct {
	Engines map[string]Engine
	// Clock is for tests. Default: the system's clock.
	Clock duly.Clock
	// Logger. Default: slog's default logger.
	Logger *slog.Logger
}

// Pools serves several engines as one. A nil *Pools has only the default pool, for a
// server with one engine. It is safe for concurrent use.
type Pools struct {
	contract.Registry
	cfg    Config
	placer contract.Placer
	// Reports changes; nil means that every call reads the placement of its namespace.
	watcher contract.Watcher
	byName  map[string]*pool
	all     []*pool // the default pool first, then the others by name
	reload  chan struct{}
	// Function that OnResult has set.
	onResult atomic.Pointer[func(ctx context.Context, pool string, err error)]
	// Function that ObserveFire has set.
	onFire atomic.Pointer[contract.Firing]

	mu            sync.RWMutex
	watching      bool   // whether the default engine reports changes
	version       uint64 // increased by every change of a placement
	loadedVersion uint64 // version of the placements in the cache
	placements    map[string]contract.Placement
	phases        map[string]*phaseState // states of the moves, by namespace
	ended         map[string]*endedMove  // recently ended moves, by namespace
}

// New combines engines. [Pools.Close] closes them. New returns [duly.ErrInvalid] with
// every fault of the configuration.
func New(cfg Config) (*Pools, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	r := &Pools{
		cfg: cfg, byName: map[string]*pool{}, phases: map[string]*phaseState{}, ended: map[string]*endedMove{},
		reload: make(chan struct{}, 1),
	}

	var bad contract.BadFields
	for name, e := range cfg.Engines {
		bad.Take(contract.ValidatePool(name))
		// An engine may be unavailable now although the configuration is correct.
		p := &pool{name: name, opener: e.Opener, engine: e.Open, observed: &observedEngine{e.Open, r, name}}
		if name == contract.DefaultPool {
			r.all = append([]*pool{p}, r.all...)
		} else {
			r.all = append(r.all, p)
		}
		r.byName[name] = p
	}

	if d := r.byName[contract.DefaultPool]; d == nil || d.engine == nil {
		bad.Add("pools", "need an open engine with the name %s, which stores the tokens", contract.DefaultPool)
	} else {
		r.Registry, _ = d.engine.(contract.Registry)
		r.placer, _ = d.engine.(contract.Placer)
		r.watcher, _ = d.engine.(contract.Watcher)
		if r.Registry == nil || r.placer == nil {
			bad.Add("pools", "need an engine for %s that stores tokens and placements; use SQLite or Redis",
				contract.DefaultPool)
		}
		slices.SortFunc(r.all[1:], func(a, b *pool) int { return strings.Compare(a.name, b.name) })
	}
	if err := bad.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// Run opens engines that are not open yet, watches changes of placements, and advances
// moves, until ctx ends.
func (r *Pools) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for _, p := range r.all {
		running.Go(func() { p.keepOpening(ctx, r) })
	}
	running.Go(func() { r.runLoader(ctx) })
	running.Go(func() { r.runMoves(ctx) })
	r.watch(ctx)
}

// watchRetry is the time until a failed watch is started again.
const watchRetry = time.Second

func (r *Pools) watch(ctx context.Context) {
	for r.watcher != nil && ctx.Err() == nil {
		err := r.watcher.WatchTokens(ctx, r.notify)
		r.notify(false)
		if errors.Is(err, duly.ErrClosed) || clock.Sleep(ctx, r.cfg.Clock, watchRetry) != nil {
			return
		}
	}
}

// notify handles a notice of the default engine. watching reports whether the engine will
// send further notices.
func (r *Pools) notify(watching bool) {
	r.mu.Lock()
	r.watching = watching
	r.mu.Unlock()
	r.invalidate()
}

// invalidate makes Pools read the placements again.
func (r *Pools) invalidate() {
	r.mu.Lock()
	r.version++
	watching := r.watching
	r.mu.Unlock()
	if !watching {
		// Without notices of changes, nothing is cached.
		return
	}

	select {
	case r.reload <- struct{}{}:
	default:
	}
}

// runLoader reads the placements after every change.
func (r *Pools) runLoader(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.reload:
		}
		for r.load(ctx) != nil {
			if clock.Sleep(ctx, r.cfg.Clock, watchRetry) != nil {
				return
			}
		}
	}
}

func (r *Pools) load(ctx context.Context) error {
	r.mu.RLock()
	// A change during the read increases the version again, and causes another load.
	version := r.version
	r.mu.RUnlock()
	all := map[string]contract.Placement{}
	err := r.EachPlacement(ctx, func(p *contract.Placement) { all[p.Namespace] = *p })
	if err != nil {
		return err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.placements, r.loadedVersion = all, version
	return nil
}

// EachPlacement calls do for every stored placement, by namespace.
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

// Where returns the placement of a namespace. A namespace without a placement is in the default
// pool, with the version 0.
func (r *Pools) Where(ctx context.Context, namespace string) (contract.Placement, error) {
	namespace = contract.NamespaceOr(namespace)
	unplaced := contract.Placement{Namespace: namespace, Pool: contract.DefaultPool}
	if r == nil {
		return unplaced, nil
	}
	if p, placed, ok := r.cached(namespace); ok {
		if placed {
			return p, nil
		}
		return unplaced, nil
	}

	// The read also shows whether the default pool is reachable.
	p, err := r.placer.FindPlacement(ctx, namespace)
	r.report(ctx, contract.DefaultPool, err)
	if errors.Is(err, duly.ErrNotFound) {
		return unplaced, nil
	}
	return p, err
}

// cached returns the cached placement of a namespace, and reports whether it has one. ok
// is false if the cache is out of date.
func (r *Pools) cached(namespace string) (p contract.Placement, placed, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.watching || r.loadedVersion != r.version {
		return p, false, false
	}
	p, placed = r.placements[namespace]
	return p, placed, true
}

// Label returns the pool of a namespace for metrics. It does not ask the engine: if the
// cache is out of date, Label returns the default pool.
func (r *Pools) Label(namespace string) string {
	if r == nil {
		return contract.DefaultPool
	}
	if p, placed, _ := r.cached(namespace); placed {
		return p.Pool
	}
	return contract.DefaultPool
}

// Names returns the names of the pools. The default pool is the first.
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

// Has reports whether there is a pool with that name.
func (r *Pools) Has(name string) bool { return slices.Contains(r.Names(), name) }

// ErrNoPool returns the error for an unknown pool.
func (r *Pools) ErrNoPool(name string) error {
	return contract.Invalid("pool", "is %s, must be one of %v", contract.Quoted(name), r.Names())
}

// poolEngine returns the engine of the pool of a namespace.
func (r *Pools) poolEngine(namespace, name string) (contract.Engine, error) {
	p := r.byName[name]
	if p == nil {
		err := contract.Errorf(duly.CodeUnavailable,
			"namespace %s is in pool %s, which this server does not have; start it with --pool %s=URL", namespace, name, name)
		r.report(context.Background(), name, err)
		return nil, err
	}
	if _, err := p.get(); err != nil {
		return nil, err
	}
	return p.observed, nil
}

// engineOf returns the engine for calls of a namespace.
func (r *Pools) engineOf(ctx context.Context, namespace string) (contract.Engine, error) {
	where, err := r.Where(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if where.From != "" {
		return r.migrating(&where)
	}
	return r.poolEngine(where.Namespace, where.Pool)
}

// Close implements duly.Engine. It closes every engine.
func (r *Pools) Close() error {
	var errs []error
	for _, p := range r.all {
		errs = append(errs, p.close())
	}
	return errors.Join(errs...)
}

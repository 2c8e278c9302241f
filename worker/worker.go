package worker

import (
	"context"
	"slices"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Worker reserves jobs from an engine and calls handlers for them. Add handlers with Handle
// and middleware with Use, then call Run.
type Worker struct {
	engine duly.Engine
	cfg    Config
	random func() float64
	killed chan struct{}
	kill   func()

	mu            sync.Mutex
	registrations []*registration
	middleware    []Middleware
	ran           bool
}

// New returns a Worker. The caller closes the engine after Run. Run returns the faults of
// the Config.
func New(engine duly.Engine, cfg Config) *Worker {
	killed := make(chan struct{})
	return &Worker{
		engine: engine, cfg: cfg.withDefaults(engine), random: random,
		killed: killed, kill: sync.OnceFunc(func() { close(killed) }),
	}
}

// Handle sets the handler of a queue, or of a group TOPIC@GROUP, see [From]. Queues with a backlog
// share the slots equally, or by [Weight]. With Config.StrictOrder, an earlier queue goes before a
// later one. Run returns the faults of all handlers. Handle panics after Run.
func (w *Worker) Handle(queue string, h HandlerFunc, opts ...HandlerOption) {
	w.add("Handle", &registration{queue: queue, handler: h}, opts)
}

// HandleEvery sets the handler of all jobs. It is for an engine that chooses the queues itself: its
// Reserve and Wait get no queue names, and its Settle and Extend find the namespace of a delivery
// by the receipt. A worker with HandleEvery has no other handler.
func (w *Worker) HandleEvery(h HandlerFunc) {
	w.add("HandleEvery", &registration{every: true, handler: h}, nil)
}

func (w *Worker) add(method string, r *registration, opts []HandlerOption) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mustBeNew(method)
	for _, opt := range opts {
		opt(r)
	}
	w.registrations = append(w.registrations, r)
}

// Use wraps every handler with middleware, even handlers that are added later. The first middleware
// is the outermost one. Use panics after Run.
func (w *Worker) Use(m ...Middleware) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mustBeNew("Use")
	w.middleware = append(w.middleware, m...)
}

func (w *Worker) mustBeNew(method string) {
	if w.ran {
		panic("worker: " + method + " after Run")
	}
}

// Kill ends Run within a second. It cancels every handler with [ErrStopping], and releases the jobs
// of handlers that do not return soon. A program calls Kill on a second signal. Kill may be called
// at any time, and repeatedly.
func (w *Worker) Kill() { w.kill() }

// Run handles jobs until ctx ends, and then drains: it reserves no more jobs, and running handlers
// may continue for Config.Drain. Then it cancels them with [ErrStopping] and releases their jobs,
// which uses no try. Run returns nil, at most a second after that limit.
//
// A lost store does not end Run. After an error that a retry cannot fix, Run drains and returns the
// error. If the worker is misconfigured, Run returns a [duly.ErrInvalid] that lists all faults.
// Errors of the engine are [duly.ErrUnauthorized], [duly.ErrForbidden], [duly.ErrUnsupported],
// [duly.ErrClosed], and [duly.ErrConflict] if a queue's name belongs to a topic or a group has a
// bridge. A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	ran := w.ran
	w.ran = true
	w.mu.Unlock()
	if ran {
		return contract.Invalid("worker", "has run already; a Worker runs once, so create another one")
	}

	// The number of slots depends on the batches, and is validated together with their sizes.
	w.fillSlots()
	if err := w.validate(); err != nil {
		return err
	}
	return w.newRun(ctx, w.routes()).untilStopped(ctx)
}

// fillSlots sets the number of slots of a worker with batches, unless the user has set it: each
// queue needs room for a batch that is being handled and for another one that is being collected.
func (w *Worker) fillSlots() {
	if !w.cfg.defaultConcurrency {
		return
	}
	for _, r := range w.registrations {
		if r.batch != nil {
			w.cfg.Concurrency = max(w.cfg.Concurrency, min(2*r.batch.size, MaxConcurrency))
		}
	}
}

// validate returns an error with every fault of the worker.
func (w *Worker) validate() error {
	var f contract.BadFields
	w.cfg.validate(&f)
	if w.engine == nil {
		f.Add("engine", "is nil")
	}
	if slices.ContainsFunc(w.middleware, func(m Middleware) bool { return m == nil }) {
		f.Add("middleware", "is nil")
	}

	groups := byQueue(w.registrations)
	if n := len(groups); n < 1 || n > duly.MaxReserveQueues {
		f.Add("queues", "are %d, must be between 1 and %d; call Handle, or run several workers",
			n, duly.MaxReserveQueues)
	}
	for _, registrations := range groups {
		for _, r := range registrations {
			r.validate(&f, w.cfg.Concurrency)
			w.validateCombination(&f, r)
		}
		validateQueue(&f, registrations)
	}
	return f.Err()
}

// validateCombination adds the faults of a registration together with the settings and the
// engine of the worker.
func (w *Worker) validateCombination(f *contract.BadFields, r *registration) {
	if r.batch != nil && w.cfg.Limiter != nil {
		f.Add("limiter", "is set, but queue %s is handled in batches, which wait for free slots; remove one of them",
			r.queue)
	}
	if r.every && len(w.registrations) > 1 {
		f.Add("queues", "are %d, but HandleEvery takes all jobs; remove the other handlers", len(w.registrations))
	}
	if _, topics := w.engine.(contract.Topics); r.fromSet && !topics && w.engine != nil {
		f.Add("engine", "has no topics, but a group is to be created for %s", r.queue)
	}
	if r.weightSet && w.cfg.StrictOrder {
		f.Add("weight", "of queue %s is set together with StrictOrder; remove one of them", r.queue)
	}
}

// routes returns the route of every queue, in the order in which the queues were added.
func (w *Worker) routes() (routes []*route) {
	for _, registrations := range byQueue(w.registrations) {
		routes = append(routes, newRoute(registrations, w.middleware))
	}
	return routes
}

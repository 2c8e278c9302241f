package worker

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// registration is one call to Handle, HandleKind, HandleBatch or HandleEvery.
type registration struct {
	queue   string
	every   bool // true for HandleEvery: the handler gets jobs of all queues, and queue is empty
	handler HandlerFunc
	batch   *batchConfig // set by HandleBatch, instead of handler

	body    reflect.Type // type of the body, set by HandleKind
	kind    string
	kindErr error

	middleware []Middleware
	timeout    time.Duration
	timeoutSet bool
	weight     int
	weightSet  bool
	from       duly.From
	fromSet    bool
}

// HandlerOption changes how the jobs of a queue, or of one kind in it, are handled.
type HandlerOption func(*registration)

// Timeout limits the time for which the handler may run, at least 1 ms. When it has passed, the
// handler's context ends with [ErrTimeout], the worker stops extending the lease, and an error that
// the handler returns is a nack.
func Timeout(d time.Duration) HandlerOption {
	return func(r *registration) { r.timeout, r.timeoutSet = d, true }
}

// With adds middleware only for this handler, inside the middleware of Use.
func With(m ...Middleware) HandlerOption {
	return func(r *registration) { r.middleware = append(r.middleware, m...) }
}

// Weight sets the queue's share of the slots, 1…1 000 000. Queues with a backlog share the
// slots in proportion to their weights. Default 1. It cannot be used with
// Config.StrictOrder.
func Weight(n int) HandlerOption {
	return func(r *registration) { r.weight, r.weightSet = n, true }
}

const maxWeight = 1_000_000

// name names the registration in an error.
func (r *registration) name() string {
	if r.kind != "" {
		return "kind " + contract.Quoted(r.kind) + " of queue " + r.queue
	}
	return "queue " + r.queue
}

// validate adds the faults of a registration of a worker with so many slots.
func (r *registration) validate(f *contract.BadFields, slots int) {
	if !r.every {
		f.Take(contract.ValidateQueue(duly.QueueRef{Name: r.queue}))
	}
	switch {
	case r.batch != nil:
		r.batch.validate(f, r.queue, slots)
		if len(r.middleware) > 0 {
			f.Add("middleware", "of %s is set, but a batch handler takes none; wrap the function itself", r.name())
		}
	case r.handler == nil:
		f.Add("handler", "of %s is nil", r.name())
	}
	if slices.ContainsFunc(r.middleware, func(m Middleware) bool { return m == nil }) {
		f.Add("middleware", "of %s is nil", r.name())
	}

	r.validateFrom(f)
	if r.timeoutSet && r.timeout < time.Millisecond {
		f.Add("timeout", "of %s is %s, must be at least 1ms", r.name(), duly.FormatDuration(r.timeout))
	}
	if r.weightSet && (r.weight < 1 || r.weight > maxWeight) {
		f.Add("weight", "of %s is %d, must be between 1 and %d", r.name(), r.weight, maxWeight)
	}
}

// validateQueue adds the faults that the registrations of one queue have in combination.
func validateQueue(f *contract.BadFields, registrations []*registration) {
	queue := registrations[0].queue
	var whole, batches, kinds int
	var weights, froms int
	for _, r := range registrations {
		switch {
		case r.batch != nil:
			batches++
		case r.body != nil:
			kinds++
		default:
			whole++
		}
		if r.weightSet {
			weights++
		}
		if r.fromSet {
			froms++
		}
	}

	if whole+batches > 1 && queue != "" {
		f.Add("queue", "%s is handled twice", queue)
	}
	if batches > 0 && kinds > 0 {
		f.Add("queue", "%s is handled in batches and by kind; use one of HandleBatch and HandleKind", queue)
	}
	if weights > 1 {
		f.Add("weight", "of queue %s is set %d times; set it in one call", queue, weights)
	}
	if froms > 1 {
		f.Add("from", "of queue %s is set %d times; set it in one call", queue, froms)
	}
	validateKinds(f, registrations)
}

// route says how the jobs of one queue are handled.
type route struct {
	queue string
	every bool
	// jobHandler handles every job whose kind is not in kinds. If the queue is handled in batches,
	// only its timeout is used.
	jobHandler
	kinds  map[string]*jobHandler // nil if the queue has no handlers of kinds
	batch  *batchConfig           // nil if the queue is not handled in batches
	weight int
	from   duly.From
	// fromSet reports whether the worker creates the group.
	fromSet bool
}

// jobHandler is a handler inside its middleware.
type jobHandler struct {
	call    HandlerFunc
	timeout time.Duration // 0 means no timeout
}

// handlerOf returns the handler of a job.
func (r *route) handlerOf(d *duly.Delivery) *jobHandler {
	if r.kinds != nil {
		if h := r.kinds[d.Headers[duly.KindHeader]]; h != nil {
			return h
		}
	}
	return &r.jobHandler
}

// byQueue groups registrations by queue, in the order in which the queues were added.
func byQueue(registrations []*registration) (groups [][]*registration) {
	index := map[string]int{}
	for _, r := range registrations {
		i, known := index[r.queue]
		if !known {
			i = len(groups)
			index[r.queue] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// newRoute returns the route of the valid registrations of one queue. all is the
// middleware of the whole worker.
func newRoute(registrations []*registration, all []Middleware) *route {
	route := &route{queue: registrations[0].queue, weight: 1}
	for _, r := range registrations {
		if r.weightSet {
			route.weight = r.weight
		}
		if r.fromSet {
			route.from, route.fromSet = r.from, true
		}

		switch {
		case r.batch != nil:
			route.batch, route.timeout = r.batch, r.timeout
		case r.body != nil:
			if route.kinds == nil {
				route.kinds = map[string]*jobHandler{}
			}
			route.kinds[r.kind] = newJobHandler(r, all)
		default:
			route.every, route.jobHandler = r.every, *newJobHandler(r, all)
		}
	}
	// Jobs of other kinds need a handler as well, which makes them failed tries.
	if route.call == nil && route.kinds != nil {
		route.jobHandler = *newJobHandler(&registration{handler: unknownKind(route.kinds)}, all)
	}
	return route
}

// newJobHandler wraps the handler of a registration. The first middleware is the outermost.
func newJobHandler(r *registration, all []Middleware) *jobHandler {
	h := &jobHandler{call: r.handler, timeout: r.timeout}
	// Wraps from the innermost middleware to the outermost one.
	for _, m := range slices.Backward(slices.Concat(all, r.middleware)) {
		h.call = m(h.call)
	}
	return h
}

// Handler returns the handler of a queue with its kinds and its middleware, as Run calls
// it, for tests such as dulytest's Drain. The handler applies no [Timeout]. Handler panics
// where Run would return an error, and for a queue that is not handled, or that is handled
// in batches.
func (w *Worker) Handler(queue string) HandlerFunc {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.validate(); err != nil {
		panic("worker: " + err.Error())
	}
	for _, r := range w.routes() {
		if r.queue == queue && r.batch == nil {
			return func(ctx context.Context, d *Delivery) error {
				return r.handlerOf(&d.Delivery).call(ctx, d)
			}
		}
	}
	panic("worker: queue " + contract.Quoted(queue) +
		" has no handler for single jobs; add one with Handle or HandleKind")
}

package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// BatchFunc handles several deliveries of one queue at once. It returns an error for
// each of them, in their order, which settles it as the error of a [HandlerFunc]
// does; nil is an ack of all. Each delivery has a context of its own, see
// [Delivery.Context]. It may be called by several goroutines at once.
//
// A panic, or a wrong number of errors, is a failed try of each delivery.
type BatchFunc func(deliveries []*Delivery) []error

// suspectAt is the number of failures or stalls after which a delivery is handled alone:
// one bad delivery can fail its whole batch, or end the process.
const suspectAt = 2

// HandleBatch sets the batch handler of a queue or a group. A batch is handled when it
// has n deliveries, 1 to [duly.MaxBatch], or when its first delivery has waited for wait.
// With 0, the deliveries of one Reserve are handled at once. A delivery that has failed
// or stalled twice is a batch of its own.
//
// Each delivery takes a slot. If Config.Concurrency is not set, it is twice the
// longest batch, and at least [DefaultConcurrency]. The worker keeps the lease of a
// delivery that waits for its batch. When it stops, it releases the delivery, which uses
// no try.
//
// Middleware wraps handlers of single deliveries, so it is not called here. With is
// an error.
func (w *Worker) HandleBatch(queue string, n int, wait time.Duration, h BatchFunc, opts ...HandlerOption) {
	w.add("HandleBatch", &registration{queue: queue, batch: &batching{size: n, wait: wait, handler: h}}, opts)
}

// batching is the batch handler of a queue with its settings.
type batching struct {
	size    int
	wait    time.Duration
	handler BatchFunc
}

func (b *batching) validate(f *contract.BadFields, queue string, slots int) {
	if b.handler == nil {
		f.Add("handler", "of queue %s is nil", queue)
	}
	switch {
	case b.size < 1 || b.size > duly.MaxBatch:
		f.Add("batch", "of queue %s is %d, must be between 1 and %d", queue, b.size, duly.MaxBatch)
	case b.size > slots:
		f.Add("concurrency", "is %d, must be at least %d, the batch of queue %s", slots, b.size, queue)
	}
	if b.wait < 0 || b.wait > duly.MaxWait {
		f.Add("wait", "of queue %s is %s, must be between 0s and %s", queue, duly.FormatDuration(b.wait),
			duly.FormatDuration(duly.MaxWait))
	}
}

// gatherer collects the deliveries of one queue into batches. All of them are in the
// session's table, so their leases are kept.
type gatherer struct {
	session *session
	batch   *batching

	mu      sync.Mutex
	waiting []*flight
	// timer runs while a delivery waits. due identifies the current timer: a stopped one may
	// still fire.
	timer   duly.Timer
	due     *int
	stopped bool
}

func newGatherer(s *session, b *batching) *gatherer { return &gatherer{session: s, batch: b} }

// add takes the deliveries of one Reserve, and begins every complete batch.
func (g *gatherer) add(flights []*flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		g.release(flights)
		return
	}

	for _, f := range flights {
		if d := &f.delivery; d.Failures >= suspectAt || d.Stalls >= suspectAt {
			go g.session.handleBatch(g.batch, []*flight{f})
			continue
		}
		g.waiting = append(g.waiting, f)
		if len(g.waiting) == g.batch.size {
			g.begin()
		}
	}

	switch {
	case len(g.waiting) == 0:
	case g.batch.wait == 0:
		g.begin()
	case g.timer == nil:
		due := new(int)
		g.due = due
		g.timer = g.session.clock.AfterFunc(g.batch.wait, func() { g.over(due) })
	}
}

// over begins a batch whose waiting time has passed.
func (g *gatherer) over(due *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.due == due && len(g.waiting) > 0 {
		g.begin()
	}
}

// begin starts the handler for the waiting deliveries. g.mu is held.
func (g *gatherer) begin() {
	go g.session.handleBatch(g.batch, g.take())
}

// take returns the waiting deliveries, and stops the timer. g.mu is held.
func (g *gatherer) take() []*flight {
	flights := g.waiting
	g.waiting = nil
	if g.timer != nil {
		g.timer.Stop()
		g.timer, g.due = nil, nil
	}
	return flights
}

// stop releases the waiting deliveries, and later ones.
func (g *gatherer) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.release(g.take())
}

func (g *gatherer) release(flights []*flight) {
	for _, f := range flights {
		f.cancel(nil)
		g.session.table.finish(f, duly.SettleRequest{As: duly.Release})
	}
}

// handleBatch runs a batch handler on a goroutine of its own. It leaves out deliveries
// whose lease was lost while they waited: another worker may have them by now.
func (s *session) handleBatch(b *batching, flights []*flight) {
	live := make([]*flight, 0, len(flights))
	for _, f := range flights {
		if ended := f.ended(); ended != nil {
			f.cancel(nil)
			s.table.finish(f, decide(ended, ended))
			continue
		}
		live = append(live, f)
	}
	if len(live) == 0 {
		return
	}

	stops := make([]func(), len(live))
	started := make([]time.Duration, len(live))
	deliveries := make([]*Delivery, len(live))
	for i, f := range live {
		stops[i], started[i], deliveries[i] = s.enter(f), s.started(f), &f.delivery
	}
	s.batchEnds(live, stops, started, b.handler, deliveries)
}

// batchEnds calls the handler and settles each delivery by its error.
func (s *session) batchEnds(live []*flight, stops []func(), started []time.Duration, handler BatchFunc, deliveries []*Delivery) {
	outcomes := make([]duly.SettleRequest, len(live))
	results := make([]Finished, len(live))
	var failed error = errGoexit // of the batch as a whole
	defer func() {
		if failed != nil {
			if value := recover(); value != nil {
				failed = s.panicked(live[0], value)
			}
			for i := range live {
				results[i] = Finished{Err: failed}
				outcomes[i] = duly.SettleRequest{As: duly.Nack, Error: contract.CutError(failed.Error())}
			}
		}
		for i, f := range live {
			stops[i]()
			f.cancel(nil)
			results[i].As = outcomes[i].As
			s.finished(f, started[i], results[i])
			s.table.finish(f, outcomes[i])
		}
	}()

	answers := handler(deliveries)
	if answers != nil && len(answers) != len(live) {
		failed = fmt.Errorf("the batch handler returned %d errors for %d deliveries", len(answers), len(live))
		return
	}
	for i, f := range live { // inside the recover, because Error is the user's code too
		if answers != nil {
			results[i] = Finished{Err: answers[i], Overload: isOverload(answers[i])}
		}
		outcomes[i] = decide(results[i].Err, f.ended())
		if outcomes[i].As == duly.Ack {
			outcomes[i].Result = f.delivery.result
		}
	}
	failed = nil
}

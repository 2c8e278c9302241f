package worker

import (
	"fmt"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// BatchFunc handles several deliveries of one queue together. It returns an error for each of them,
// in their order, which settles it like the error of a [HandlerFunc]. A nil slice acks all
// deliveries. Each delivery has a separate context, see [Delivery.Context]. A BatchFunc must be safe
// for concurrent use.
//
// A panic, or a wrong number of errors, is a failed try of each delivery.
type BatchFunc func(deliveries []*Delivery) []error

// suspectAt is the number of failures or stalls after which a delivery is handled alone, because
// one bad delivery can fail its whole batch, or end the process.
const suspectAt = 2

// HandleBatch sets the batch handler of a queue or a group. A batch is handled when it has n
// deliveries, 1 to [duly.MaxBatch], or when its first delivery has waited for wait. If wait is 0,
// the deliveries of one Reserve are handled at once. A delivery that has failed or stalled twice is
// handled in a separate batch.
//
// Each delivery takes a slot. If Config.Concurrency is not set, the worker has twice as many slots
// as the longest batch has deliveries, and at least [DefaultConcurrency]. The worker keeps the
// lease of a delivery that waits for its batch. When it stops, it releases the delivery, which uses
// no try.
//
// Middleware wraps handlers of single deliveries, so it is not called for batches. The option With
// is an error.
func (w *Worker) HandleBatch(queue string, n int, wait time.Duration, h BatchFunc, opts ...HandlerOption) {
	w.add("HandleBatch", &registration{queue: queue, batch: &batchConfig{size: n, wait: wait, handler: h}}, opts)
}

// batchConfig is the batch handler of a queue with its settings.
type batchConfig struct {
	size    int
	wait    time.Duration
	handler BatchFunc
}

// validate adds the faults of the batches of a queue.
func (c *batchConfig) validate(f *contract.BadFields, queue string, slots int) {
	if c.handler == nil {
		f.Add("handler", "of queue %s is nil", queue)
	}
	switch {
	case c.size < 1 || c.size > duly.MaxBatch:
		f.Add("batch", "of queue %s is %d, must be between 1 and %d", queue, c.size, duly.MaxBatch)
	case c.size > slots:
		f.Add("concurrency", "is %d, must be at least %d, the batch of queue %s", slots, c.size, queue)
	}
	if c.wait < 0 || c.wait > duly.MaxWait {
		f.Add("wait", "of queue %s is %s, must be between 0s and %s", queue, duly.FormatDuration(c.wait),
			duly.FormatDuration(duly.MaxWait))
	}
}

// batcher collects the jobs of one queue into batches. The tracker has all these jobs, so their
// leases are renewed while they wait.
type batcher struct {
	run *run
	cfg *batchConfig

	mu      sync.Mutex
	waiting []*activeJob
	// timer runs while a job waits. current identifies the timer, because a stopped timer may still
	// fire.
	timer   duly.Timer
	current *int
	stopped bool
}

func newBatcher(r *run, cfg *batchConfig) *batcher { return &batcher{run: r, cfg: cfg} }

// add adds the jobs of one Reserve, and starts every complete batch.
func (b *batcher) add(jobs []*activeJob) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		b.release(jobs)
		return
	}

	for _, j := range jobs {
		if d := &j.delivery; d.Failures >= suspectAt || d.Stalls >= suspectAt {
			// A job that is handled alone cannot fail other jobs.
			go b.run.handleBatch(b.cfg, []*activeJob{j})
			continue
		}
		b.waiting = append(b.waiting, j)
		if len(b.waiting) == b.cfg.size {
			b.startLocked()
		}
	}

	switch {
	case len(b.waiting) == 0:
	case b.cfg.wait == 0:
		b.startLocked()
	case b.timer == nil:
		// The first job of a batch starts its waiting time.
		current := new(int)
		b.current = current
		b.timer = b.run.clock.AfterFunc(b.cfg.wait, func() { b.waited(current) })
	}
}

// waited starts the batch if its waiting time has passed.
func (b *batcher) waited(timer *int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A full batch may have started just before the timer fired.
	if b.current == timer && len(b.waiting) > 0 {
		b.startLocked()
	}
}

// startLocked starts the handler for the waiting jobs.
func (b *batcher) startLocked() {
	go b.run.handleBatch(b.cfg, b.takeLocked())
}

// takeLocked returns the waiting jobs, and stops the timer.
func (b *batcher) takeLocked() []*activeJob {
	jobs := b.waiting
	b.waiting = nil
	if b.timer != nil {
		b.timer.Stop()
		b.timer, b.current = nil, nil
	}
	return jobs
}

// stop releases the waiting jobs, and jobs that are added later.
func (b *batcher) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.release(b.takeLocked())
}

func (b *batcher) release(jobs []*activeJob) {
	for _, j := range jobs {
		j.cancel(nil)
		b.run.tracker.finish(j, duly.SettleRequest{As: duly.Release})
	}
}

// runningBatch is a batch whose handler runs.
type runningBatch struct {
	jobs       []*activeJob
	stopTimers []func()
	started    []time.Duration
	results    []Finished
	outcomes   []duly.SettleRequest
}

// handleBatch runs a batch handler on a separate goroutine. It leaves out jobs whose leases were
// lost while they waited, because another worker may have these jobs.
func (r *run) handleBatch(cfg *batchConfig, jobs []*activeJob) {
	var live []*activeJob
	for _, j := range jobs {
		if ended := j.cause(); ended != nil {
			j.cancel(nil)
			r.tracker.finish(j, decide(ended, ended))
			continue
		}
		live = append(live, j)
	}
	if len(live) == 0 {
		return
	}

	b := &runningBatch{
		jobs: live, stopTimers: make([]func(), len(live)), started: make([]time.Duration, len(live)),
		results: make([]Finished, len(live)), outcomes: make([]duly.SettleRequest, len(live)),
	}
	for i, j := range live {
		b.stopTimers[i], b.started[i] = r.startTimeout(j), r.started(j)
	}
	r.callBatch(b, cfg.handler)
}

// callBatch calls the handler and settles each job by its error.
func (r *run) callBatch(b *runningBatch, handler BatchFunc) {
	var failed error = errGoexit // error of the batch as a whole
	defer func() {
		if failed != nil {
			// After runtime.Goexit or a wrong number of errors, recover returns nil.
			if value := recover(); value != nil {
				failed = r.panicked(b.jobs[0], value)
			}
			b.failAll(failed)
		}

		for i, j := range b.jobs {
			b.stopTimers[i]()
			j.cancel(nil)
			b.results[i].As = b.outcomes[i].As
			r.finished(j, b.started[i], b.results[i])
			r.tracker.finish(j, b.outcomes[i])
		}
	}()

	deliveries := make([]*Delivery, len(b.jobs))
	for i, j := range b.jobs {
		deliveries[i] = &j.delivery
	}
	// Inside the recover, because the methods of the errors are the user's code too.
	failed = b.setResults(handler(deliveries))
}

// failAll makes an error the failed try of every job.
func (b *runningBatch) failAll(err error) {
	for i := range b.jobs {
		b.results[i] = Finished{Err: err}
		b.outcomes[i] = duly.SettleRequest{As: duly.Nack, Error: contract.CutError(err.Error())}
	}
}

// setResults sets the outcome of every job by its error. It returns an error if there are too many
// or too few errors.
func (b *runningBatch) setResults(errs []error) error {
	if errs != nil && len(errs) != len(b.jobs) {
		return fmt.Errorf("the batch handler returned %d errors for %d deliveries, want one for each or a nil slice", len(errs), len(b.jobs))
	}
	for i, j := range b.jobs {
		if errs != nil {
			b.results[i] = Finished{Err: errs[i], Overload: isOverload(errs[i])}
		}
		b.outcomes[i] = decide(b.results[i].Err, j.cause())
		if b.outcomes[i].As == duly.Ack {
			b.outcomes[i].Result = j.delivery.result
		}
	}
	return nil
}

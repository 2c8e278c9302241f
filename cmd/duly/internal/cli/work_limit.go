package cli

import (
	"context"
	"errors"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/worker"
)

// limitedEngine wraps the engine of a worker that stops after a number of jobs, or when
// no job is due. The worker reserves and waits as usual. limitedEngine calls stop when
// there are no more jobs to reserve.
type limitedEngine struct {
	contract.Engine
	max     int // jobs; 0: no bound
	empty   bool
	creates bool // whether the worker creates missing groups
	stop    func()

	mu        sync.Mutex
	taken     int
	requested int                   // by the Reserves in flight
	running   map[duly.Receipt]bool // true after the lease was lost: then no settle follows
	wake      func()                // ends the Wait in progress
}

func newLimitedEngine(e contract.Engine, f *workFlags, stop func()) *limitedEngine {
	return &limitedEngine{
		Engine: e, max: f.max, empty: f.untilEmpty, creates: f.from.from != "", stop: stop,
		running: map[duly.Receipt]bool{}, wake: func() {},
	}
}

// Reserve implements duly.Engine.
func (l *limitedEngine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if p.Max = l.request(p.Max); p.Max == 0 {
		return nil, nil
	}
	got, err := l.Engine.Reserve(ctx, p)
	idle := l.received(p.Max, got)

	// A group that does not exist has no jobs. Without this, the worker would wait for the group.
	if l.empty && !l.creates && idle && errors.Is(err, duly.ErrNotFound) {
		l.stop()
		return nil, nil
	}
	return got, err
}

// received records the answer of a Reserve that requested n jobs. It reports whether no job runs.
func (l *limitedEngine) received(n int, got []duly.Delivery) (idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	// The request is over, so jobs that it did not get may be requested again.
	l.requested -= n
	l.taken += len(got)
	for i := range got {
		l.running[got[i].Receipt] = false
	}
	return len(l.running) == 0
}

// WatchCancels implements contract.CancelWatcher, if the engine does.
func (l *limitedEngine) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if engine, ok := l.Engine.(contract.CancelWatcher); ok {
		return engine.WatchCancels(ctx, namespace, w)
	}
	return contract.Errorf(duly.CodeUnsupported, "the engine does not report canceled jobs")
}

// Pass implements contract.Passer.
func (l *limitedEngine) Pass(ctx context.Context, namespace string, queues []string) {
	contract.PasserOf(l.Engine).Pass(ctx, namespace, queues)
}

// request returns the number of jobs that a Reserve may request, at most n.
func (l *limitedEngine) request(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max > 0 {
		// Concurrent requests must not take more than the maximum together.
		n = min(n, l.max-l.taken-l.requested)
	}
	l.requested += n
	return n
}

// finished reports whether all jobs were reserved.
func (l *limitedEngine) finished() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.max > 0 && l.taken >= l.max
}

// topicMethods is the name of contract.Topics for embedding. A field named Topics would hide
// the method Topics.
type topicMethods = contract.Topics

// limitedTopics is a limitedEngine with topics.
type limitedTopics struct {
	*limitedEngine
	topicMethods
}

// withTopics returns l with the topics of its engine, if the engine has topics.
func (l *limitedEngine) withTopics() contract.Engine {
	if topics, ok := l.Engine.(contract.Topics); ok {
		return limitedTopics{l, topics}
	}
	return l
}

// Wait implements duly.Engine. A worker calls it when a Reserve left slots free.
func (l *limitedEngine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	// The worker still waits for its running jobs, and must not reserve more.
	if l.finished() {
		<-ctx.Done() // finish stops the worker when the last job is settled
		return false, ctx.Err()
	}
	if !l.empty {
		return l.Engine.Wait(ctx, p)
	}

	// idle must be read first: a job that ends later may make another one due.
	waiting, idle := l.beginWait(ctx)
	now := p
	// Only a Wait without a time says that no job is due now.
	now.Timeout = 0
	ready, err := l.Engine.Wait(ctx, now)
	if err != nil || ready {
		return ready, err
	}
	// Nothing runs and nothing is due, so no more work can come from here.
	if idle && !l.heldBack(ctx, p) {
		l.stop()
		<-ctx.Done()
		return false, ctx.Err()
	}

	ready, err = l.Engine.Wait(waiting, p)
	if waiting.Err() != nil && ctx.Err() == nil { // the last running job ended
		return true, nil
	}
	return ready, err
}

// beginWait returns the context of a Wait and whether no job runs. The context ends when
// the last running job ends.
func (l *limitedEngine) beginWait(ctx context.Context) (waiting context.Context, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	// Without this call, the context of the previous Wait would leak.
	l.wake()
	waiting, l.wake = context.WithCancel(ctx)
	return waiting, len(l.running) == 0
}

// heldBack reports whether a limit of a queue holds back jobs that are due. It ignores
// paused queues, because they deliver nothing until they are resumed.
func (l *limitedEngine) heldBack(ctx context.Context, p duly.WaitParams) bool {
	for _, name := range p.Queues {
		q := duly.QueueRef{Namespace: p.Namespace, Name: name}
		stats, err := l.Stats(ctx, q)
		if err != nil || stats.Sizes.Ready == 0 {
			continue
		}
		// A limit opens by itself, but a pause may last.
		if config, err := l.Config(ctx, q); err == nil && !config.Paused {
			return true
		}
	}
	return false
}

// wrapObserver returns an observer that also tracks the running deliveries.
func (l *limitedEngine) wrapObserver(o worker.Observer) worker.Observer {
	settled := o.Settled
	o.Settled = func(d *worker.Delivery, as duly.Settlement, err error) {
		settled(d, as, err)
		l.finish(d.Receipt, true)
	}
	o.LeaseLost = func(d *worker.Delivery, _ error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		// Its settle never comes, so the end of the command counts.
		if _, runs := l.running[d.Receipt]; runs {
			l.running[d.Receipt] = true
		}
	}
	o.Finished = func(f worker.Finished) { l.finish(f.Delivery.Receipt, false) }
	return o
}

// finish removes a delivery that was settled, or whose command returned after the lease
// was lost.
func (l *limitedEngine) finish(r duly.Receipt, settled bool) {
	l.mu.Lock()
	lost, runs := l.running[r]

	// A delivery ends once: by its settle, or after a lost lease by the end of its command.
	if !runs || !settled && !lost {
		l.mu.Unlock()
		return
	}
	delete(l.running, r)

	// A Wait in progress must look again whether jobs are due.
	if len(l.running) == 0 {
		l.wake()
	}
	done := l.max > 0 && l.taken >= l.max && len(l.running) == 0
	l.mu.Unlock()

	// stop ends calls that need the mutex, so it is called without it.
	if done {
		l.stop()
	}
}

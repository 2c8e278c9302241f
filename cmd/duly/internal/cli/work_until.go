package cli

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/worker"
)

// untilEngine wraps the engine of a worker that stops after one job, or when no
// job is due. The worker reserves and waits as usual. untilEngine calls stop when
// there is nothing more to take.
type untilEngine struct {
	duly.Contract
	most  int // jobs; 0: no bound
	empty bool
	stop  func()

	mu      sync.Mutex
	taken   int
	asked   int                   // by the Reserves in flight
	running map[duly.Receipt]bool // true after the lease was lost: then no settle follows
	wake    func()                // ends the Wait in progress
}

func newUntilEngine(e duly.Contract, f *workFlags, stop func()) *untilEngine {
	return &untilEngine{
		Contract: e, most: f.most, empty: f.untilEmpty, stop: stop,
		running: map[duly.Receipt]bool{}, wake: func() {},
	}
}

// Reserve implements duly.Engine.
func (u *untilEngine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if p.Max = u.ask(p.Max); p.Max == 0 {
		return nil, nil
	}
	got, err := u.Contract.Reserve(ctx, p)

	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked -= p.Max
	u.taken += len(got)
	for i := range got {
		u.running[got[i].Receipt] = false
	}
	return got, err
}

// WatchCancels implements duly.CancelWatcher, if the engine does.
func (u *untilEngine) WatchCancels(ctx context.Context, namespace string, w duly.CancelWatch) error {
	if engine, ok := u.Contract.(duly.CancelWatcher); ok {
		return engine.WatchCancels(ctx, namespace, w)
	}
	return duly.Errorf(duly.CodeUnsupported, "the engine does not report canceled jobs")
}

// Pass implements duly.Passer.
func (u *untilEngine) Pass(ctx context.Context, namespace string, queues []string) {
	duly.PasserOf(u.Contract).Pass(ctx, namespace, queues)
}

// ask returns how many jobs a Reserve may ask for, up to n.
func (u *untilEngine) ask(n int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.most > 0 {
		n = min(n, u.most-u.taken-u.asked)
	}
	u.asked += n
	return n
}

// finished reports whether all jobs were taken.
func (u *untilEngine) finished() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.most > 0 && u.taken >= u.most
}

// topicMethods is embedded: duly.Topics would hide its own method Topics.
type topicMethods = duly.Topics

// untilTopics is untilEngine for an engine with topics.
type untilTopics struct {
	*untilEngine
	topicMethods
}

// withTopics returns u with the topics of its engine, if the engine has topics.
func (u *untilEngine) withTopics() duly.Contract {
	if topics, ok := u.Contract.(duly.Topics); ok {
		return untilTopics{u, topics}
	}
	return u
}

// Wait implements duly.Engine. A worker calls it when a Reserve left slots free.
func (u *untilEngine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	if u.finished() {
		<-ctx.Done() // ended stops the worker when the job is settled
		return false, ctx.Err()
	}
	if !u.empty {
		return u.Contract.Wait(ctx, p)
	}

	// A job that ends after this line may make another one due: read idle first.
	waiting, idle := u.begin(ctx)
	now := p
	now.Timeout = 0
	ready, err := u.Contract.Wait(ctx, now)
	if err != nil || ready {
		return ready, err
	}
	if idle && !u.heldBack(ctx, p) {
		u.stop()
		<-ctx.Done()
		return false, ctx.Err()
	}

	ready, err = u.Contract.Wait(waiting, p)
	if waiting.Err() != nil && ctx.Err() == nil { // the last running job ended
		return true, nil
	}
	return ready, err
}

// begin returns the context of a Wait and whether no job runs now. The context
// ends when the last running job does.
func (u *untilEngine) begin(ctx context.Context) (waiting context.Context, idle bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wake()
	waiting, u.wake = context.WithCancel(ctx)
	return waiting, len(u.running) == 0
}

// heldBack reports whether a limit of a queue holds back jobs that are due. The
// jobs of a paused queue do not count: it delivers nothing until it is resumed.
func (u *untilEngine) heldBack(ctx context.Context, p duly.WaitParams) bool {
	for _, name := range p.Queues {
		q := duly.QueueRef{Namespace: p.Namespace, Name: name}
		stats, err := u.Stats(ctx, q)
		if err != nil || stats.Sizes.Ready == 0 {
			continue
		}
		if config, err := u.Config(ctx, q); err == nil && !config.Paused {
			return true
		}
	}
	return false
}

// observe adds the bookkeeping of running deliveries to an observer.
func (u *untilEngine) observe(o worker.Observer) worker.Observer {
	settled := o.Settled
	o.Settled = func(d *worker.Delivery, as duly.Settlement, err error) {
		settled(d, as, err)
		u.ended(d.Receipt, true)
	}
	o.LeaseLost = func(d *worker.Delivery, _ error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		if _, runs := u.running[d.Receipt]; runs {
			u.running[d.Receipt] = true
		}
	}
	o.Finished = func(f worker.Finished) { u.ended(f.Delivery.Receipt, false) }
	return o
}

// ended removes a delivery that was settled, or whose command returned after its
// lease was lost.
func (u *untilEngine) ended(r duly.Receipt, settled bool) {
	u.mu.Lock()
	lost, runs := u.running[r]
	if !runs || !settled && !lost {
		u.mu.Unlock()
		return
	}
	delete(u.running, r)
	if len(u.running) == 0 {
		u.wake()
	}
	done := u.most > 0 && u.taken >= u.most && len(u.running) == 0
	u.mu.Unlock()

	if done {
		u.stop()
	}
}

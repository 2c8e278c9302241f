package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// feed is the engine of the dispatcher's worker. It reserves jobs of all push queues in all
// namespaces, like those of one queue. Its receipts have the namespace, so a settle reaches the
// right namespace.
type feed struct {
	engine duly.Engine
	// hasMemory reports whether there is memory for more bodies.
	hasMemory func() bool
	cancels   *cancelWatcher
	clock     duly.Clock
	log       *slog.Logger

	mu      sync.Mutex
	pollers map[string][]*poller // pollers by namespace
	ready   []*poller            // pollers that may have jobs; the next one comes first
	// wake has a value when there may be jobs to reserve.
	wake    chan struct{}
	closed  bool
	running sync.WaitGroup
}

func newFeed(engine duly.Engine, room func() bool, c duly.Clock, log *slog.Logger) *feed {
	return &feed{
		engine: engine, hasMemory: room, cancels: newCancelWatcher(engine, c), clock: c, log: log,
		pollers: map[string][]*poller{}, wake: make(chan struct{}, 1),
	}
}

// signal ends a Wait. Only the worker waits.
func (f *feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// set replaces the queues of all namespaces.
func (f *feed) set(ctx context.Context, queues map[string][]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// A list that arrives after close must not start pollers, because nobody would stop them.
	if f.closed {
		return
	}

	// Pollers of namespaces that are not in the list are stopped first.
	for namespace := range f.pollers {
		if len(queues[namespace]) == 0 {
			f.setNamespace(ctx, namespace, nil)
		}
	}
	for namespace, names := range queues {
		f.setNamespace(ctx, namespace, names)
	}
}

// setNamespace replaces the queues of one namespace. A poller with the same queues continues
// its Wait. f.mu is held.
func (f *feed) setNamespace(ctx context.Context, namespace string, names []string) {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}

	// Each poller keeps its queues that are still wanted, and removes them from wanted.
	var kept []*poller
	for _, p := range f.pollers[namespace] {
		still := make([]string, 0, len(p.queues))
		for _, name := range p.queues {
			if wanted[name] {
				still = append(still, name)
				delete(wanted, name)
			}
		}
		switch {
		case len(still) == 0:
			p.stop()
			continue
		case len(still) < len(p.queues):
			p.setQueues(still)
		}
		kept = append(kept, p)
	}

	// New queues fill the pollers first.
	var added []string
	for _, name := range names {
		if wanted[name] {
			added = append(added, name)
			delete(wanted, name)
		}
	}
	for _, p := range kept {
		if n := min(duly.MaxReserveQueues-len(p.queues), len(added)); n > 0 {
			p.setQueues(append(append([]string(nil), p.queues...), added[:n]...))
			added = added[n:]
		}
	}

	for len(added) > 0 {
		n := min(duly.MaxReserveQueues, len(added))
		kept = append(kept, f.startPoller(ctx, namespace, added[:n:n]))
		added = added[n:]
	}

	f.pollers[namespace] = kept
	if len(kept) == 0 {
		delete(f.pollers, namespace)
	}
}

// close stops all pollers and waits for them.
func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	for _, pollers := range f.pollers {
		for _, p := range pollers {
			p.stop()
		}
	}
	f.pollers = map[string][]*poller{}
	f.mu.Unlock()
	f.running.Wait()
}

// Wait implements [duly.Engine].
func (f *feed) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	timer := f.clock.NewTimer(p.Timeout)
	defer timer.Stop()
	for {
		if f.hasReady() {
			return true, nil
		}
		select {
		case <-f.wake:
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// hasReady reports whether a Reserve may find jobs.
func (f *feed) hasReady() bool {
	if !f.hasMemory() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ready) > 0
}

// nextReady returns the next poller, its queues, and the number of jobs to reserve: an equal
// share of left for each ready poller.
func (f *feed) nextReady(left int) (*poller, []string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ready) == 0 {
		return nil, nil, 0
	}

	// The division rounds up, so a small rest is not lost.
	n := (left + len(f.ready) - 1) / len(f.ready)
	p := f.ready[0]
	// The order of the other pollers is kept. This poller is appended when it is ready again.
	f.ready = append(f.ready[:0], f.ready[1:]...)
	p.isReady = false
	return p, p.nextQueues(), n
}

// Reserve implements [duly.Engine]. After an error it continues with the next poller, so a
// namespace with a lost pool does not delay the others.
func (f *feed) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if !f.hasMemory() {
		return nil, nil
	}
	var all []duly.Delivery
	for len(all) < p.Max && ctx.Err() == nil {
		next, queues, n := f.nextReady(p.Max - len(all))
		if next == nil {
			break
		}

		got, err := f.engine.Reserve(ctx, next.reserveParams(queues, n))
		for i := range got {
			// The worker knows only one namespace, so the receipt carries the real one.
			got[i].Namespace = next.namespace
			got[i].Receipt = wrap(next.namespace, got[i].Receipt)
		}
		if len(got) > 0 {
			f.cancels.use(next.namespace)
		}

		// In the usual case of one poller, the result needs no copy.
		if len(all) == 0 {
			all = got
		} else {
			all = append(all, got...)
		}

		switch {
		case errors.Is(err, duly.ErrClosed):
			return all, err
		// There may be more jobs, so the poller need not wait first.
		case err == nil && len(got) == n:
			f.markReady(next)
		default:
			next.resume(err)
		}
	}
	return all, nil
}

// markReady appends a poller to the list of ready pollers.
func (f *feed) markReady(p *poller) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !p.isReady && !p.stopped {
		p.isReady = true
		f.ready = append(f.ready, p)
	}
	f.signal()
}

// unmarkReady removes a poller from the list of ready pollers. f.mu is held.
func (f *feed) unmarkReady(p *poller) {
	for i, other := range f.ready {
		if other == p {
			f.ready = append(f.ready[:i], f.ready[i+1:]...)
			break
		}
	}
	p.isReady = false
}

// Settle implements [duly.Engine], for the namespace of each receipt.
func (f *feed) Settle(ctx context.Context, _ string, outcomes []duly.SettleRequest) ([]error, error) {
	return perNamespace(outcomes, func(o *duly.SettleRequest) *duly.Receipt { return &o.Receipt },
		func(namespace string, part []duly.SettleRequest) ([]error, error) {
			return f.engine.Settle(ctx, namespace, part)
		})
}

// Extend implements [duly.Engine], for the namespace of each receipt.
func (f *feed) Extend(ctx context.Context, _ string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	return perNamespace(receipts, func(r *duly.Receipt) *duly.Receipt { return r },
		func(namespace string, part []duly.Receipt) ([]error, error) {
			return f.engine.Extend(ctx, namespace, part, lease)
		})
}

// Push implements [duly.Engine].
func (f *feed) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	return f.engine.Push(ctx, jobs)
}

// Delete implements [duly.Engine].
func (f *feed) Delete(ctx context.Context, q duly.QueueRef, id string) error {
	return f.engine.Delete(ctx, q, id)
}

// Close implements [duly.Engine]. The engine of the feed stays open.
func (f *feed) Close() error { return nil }

// wrap returns a receipt with its namespace before a slash, which no name contains.
func wrap(namespace string, r duly.Receipt) duly.Receipt {
	return duly.Receipt(namespace + "/" + string(r))
}

// unwrap returns the arguments of wrap.
func unwrap(r duly.Receipt) (namespace string, inner duly.Receipt) {
	namespace, text, _ := strings.Cut(string(r), "/")
	return namespace, duly.Receipt(text)
}

// perNamespace makes one call for the items of each namespace, all concurrently. The error of a
// call becomes the error of its items, so calls of other namespaces keep their results.
func perNamespace[T any](
	items []T, receipt func(*T) *duly.Receipt, call func(namespace string, part []T) ([]error, error),
) ([]error, error) {
	type part struct {
		indexes []int
		items   []T
	}
	parts := map[string]*part{}
	for i := range items {
		item := items[i]
		namespace, inner := unwrap(*receipt(&item))
		*receipt(&item) = inner

		p := parts[namespace]
		if p == nil {
			p = &part{indexes: make([]int, 0, len(items)-i), items: make([]T, 0, len(items)-i)}
			parts[namespace] = p
		}
		p.indexes = append(p.indexes, i)
		p.items = append(p.items, item)
	}

	if len(parts) == 1 { // the only call's error is the error of the whole call
		for namespace, p := range parts {
			return call(namespace, p.items)
		}
	}

	errs := make([]error, len(items))
	var calls sync.WaitGroup
	for namespace, p := range parts {
		calls.Go(func() {
			results, err := call(namespace, p.items)
			if err == nil && len(results) != len(p.items) {
				err = contract.Errorf(duly.CodeInternal,
					"the engine returned %d results for %d items; every item needs a result", len(results), len(p.items))
			}
			// A lost pool fails only its own items.
			for i, index := range p.indexes {
				if errs[index] = err; err == nil {
					errs[index] = results[i]
				}
			}
		})
	}
	calls.Wait()
	return errs, nil
}

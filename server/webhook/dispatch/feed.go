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

// feed is the engine of the dispatcher's worker. It takes jobs of all push queues, in
// whatever namespace, as if they were in one queue. The receipts that it hands out name
// the namespace, so a settle finds its way back.
type feed struct {
	engine duly.Engine
	// room reports whether there is memory for more bodies.
	room    func() bool
	removed *removed
	clock   duly.Clock
	log     *slog.Logger

	mu    sync.Mutex
	lanes map[string][]*lane // by namespace
	ready []*lane            // that may have jobs, in the order in which they are asked
	// wake has a value when there may be something to reserve.
	wake    chan struct{}
	closed  bool
	running sync.WaitGroup
}

func newFeed(engine duly.Engine, room func() bool, c duly.Clock, log *slog.Logger) *feed {
	return &feed{engine: engine, room: room, removed: newRemoved(engine, c), clock: c, log: log, lanes: map[string][]*lane{}, wake: make(chan struct{}, 1)}
}

// signal ends a Wait. There is one waiter: the worker.
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
	if f.closed {
		return
	}
	for namespace := range f.lanes {
		if len(queues[namespace]) == 0 {
			f.change(ctx, namespace, nil)
		}
	}
	for namespace, names := range queues {
		f.change(ctx, namespace, names)
	}
}

// change replaces the queues of one namespace. A lane whose queues stay goes on
// waiting. f.mu is held.
func (f *feed) change(ctx context.Context, namespace string, names []string) {
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		wanted[name] = true
	}
	var kept []*lane
	for _, l := range f.lanes[namespace] {
		still := make([]string, 0, len(l.queues))
		for _, name := range l.queues {
			if wanted[name] {
				still = append(still, name)
				delete(wanted, name)
			}
		}
		switch {
		case len(still) == 0:
			l.end()
			continue
		case len(still) < len(l.queues):
			l.change(still)
		}
		kept = append(kept, l)
	}

	var added []string
	for _, name := range names {
		if wanted[name] {
			added = append(added, name)
			delete(wanted, name)
		}
	}
	for _, l := range kept {
		if n := min(duly.MaxReserveQueues-len(l.queues), len(added)); n > 0 {
			l.change(append(append([]string(nil), l.queues...), added[:n]...))
			added = added[n:]
		}
	}
	for len(added) > 0 {
		n := min(duly.MaxReserveQueues, len(added))
		kept = append(kept, f.open(ctx, namespace, added[:n:n]))
		added = added[n:]
	}
	f.lanes[namespace] = kept
	if len(kept) == 0 {
		delete(f.lanes, namespace)
	}
}

// close ends all lanes and waits for them.
func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	for _, lanes := range f.lanes {
		for _, l := range lanes {
			l.end()
		}
	}
	f.lanes = map[string][]*lane{}
	f.mu.Unlock()
	f.running.Wait()
}

// Wait implements [duly.Engine].
func (f *feed) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	timer := f.clock.NewTimer(p.Timeout)
	defer timer.Stop()
	for {
		if f.any() {
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

func (f *feed) any() bool {
	if !f.room() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ready) > 0
}

// next returns the lane to ask, and how many jobs to ask it for: each lane that may
// have jobs gets its share.
func (f *feed) next(left int) (*lane, []string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ready) == 0 {
		return nil, nil, 0
	}
	n := (left + len(f.ready) - 1) / len(f.ready)
	l := f.ready[0]
	f.ready = append(f.ready[:0], f.ready[1:]...)
	l.isReady = false
	return l, l.turn(), n
}

// Reserve implements [duly.Engine]. A lane that fails waits and is tried again, so
// one namespace whose pool is lost holds up no other.
func (f *feed) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if !f.room() {
		return nil, nil
	}
	var all []duly.Delivery
	for len(all) < p.Max && ctx.Err() == nil {
		l, queues, n := f.next(p.Max - len(all))
		if l == nil {
			break
		}
		got, err := f.engine.Reserve(ctx, l.reserve(queues, n))
		for i := range got {
			got[i].Namespace = l.namespace
			got[i].Receipt = wrap(l.namespace, got[i].Receipt)
		}
		if len(got) > 0 {
			f.removed.use(l.namespace)
		}
		if len(all) == 0 {
			all = got
		} else {
			all = append(all, got...)
		}
		switch {
		case errors.Is(err, duly.ErrClosed):
			return all, err
		case err == nil && len(got) == n:
			f.mark(l)
		default:
			l.ask(err)
		}
	}
	return all, nil
}

// mark puts a lane at the end of those that may have jobs.
func (f *feed) mark(l *lane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !l.isReady && !l.ended {
		l.isReady = true
		f.ready = append(f.ready, l)
	}
	f.signal()
}

// unmark removes a lane from those that may have jobs. f.mu is held.
func (f *feed) unmark(l *lane) {
	for i, other := range f.ready {
		if other == l {
			f.ready = append(f.ready[:i], f.ready[i+1:]...)
			break
		}
	}
	l.isReady = false
}

// Settle implements [duly.Engine]. The namespace of each receipt counts.
func (f *feed) Settle(ctx context.Context, _ string, outcomes []duly.SettleRequest) ([]error, error) {
	return perNamespace(outcomes, func(o *duly.SettleRequest) *duly.Receipt { return &o.Receipt },
		func(namespace string, some []duly.SettleRequest) ([]error, error) {
			return f.engine.Settle(ctx, namespace, some)
		})
}

// Extend implements [duly.Engine]. The namespace of each receipt counts.
func (f *feed) Extend(ctx context.Context, _ string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	return perNamespace(receipts, func(r *duly.Receipt) *duly.Receipt { return r },
		func(namespace string, some []duly.Receipt) ([]error, error) {
			return f.engine.Extend(ctx, namespace, some, lease)
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

// Close implements [duly.Engine]. The engine below stays open.
func (f *feed) Close() error { return nil }

// wrap returns a receipt that names its namespace. No name has a slash.
func wrap(namespace string, r duly.Receipt) duly.Receipt {
	return duly.Receipt(namespace + "/" + string(r))
}

// unwrap returns what wrap was given.
func unwrap(r duly.Receipt) (namespace string, inner duly.Receipt) {
	namespace, text, _ := strings.Cut(string(r), "/")
	return namespace, duly.Receipt(text)
}

// perNamespace makes one call for the items of each namespace, all at once. A call that
// fails is the answer for each of its items, so the items of other namespaces count.
func perNamespace[T any](items []T, receipt func(*T) *duly.Receipt, call func(namespace string, some []T) ([]error, error)) ([]error, error) {
	type part struct {
		places []int
		items  []T
	}
	parts := map[string]*part{}
	for i := range items {
		item := items[i]
		namespace, inner := unwrap(*receipt(&item))
		*receipt(&item) = inner
		p := parts[namespace]
		if p == nil {
			p = &part{places: make([]int, 0, len(items)-i), items: make([]T, 0, len(items)-i)}
			parts[namespace] = p
		}
		p.places = append(p.places, i)
		p.items = append(p.items, item)
	}

	answers := make([]error, len(items))
	if len(parts) == 1 { // the call's own error says more
		for namespace, p := range parts {
			return call(namespace, p.items)
		}
	}
	var calls sync.WaitGroup
	for namespace, p := range parts {
		calls.Go(func() {
			some, err := call(namespace, p.items)
			if err == nil && len(some) != len(p.items) {
				err = contract.Errorf(duly.CodeInternal, "the engine has answered %d of %d items", len(some), len(p.items))
			}
			for i, place := range p.places {
				if answers[place] = err; err == nil {
					answers[place] = some[i]
				}
			}
		})
	}
	calls.Wait()
	return answers, nil
}

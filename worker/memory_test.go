package worker_test

import (
	"context"
	"sync"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// memoryEngine is the simplest engine for a worker: queues in memory, and leases without an end. It
// takes almost no time, so benchmarks on it show the costs of the worker.
type memoryEngine struct {
	mu      sync.Mutex
	queues  map[string][]duly.Delivery
	leased  map[duly.Receipt]struct{}
	arrived chan struct{} // closed and replaced by each push
	// stall is called in every Reserve and Settle, one call at a time, as in a store with one
	// writer.
	stall  func(items int)
	writer sync.Mutex
	calls  struct{ reserves, settles, empty int }
}

func newMemoryEngine() *memoryEngine {
	return &memoryEngine{
		queues: map[string][]duly.Delivery{}, leased: map[duly.Receipt]struct{}{}, arrived: make(chan struct{}),
	}
}

func (e *memoryEngine) Push(_ context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := clock.System().Now()
	for _, j := range jobs {
		j.Due = now
		if j.Lease == 0 {
			j.Lease = duly.DefaultLease
		}
		r := contract.ReceiptParts{Queue: j.Queue, Number: duly.NewNumber(), Delivery: 1}.Receipt()
		e.queues[j.Queue] = append(e.queues[j.Queue], duly.Delivery{
			Job: j, Receipt: r, Attempt: 1, Now: now, LeaseEnd: now.Add(j.Lease), PushedAt: now,
		})
	}
	close(e.arrived)
	e.arrived = make(chan struct{})
	return make([]duly.PushResult, len(jobs)), nil
}

func (e *memoryEngine) spend(items int) {
	if e.stall != nil {
		e.writer.Lock()
		e.stall(items)
		e.writer.Unlock()
	}
}

func (e *memoryEngine) Reserve(_ context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := contract.ValidateReserve(&p); err != nil {
		return nil, err
	}

	e.mu.Lock()
	got := make([]duly.Delivery, 0, p.Max)
	for _, q := range p.Queues {
		n := min(p.Max-len(got), len(e.queues[q]))
		got = append(got, e.queues[q][:n]...)
		e.queues[q] = e.queues[q][n:]
	}

	now := clock.System().Now()
	for i := range got {
		e.leased[got[i].Receipt] = struct{}{}
		lease := got[i].Lease
		if p.Lease > 0 {
			lease = p.Lease
		}
		got[i].Now, got[i].LeaseEnd = now, now.Add(lease)
	}

	e.calls.reserves++
	if len(got) == 0 {
		e.calls.empty++
	}
	e.mu.Unlock()
	e.spend(len(got))
	return got, nil
}

func (e *memoryEngine) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	timer := clock.System().NewTimer(p.Timeout)
	defer timer.Stop()
	for {
		e.mu.Lock()
		arrived := e.arrived
		for _, q := range p.Queues {
			if len(e.queues[q]) > 0 {
				e.mu.Unlock()
				return true, nil
			}
		}
		e.mu.Unlock()

		select {
		case <-arrived:
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (e *memoryEngine) Settle(_ context.Context, _ string, outcomes []duly.SettleRequest) ([]error, error) {
	size := 0
	for _, o := range outcomes {
		size += len(o.Result) + len(o.Error)
	}
	if err := contract.CheckBatch(len(outcomes), size); err != nil {
		return nil, err
	}

	e.spend(len(outcomes))
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls.settles++
	answers := make([]error, len(outcomes))
	for i, o := range outcomes {
		if _, ok := e.leased[o.Receipt]; !ok {
			answers[i] = duly.ErrLeaseLost
		}
		delete(e.leased, o.Receipt)
	}
	return answers, nil
}

func (e *memoryEngine) Extend(_ context.Context, _ string, receipts []duly.Receipt, _ time.Duration) ([]error, error) {
	if err := contract.CheckBatch(len(receipts), 0); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	answers := make([]error, len(receipts))
	for i, receipt := range receipts {
		if _, ok := e.leased[receipt]; !ok {
			answers[i] = duly.ErrLeaseLost
		}
	}
	return answers, nil
}

func (e *memoryEngine) Delete(context.Context, duly.QueueRef, string) error { return nil }

func (e *memoryEngine) Close() error { return nil }

var _ duly.Engine = (*memoryEngine)(nil)

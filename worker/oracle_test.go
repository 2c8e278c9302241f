package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/model"
)

// oracle makes all calls to the engine, records their results in their order, and checks the
// invariants after each call. No answer is lost between the oracle and the engine.
type oracle struct {
	engine *model.Engine
	fault  func(format string, args ...any)

	mu        sync.Mutex
	jobs      map[string]*record // the jobs by their IDs
	byReceipt map[duly.Receipt]*record
	acked     int
}

// record is what the oracle knows about one job.
type record struct {
	job        duly.Job
	notBefore  time.Time // the earliest time of the next delivery
	deliveries int
	failures   int
	stalls     int
	releases   int
	acked      bool
	buried     bool
	held       *heldDelivery // the last delivery, nil before the first
}

// heldDelivery is one delivery, until its lease ends or it is settled.
type heldDelivery struct {
	receipt duly.Receipt
	end     time.Time // end of the lease
	ended   bool      // whether the delivery was settled
	// handler is the context of the running handler if it obeys the context, else nil.
	handler context.Context
}

func newOracle(t *testing.T, seed uint64) *oracle {
	return &oracle{
		engine: model.New(model.Config{}), jobs: map[string]*record{}, byReceipt: map[duly.Receipt]*record{},
		fault: func(format string, args ...any) {
			t.Errorf("seed %d: %s: %s", seed, time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
		},
	}
}

func (o *oracle) push(j duly.Job) {
	o.mu.Lock()
	defer o.mu.Unlock()
	results, err := o.engine.Push(context.Background(), []duly.Job{j})
	if err != nil || results[0].Status != duly.Created {
		o.fault("push of %s: %v, %v", j.ID, results, err)
		return
	}
	o.jobs[j.ID] = &record{job: j, notBefore: time.Now().Add(j.Delay)}
}

// reserve makes a Reserve, and checks each delivery against its record.
func (o *oracle) reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	got, err := o.engine.Reserve(ctx, p)
	for i := range got {
		o.delivered(&got[i])
	}
	return got, err
}

func (o *oracle) delivered(d *duly.Delivery) {
	r := o.jobs[d.ID]
	if r == nil || r.job.Queue != d.Queue || string(r.job.Body) != string(d.Body) {
		o.fault("I10: %s was delivered, but not pushed with this queue and body", d.ID)
		return
	}
	if r.acked {
		o.fault("I2: %s was delivered after it was acked", d.ID)
	}
	if d.Now.Before(d.Due) || time.Now().Before(r.notBefore) {
		o.fault("I5: %s was delivered %v early", d.ID, r.notBefore.Sub(time.Now()))
	}

	if h := r.held; h != nil && !h.ended {
		if h.end.After(time.Now()) {
			o.fault("I4, I7: %s was delivered twice, its lease had %v left", d.ID, h.end.Sub(time.Now()))
		}
		if h.handler != nil && h.handler.Err() == nil {
			o.fault("I4: %s was delivered while a handler runs that is not canceled", d.ID)
		}
		r.stalls++
	}

	r.deliveries++
	if most := r.job.Tries + r.job.MaxStalls + r.releases; r.deliveries > most {
		o.fault("I6: %s was delivered %d times, at most %d", d.ID, r.deliveries, most)
	}
	r.held = &heldDelivery{receipt: d.Receipt, end: d.LeaseEnd}
	o.byReceipt[d.Receipt] = r
}

// running records that a handler which obeys its context has begun. It returns the function
// to call at its end.
func (o *oracle) running(ctx context.Context, receipt duly.Receipt) func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := o.byReceipt[receipt].held
	if h.receipt != receipt {
		o.fault("I4: a handler begins with a receipt that is not current")
		return func() {}
	}
	h.handler = ctx
	return func() {
		o.mu.Lock()
		h.handler = nil
		o.mu.Unlock()
	}
}

func (o *oracle) settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	answers, err := o.engine.Settle(ctx, namespace, outcomes)
	for i, answer := range answers {
		r := o.byReceipt[outcomes[i].Receipt]
		switch {
		case r == nil:
			o.fault("I3: settled with an unknown receipt")
		case answer == nil:
			o.settled(r, outcomes[i])
		case !errors.Is(answer, duly.ErrLeaseLost):
			o.fault("settling %s: %v", r.job.ID, answer)
		}
	}
	return answers, err
}

func (o *oracle) settled(r *record, out duly.SettleRequest) {
	if r.held.receipt != out.Receipt || r.held.ended {
		o.fault("I3: %s was settled with a stale receipt", r.job.ID)
	}
	r.held.ended = true
	switch out.As {
	case duly.Ack:
		r.acked = true
		o.acked++
	case duly.Nack:
		r.failures++
	case duly.Release:
		r.releases++
	case duly.Bury:
		r.buried = true
	}
	if out.Delay != nil {
		r.notBefore = time.Now().Add(*out.Delay)
	}
}

func (o *oracle) extend(
	ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration,
) ([]error, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	answers, err := o.engine.Extend(ctx, namespace, receipts, lease)
	for i, answer := range answers {
		if r := o.byReceipt[receipts[i]]; answer == nil {
			if r.held.receipt != receipts[i] || r.held.ended {
				o.fault("I3: %s was extended with a stale receipt", r.job.ID)
			}
			length := lease
			if length == 0 {
				length = r.job.Lease
			}
			r.held.end = time.Now().Add(length)
		}
	}
	return answers, err
}

// drained reports whether no job waits or runs.
func (o *oracle) drained(queues []string) bool {
	for _, q := range queues {
		s, err := o.engine.Stats(context.Background(), duly.Q(q))
		if err != nil || s.Sizes.Delayed+s.Sizes.Ready+s.Sizes.Blocked+s.Sizes.Leased > 0 {
			return false
		}
	}
	return true
}

// checkEnd checks the end of every job, and the counters of the engine.
func (o *oracle) checkEnd(queues []string) {
	ctx := context.Background()
	o.mu.Lock()
	defer o.mu.Unlock()
	dead := 0
	for id, r := range o.jobs {
		info, err := o.engine.Get(ctx, duly.Q(r.job.Queue), id)
		switch {
		case r.acked && !errors.Is(err, duly.ErrNotFound):
			o.fault("I2: %s was acked and is %v, %v", id, info.State, err)
		case r.acked:
		case err != nil || info.State != duly.StateDead:
			o.fault("I1: %s is neither acked nor dead: %v, %v", id, info.State, err)
		default:
			dead++
			if !r.buried && info.Failures < r.job.Tries && info.Stalls <= r.job.MaxStalls {
				o.fault("I6: %s is dead after %d failures and %d stalls", id, info.Failures, info.Stalls)
			}
		}
	}

	var pushed, acked, died int64
	for _, q := range queues {
		s, err := o.engine.Stats(ctx, duly.Q(q))
		if err != nil {
			o.fault("stats: %v", err)
		}
		pushed, acked, died = pushed+s.Counters.Pushed, acked+s.Counters.Acked, died+s.Sizes.Dead
	}
	if pushed != int64(len(o.jobs)) || acked != int64(o.acked) || died != int64(dead) || pushed != acked+died {
		o.fault("I8: pushed %d of %d, acked %d of %d, dead %d of %d", pushed, len(o.jobs), acked, o.acked, died, dead)
	}
}

package linear

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
)

// The faults that can be planted in a server.
const (
	staleSettles = "stale-settles"
	falseEmpties = "false-empties"
)

func plant(name string, e contract.Engine) contract.Engine {
	if name == staleSettles {
		return &acceptor{Engine: e, jobs: map[duly.Receipt]duly.Job{}}
	}
	return &denier{Engine: e}
}

// acceptor is an engine without fencing. It accepts settles with stale receipts. An ack with one
// removes the job, whatever delivery is current.
type acceptor struct {
	contract.Engine
	mu   sync.Mutex
	jobs map[duly.Receipt]duly.Job
}

func (a *acceptor) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	ds, err := a.Engine.Reserve(ctx, p)
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range ds {
		a.jobs[ds[i].Receipt] = ds[i].Job
	}
	return ds, err
}

func (a *acceptor) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	errs, err := a.Engine.Settle(ctx, namespace, outcomes)
	for i := range errs {
		if errs[i] == nil {
			continue
		}
		errs[i] = nil
		a.mu.Lock()
		j, known := a.jobs[outcomes[i].Receipt]
		a.mu.Unlock()
		if known && outcomes[i].As == duly.Ack {
			_ = a.Delete(ctx, duly.QueueRef{Namespace: j.Namespace, Name: j.Queue}, j.ID)
		}
	}
	return errs, err
}

// denier is an engine whose every fifth Reserve returns nothing, whatever is ready.
type denier struct {
	contract.Engine
	calls atomic.Int64
}

func (d *denier) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if d.calls.Add(1)%5 == 0 {
		return nil, nil
	}
	return d.Engine.Reserve(ctx, p)
}

// TestPlantedFaultsAreFound checks that the checker finds a server that accepts stale receipts,
// and one that returns nothing while jobs are ready.
func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{staleSettles, falseEmpties} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			x := begin(t, open.File(filepath.Join(t.TempDir(), "duly.db")), 1, 2, "-plant", fault)
			for x.answered() < 1000 {
				time.Sleep(20 * time.Millisecond) // between two checks of the clients' progress
			}
			x.finish()
			f := x.log.check()
			f.report(t)
			if f.violations == 0 {
				t.Errorf("the checker found nothing in %d calls", f.calls)
			}
		})
	}
}

package httpengine

import (
	"context"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// Reserve implements duly.Engine. It makes one request, which is never repeated. After a lost
// answer the jobs stay leased until their leases end.
func (e *Engine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := e.begin(p.Namespace); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.ValidateReserve(&p); err != nil {
		return nil, err
	}
	if p.Dispatcher {
		return nil, noDispatcher()
	}

	body := wire.ReserveForm.Append(nil, wire.Reserve{ReserveParams: p})
	r := request{method: "POST", path: e.base + "/reserve", body: body, max: maxJobs}
	// If the caller has left, release returns the jobs to the queue at once.
	return detach(ctx, e, func(ctx context.Context) ([]duly.Delivery, error) {
		return fetch(ctx, e.link, r, func(text string) ([]duly.Delivery, error) {
			return wire.ReadDeliveries(text, e.link.namespace)
		})
	}, e.release)
}

// noDispatcher returns the error of a dispatcher's call: its server has dispatchers of its own.
func noDispatcher() error {
	return contract.Errorf(duly.CodeUnsupported,
		"a dispatcher does not work over HTTP; run it on the engine that owns the storage")
}

// release releases the deliveries of a caller that has left. If the release fails, the leases run
// out.
func (e *Engine) release(deliveries []duly.Delivery) {
	if len(deliveries) == 0 {
		return
	}
	outcomes := make([]duly.SettleRequest, len(deliveries))
	for i := range deliveries {
		outcomes[i] = duly.SettleRequest{Receipt: deliveries[i].Receipt, As: duly.Release}
	}
	// The caller's context has ended, so the release uses another context.
	_, _ = e.settle(context.Background(), outcomes)
}

// Extend implements duly.Engine.
func (e *Engine) Extend(
	ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration,
) ([]error, error) {
	if err := e.begin(namespace); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.CheckBatch(len(receipts), 0); err != nil {
		return nil, err
	}
	if err := contract.ValidateLease(lease); err != nil {
		return nil, err
	}

	return sendValid(receipts, func(r *duly.Receipt) error { return contract.ValidateReceipt(*r) },
		func(receipts []duly.Receipt) ([]error, error) { return e.extend(ctx, receipts, lease) },
		func(_ *duly.Receipt, err error) error { return err })
}

func (e *Engine) extend(ctx context.Context, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	body := wire.ExtendForm.Append(nil, wire.Extend{Receipts: receipts, Lease: lease})
	r := request{method: "POST", path: e.base + "/extend", body: body}
	errs, err := change(ctx, e, r, wire.ResultsForm.ReadAnswer)
	// The results belong to the receipts by their order, so their number must be equal.
	if err == nil && len(errs) != len(receipts) {
		err = e.link.malformed(fmt.Sprintf("has %d results for %d receipts", len(errs), len(receipts)))
	}
	return errs, err
}

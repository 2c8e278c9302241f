package httpengine

import (
	"context"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

// Reserve implements duly.Engine. It is one request, never sent twice: what a
// lost answer carried is held until its lease ends.
func (e *Engine) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	if err := e.enter(p.Namespace); err != nil {
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
	return outlive(ctx, e, func(ctx context.Context) ([]duly.Delivery, error) {
		text, err := e.link.call(ctx, request{method: "POST", path: e.base + "/reserve", body: body, most: mostJobs})
		if err != nil {
			return nil, err
		}
		return answer(e.link, text, func(text string) ([]duly.Delivery, error) {
			return wire.ReadDeliveries(text, e.link.namespace)
		})
	}, e.giveBack)
}

// noDispatcher is the error of a dispatcher's call: its server has dispatchers of its
// own.
func noDispatcher() error {
	return contract.Errorf(duly.CodeUnsupported, "a dispatcher does not work over HTTP; run it on the engine that owns the storage")
}

// giveBack releases what a caller that has gone was to get. If that is lost as
// well, the leases end by themselves.
func (e *Engine) giveBack(deliveries []duly.Delivery) {
	if len(deliveries) == 0 {
		return
	}
	outcomes := make([]duly.SettleRequest, len(deliveries))
	for i := range deliveries {
		outcomes[i] = duly.SettleRequest{Receipt: deliveries[i].Receipt, As: duly.Release}
	}
	_, _ = e.settle(context.Background(), outcomes)
}

// Extend implements duly.Engine.
func (e *Engine) Extend(ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	if err := e.enter(namespace); err != nil {
		return nil, err
	}
	defer e.calls.Done()
	if err := contract.CheckBatch(len(receipts), 0); err != nil {
		return nil, err
	}
	if err := contract.ValidateLease(lease); err != nil {
		return nil, err
	}
	return each(receipts, func(r *duly.Receipt) error { return contract.ValidateReceipt(*r) },
		func(receipts []duly.Receipt) ([]error, error) { return e.extend(ctx, receipts, lease) },
		func(_ *duly.Receipt, err error) error { return err })
}

func (e *Engine) extend(ctx context.Context, receipts []duly.Receipt, lease time.Duration) ([]error, error) {
	body := wire.ExtendForm.Append(nil, wire.Extend{Receipts: receipts, Lease: lease})
	return outlive(ctx, e, func(ctx context.Context) ([]error, error) {
		text, err := e.link.call(ctx, request{method: "POST", path: e.base + "/extend", body: body})
		if err != nil {
			return nil, err
		}
		errs, err := answer(e.link, text, wire.ResultsForm.ReadAnswer)
		if err == nil && len(errs) != len(receipts) {
			err = e.link.garbled("an extend with another number of results")
		}
		return errs, err
	}, nil)
}

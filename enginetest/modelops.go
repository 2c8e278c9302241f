package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// operation is one step of a script. An operation is plain data, so that a script can be printed
// and shortened. IDs and receipts are resolved when the operation runs.
type operation interface {
	play(p *pair)
}

// pushOp pushes jobs in one call.
type pushOp struct{ Jobs []jobSpec }

func (o pushOp) play(p *pair) {
	namespace := o.Jobs[0].At.ref().Namespace
	jobs := make([]duly.Job, len(o.Jobs))
	for i := range o.Jobs {
		jobs[i] = o.Jobs[i].job(p)
		jobs[i].Namespace = namespace
	}

	p.both("push", func(s side) (string, error) {
		results, err := s.in(namespace).Push(p.ctx, jobs)
		return pushesText(results), err
	})

	for i := range o.Jobs {
		p.get(o.Jobs[i].At, jobs[i].ID)
	}
}

// reserveOp reserves jobs.
type reserveOp struct {
	Queues     []queueSpec
	Max        int
	Lease      time.Duration
	Dispatcher bool
}

func (o reserveOp) params() duly.ReserveParams {
	params := duly.ReserveParams{Namespace: o.Queues[0].ref().Namespace, Max: o.Max, Lease: o.Lease,
		Dispatcher: o.Dispatcher}
	for _, at := range o.Queues {
		params.Queues = append(params.Queues, at.ref().Name)
	}
	return params
}

func (o reserveOp) play(p *pair) {
	from := len(p.issued)
	p.deliver(o.params())
	// Compare the stored jobs too, not only the deliveries.
	for _, i := range p.issued[from:] {
		p.both("get of a leased job", func(s side) (string, error) {
			info, err := s.in(i.namespace).Get(p.ctx, duly.QueueRef{Namespace: i.namespace, Name: i.queue}, i.id)
			return infoText(info), err
		})
	}
}

// waitOp waits without a timeout and then reserves. If Reserve returns a job, Wait must have
// reported one.
type waitOp struct{ reserveOp }

func (o waitOp) play(p *pair) {
	params := o.params()
	wait := duly.WaitParams{Namespace: params.Namespace, Queues: params.Queues, Dispatcher: params.Dispatcher}
	var ready [2]bool
	turn := 0
	// The closure runs twice: first for the engine, then for the model.
	p.both("wait", func(s side) (_ string, err error) {
		ready[turn], err = s.taker(params.Namespace, params.Dispatcher).Wait(p.ctx, wait)
		turn++
		return "", err
	})
	if n := p.deliver(params); p.err == nil && n > 0 && (!ready[0] || !ready[1]) {
		p.err = fmt.Errorf("wait returned %t (model %t), but reserve then returned %d jobs", ready[0], ready[1], n)
	}
}

// settleOp settles deliveries in one call.
type settleOp struct{ Outcomes []outcomeSpec }

type outcomeSpec struct {
	Which  int // counted back from the last delivery
	Forge  forgery
	As     duly.Settlement
	Delay  time.Duration // negative means absent
	Slow   bool          // whether the queue is closed for the time For
	For    time.Duration
	Error  string
	Result int // size of the result in bytes
}

func (o settleOp) play(p *pair) {
	// There is no receipt to settle before the first delivery.
	if len(p.issued) == 0 {
		return
	}
	namespace := p.which(o.Outcomes[0].Which).namespace
	p.both("settle", func(s side) (string, error) {
		outcomes := make([]duly.SettleRequest, len(o.Outcomes))
		for i, spec := range o.Outcomes {
			outcomes[i] = duly.SettleRequest{
				Receipt: spec.Forge.apply(s.receipt(p.which(spec.Which))), As: spec.As,
				Error: spec.Error, Result: []byte(strings.Repeat("r", spec.Result)),
			}
			if spec.Delay >= 0 {
				outcomes[i].Delay = &spec.Delay
			}
			if spec.Slow {
				outcomes[i].Slow = &spec.For
			}
		}
		errs, err := s.in(namespace).Settle(p.ctx, namespace, outcomes)
		return errorTexts(errs), err
	})
	p.h.Quiet() // an engine closes the other shards after the settle

	for _, spec := range o.Outcomes {
		p.getIssued(p.which(spec.Which))
	}
}

// which returns the delivery n places before the last one.
func (p *pair) which(n int) issued { return p.issued[max(0, len(p.issued)-1-n)] }

func (p *pair) getIssued(i issued) {
	p.both("get of "+i.id, func(s side) (string, error) {
		info, err := s.in(i.namespace).Get(p.ctx, duly.QueueRef{Namespace: i.namespace, Name: i.queue}, i.id)
		return infoText(info), err
	})
}

// extendOp extends leases in one call.
type extendOp struct {
	Which []int
	Forge forgery // changes the first receipt to a forged one
	Lease time.Duration
}

func (o extendOp) play(p *pair) {
	if len(p.issued) == 0 {
		return
	}
	namespace := p.which(o.Which[0]).namespace

	p.both("extend", func(s side) (string, error) {
		receipts := make([]duly.Receipt, len(o.Which))
		for i, n := range o.Which {
			receipts[i] = s.receipt(p.which(n))
		}
		receipts[0] = o.Forge.apply(receipts[0])
		errs, err := s.in(namespace).Extend(p.ctx, namespace, receipts, o.Lease)
		return errorTexts(errs), err
	})

	for _, n := range o.Which {
		p.getIssued(p.which(n))
	}
}

// forgery is a change that makes a receipt invalid.
type forgery int

// The forgeries. forgeNone does not change the receipt.
const (
	forgeNone forgery = iota
	forgeNext
	forgeLast
	forgeQueue
	forgeShard
	forgeNumber
	forgeEmpty
	forgeText
	forgeCase
	forgeZero
	forgeryKinds // the number of forgeries
)

func (f forgery) apply(r duly.Receipt) duly.Receipt {
	p, _ := contract.ParseReceipt(r)
	switch f {
	case forgeNext:
		p.Delivery++
	case forgeLast:
		p.Delivery--
	case forgeQueue:
		p.Queue += "x"
	case forgeShard:
		p.Shard++
	case forgeNumber:
		p.Number[15] ^= 1
	case forgeEmpty:
		return ""
	case forgeText:
		return "no receipt at all"
	case forgeCase:
		return duly.Receipt(strings.ToLower(string(r)))
	case forgeZero:
		return r + " "
	default:
		return r
	}
	return p.Receipt()
}

// advanceOp advances the clock, so that timers fire.
type advanceOp struct{ By time.Duration }

func (o advanceOp) play(p *pair) { p.h.Advance(o.By) }

// setClockOp sets the wall clock without firing timers.
type setClockOp struct{ By time.Duration }

func (o setClockOp) play(p *pair) {
	if o.By < 0 {
		p.reopenShards()
	}
	p.h.Clock.Step(o.By)
}

// stepOp steps one queue.
type stepOp struct{ At queueSpec }

func (o stepOp) play(p *pair) { p.step(o.At) }

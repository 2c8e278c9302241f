package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// operation is one step of a script. It is plain data, so that a script can be
// printed, and shrinks: what it speaks of is found when it is played.
type operation interface {
	play(p *pair)
}

// pushOp pushes jobs in one call.
type pushOp struct{ Jobs []jobSpec }

func (o pushOp) play(p *pair) {
	namespace := o.Jobs[0].Place.ref().Namespace
	jobs := make([]duly.Job, len(o.Jobs))
	for i := range o.Jobs {
		jobs[i] = o.Jobs[i].job(p)
		jobs[i].Namespace = namespace
	}
	p.both("push", func(s side) (string, error) {
		results, err := s.in(namespace).Push(p.ctx, jobs)
		return tellPushes(results), err
	})
	for i := range o.Jobs {
		p.get(o.Jobs[i].Place, jobs[i].ID)
	}
}

// reserveOp takes jobs.
type reserveOp struct {
	Places     []place
	Max        int
	Lease      time.Duration
	Dispatcher bool
}

func (o reserveOp) params() duly.ReserveParams {
	params := duly.ReserveParams{Namespace: o.Places[0].ref().Namespace, Max: o.Max, Lease: o.Lease, Dispatcher: o.Dispatcher}
	for _, at := range o.Places {
		params.Queues = append(params.Queues, at.ref().Name)
	}
	return params
}

func (o reserveOp) play(p *pair) {
	from := len(p.issued)
	p.deliver(o.params())
	for _, i := range p.issued[from:] {
		p.both("get of a leased job", func(s side) (string, error) {
			info, err := s.in(i.namespace).Get(p.ctx, duly.QueueRef{Namespace: i.namespace, Name: i.queue}, i.id)
			return tellJob(info), err
		})
	}
}

// waitOp looks whether there is something, and takes it: a Wait that says no
// is wrong where a Reserve then finds a job.
type waitOp struct{ reserveOp }

func (o waitOp) play(p *pair) {
	params := o.params()
	wait := duly.WaitParams{Namespace: params.Namespace, Queues: params.Queues, Dispatcher: params.Dispatcher}
	var ready [2]bool
	turn := 0
	p.both("wait", func(s side) (_ string, err error) {
		ready[turn], err = s.taker(params.Namespace, params.Dispatcher).Wait(p.ctx, wait)
		turn++
		return "", err
	})
	if n := p.deliver(params); p.err == nil && n > 0 && (!ready[0] || !ready[1]) {
		p.err = fmt.Errorf("wait answered %t (model %t), and then %d jobs were there", ready[0], ready[1], n)
	}
}

// settleOp settles deliveries in one call.
type settleOp struct{ Outcomes []outcomeSpec }

type outcomeSpec struct {
	Which  int // deliveries back from the last one
	Forge  forgery
	As     duly.Settlement
	Delay  time.Duration // negative: absent
	Error  string
	Result int // bytes
}

func (o settleOp) play(p *pair) {
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
		}
		errs, err := s.in(namespace).Settle(p.ctx, namespace, outcomes)
		return tellErrors(errs), err
	})
	for _, spec := range o.Outcomes {
		p.getIssued(p.which(spec.Which))
	}
}

// which is the n-th delivery back from the last one.
func (p *pair) which(n int) issued { return p.issued[max(0, len(p.issued)-1-n)] }

func (p *pair) getIssued(i issued) {
	p.both("get of "+i.id, func(s side) (string, error) {
		info, err := s.in(i.namespace).Get(p.ctx, duly.QueueRef{Namespace: i.namespace, Name: i.queue}, i.id)
		return tellJob(info), err
	})
}

// extendOp extends leases in one call.
type extendOp struct {
	Which []int
	Forge forgery // of the first one
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
		return tellErrors(errs), err
	})
	for _, n := range o.Which {
		p.getIssued(p.which(n))
	}
}

// forgery is a way to spoil a receipt.
type forgery int

// The forgeries. None leaves the receipt as it is.
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
	forgeryKinds // their number
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

// advanceOp lets time pass.
type advanceOp struct{ By time.Duration }

func (o advanceOp) play(p *pair) { p.h.Advance(o.By) }

// setClockOp sets the wall clock.
type setClockOp struct{ By time.Duration }

func (o setClockOp) play(p *pair) { p.h.Clock.Step(o.By) }

// stepOp moves one queue forward.
type stepOp struct{ Place place }

func (o stepOp) play(p *pair) { p.step(o.Place) }

package enginetest

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// pair runs each operation on the engine under test and on the reference model.
type pair struct {
	ctx   context.Context
	h     *Harness
	clock *clock.Fake // clock of the model, which follows the engine's clock
	sides [2]side     // first the engine, then the model
	ids   []string    // own IDs of the script
	made  []madeID
	// begin is the shard at which the model's next Reserve from a queue begins.
	begin map[duly.QueueRef]int
	// issued has all deliveries so far, oldest first.
	issued []issued
	err    error // first difference between engine and model

	// positions has the positions of the messages that the script has published.
	positions []duly.Position
	ticks     tickState
	adapts    bool // whether the engine has adaptive limits
}

// side is the engine or the model.
type side struct {
	in         func(namespace string) contract.Engine
	dispatcher duly.Engine // nil means the engine in
	maintainer contract.Maintainer
	// receipt returns this side's receipt of a delivery.
	receipt func(issued) duly.Receipt
}

// taker returns the engine that workers or dispatchers reserve from.
func (s side) taker(namespace string, dispatcher bool) duly.Engine {
	if dispatcher && s.dispatcher != nil {
		return s.dispatcher
	}
	return s.in(namespace)
}

// madeID is an ID as duly's client creates it.
type madeID struct {
	id   string
	used bool
}

// issued is a delivery with the receipts of both sides.
type issued struct {
	namespace, queue, id string
	engine, model        duly.Receipt
}

// queueSpec selects one of the script's queues.
type queueSpec int

var scriptQueues = [...]duly.QueueRef{
	{Namespace: duly.DefaultNamespace, Name: "q"}, {Namespace: "other", Name: "q"},
	{Namespace: duly.DefaultNamespace, Name: "r"}, {Namespace: duly.DefaultNamespace, Name: "s"},
}

func (p queueSpec) ref() duly.QueueRef { return scriptQueues[p] }

func queueSpecOf(namespace, queue string) queueSpec {
	return queueSpec(slices.Index(scriptQueues[:], duly.QueueRef{Namespace: namespace, Name: queue}))
}

// String returns the queue's namespace and name.
func (p queueSpec) String() string { return p.ref().String() }

// newPair creates a pair of the harness's engine and an empty model.
func newPair(ctx context.Context, h *Harness) (*pair, *model.Engine) {
	c := clock.NewFake()
	p := &pair{ctx: ctx, h: h, clock: c, begin: map[duly.QueueRef]int{}, adapts: adapts(ctx, h.Engine)}
	m := model.New(model.Config{
		Clock: c, MaxBody: scriptMaxBody, MaxQueues: scriptMaxQueues, Shards: h.Shards, OneShard: !h.Sharded, Manual: true,
		First: func(ref duly.QueueRef) (int, bool) { shard, known := p.begin[ref]; return shard, known },
	})
	p.sides = [2]side{
		{in: h.in, dispatcher: h.Dispatcher, maintainer: h.Maintainer,
			receipt: func(i issued) duly.Receipt { return i.engine }},
		{in: func(string) contract.Engine { return m }, maintainer: m,
			receipt: func(i issued) duly.Receipt { return i.model }},
	}
	return p, m
}

// playBoth runs a script and returns the first difference.
func playBoth(ctx context.Context, h *Harness, sc script) (moves map[model.Move]int, err error) {
	p, m := newPair(ctx, h)
	p.name()
	err = p.playAll(sc, lookOp{})
	return m.Moves(), err
}

// playAll runs a script, compares everything that the API shows, and returns the first
// difference.
func (p *pair) playAll(sc script, look operation) (err error) {
	// A panic of the engine is a difference too, so that its script gets shortened.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()

	for i, o := range sc {
		o.play(p)
		p.endPause()
		if p.err != nil {
			return fmt.Errorf("operation %d, %s, at %s:\n%w", i+1, describe(o), p.h.Clock.Now(), p.err)
		}
	}

	look.play(p)
	if p.err == nil {
		p.check()
	}
	return p.err
}

// in returns the engine that serves a namespace.
func (h *Harness) in(namespace string) contract.Engine {
	if h.In != nil && contract.NamespaceOr(namespace) != duly.DefaultNamespace {
		return h.In(namespace)
	}
	return h.Engine
}

// tick sets the model's clock to the time of the engine's.
func (p *pair) tick() { p.clock.Step(p.h.Clock.Now().Sub(p.clock.Now())) }

// both runs f for the engine and the model. It compares their errors and, if there are none, their
// texts.
func (p *pair) both(what string, f func(s side) (text string, err error)) {
	if p.err != nil {
		return
	}
	// A difference ends the comparison, because later differences would only be its consequences.
	p.tick()
	got, engineErr := f(p.sides[0])
	// The model must run at the same time, so an operation must not move the clock.
	if p.h.Clock.Now() != p.clock.Now() {
		p.err = fmt.Errorf("%s moved the clock", what)
		return
	}
	want, wantErr := f(p.sides[1])
	switch code, wantCode := errorText(engineErr), errorText(wantErr); {
	case code != wantCode:
		p.err = fmt.Errorf("%s fails differently:\n engine %s (%v)\n model  %s (%v)", what, code, engineErr, wantCode,
			wantErr)
	case engineErr == nil && got != want:
		p.err = fmt.Errorf("%s differs:\n engine %s\n model  %s", what, got, want)
	}
}

// check requires that Check finds no fault on either side. It compares nothing.
func (p *pair) check() {
	for i, s := range p.sides {
		report, err := s.maintainer.Check(p.ctx, contract.CheckParams{})
		if err != nil || len(report.Faults) > 0 {
			p.err = fmt.Errorf("check of %s returns the faults %+v and the error %v",
				[...]string{"the engine", "the model"}[i], report.Faults, err)
			return
		}
	}
}

// deliver reserves on both sides, compares the deliveries and stores the receipts. The engine may
// choose the shard at which it begins, so the model begins where the engine found a job. The shards
// before it had no job. In a queue from which the engine delivered nothing, the model begins at a
// suspect job, because it may be the reason.
func (p *pair) deliver(params duly.ReserveParams) (n int) {
	if len(params.Queues) > 1 && p.h.Sharded {
		// The model must know the suspects before it reserves.
		p.stepAll(params)
	}
	var got [2][]duly.Delivery
	turn := 0
	p.both("reserve", func(s side) (text string, err error) {
		got[turn], err = s.taker(params.Namespace, params.Dispatcher).Reserve(p.ctx, params)
		if text = deliveriesText(got[turn]); turn == 0 {
			p.beginWith(got[0])
		}
		turn++
		return text, err
	})

	// Only the engine's choice of shards is copied. The deliveries are compared.
	if p.err != nil {
		return 0
	}
	for i, d := range got[0] {
		p.issued = append(p.issued, issued{d.Namespace, d.Queue, d.ID, d.Receipt, got[1][i].Receipt})
	}

	if n = len(got[0]); n == params.Max || n > 0 && p.suspects(params) {
		// The engine may have stepped only some of the shards, so all of them are stepped on both
		// sides.
		p.stepAll(params)
	}
	return n
}

// suspects reports whether a suspect job may have ended a Reserve early: it was delivered, or
// waits in one of the queues.
func (p *pair) suspects(params duly.ReserveParams) bool {
	for _, queue := range params.Queues {
		ref := duly.QueueRef{Namespace: params.Namespace, Name: queue}
		for _, state := range []duly.State{duly.StateReady, duly.StateLeased} {
			page, err := p.sides[1].in(ref.Namespace).List(p.ctx, ref, duly.ListParams{State: state})
			if err != nil {
				p.err = fmt.Errorf("list of the model: %w", err)
			}
			for _, info := range page.Jobs {
				if contract.Suspect(&info.Job, info.Failures, info.Stalls) {
					return true
				}
			}
		}
	}
	return false
}

// stepAll steps the queues of a Reserve.
func (p *pair) stepAll(params duly.ReserveParams) {
	for _, queue := range params.Queues {
		p.step(queueSpecOf(params.Namespace, queue))
	}
}

func (p *pair) beginWith(ds []duly.Delivery) {
	clear(p.begin)
	for _, d := range ds {
		// The first delivery of a queue comes from the shard at which the engine began.
		parts, _ := contract.ParseReceipt(d.Receipt)
		ref := duly.QueueRef{Namespace: d.Namespace, Name: d.Queue}
		if _, known := p.begin[ref]; !known {
			p.begin[ref] = parts.Shard
		}
	}
}

// step steps a queue on both sides until nothing more is due.
func (p *pair) step(at queueSpec) {
	p.both("step", func(s side) (string, error) {
		for range 1000 {
			if more, err := s.maintainer.Step(p.ctx, at.ref()); !more || err != nil {
				return "", err
			}
		}
		return "more than 1000 steps", nil
	})
	p.noteHeld(at.ref())
}

// get compares one job, whose state depends on the clock.
func (p *pair) get(at queueSpec, id string) {
	p.both(fmt.Sprintf("get %s of %s", id, at), func(s side) (string, error) {
		info, err := s.in(at.ref().Namespace).Get(p.ctx, at.ref(), id)
		return infoText(info), err
	})
	p.find(at.ref().Namespace, id)
	p.explain(at, id)
}

// explain compares what holds one job back.
func (p *pair) explain(at queueSpec, id string) {
	p.both(fmt.Sprintf("explain %s of %s", id, at), func(s side) (string, error) {
		x, err := contract.ExplainerOf(s.in(at.ref().Namespace)).Explain(p.ctx, at.ref(), id)
		return explanationText(x), err
	})
}

// find compares the jobs with an ID in all queues of a namespace.
func (p *pair) find(namespace, id string) {
	p.both(fmt.Sprintf("find %s in %s", id, namespace), func(s side) (string, error) {
		found, err := contract.FinderOf(s.in(namespace)).Find(p.ctx, namespace, id)
		return fmt.Sprint(infosText(found.Jobs), found.More), err
	})
}

func (p *pair) peek(at queueSpec) {
	p.both(fmt.Sprintf("peek at %s", at), func(s side) (string, error) {
		info, err := s.in(at.ref().Namespace).Peek(p.ctx, at.ref())
		return infoText(info), err
	})
}

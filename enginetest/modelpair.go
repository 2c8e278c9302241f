package enginetest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/model"
)

// pair is the engine under test and the reference model, side by side.
type pair struct {
	ctx   context.Context
	h     *Harness
	clock *clock.Fake // the model's, which follows the engine's
	sides [2]side     // the engine's and the model's
	ids   []string    // the own ones
	made  []madeID
	// begin is the shard that the model's next Reserve from a queue begins at.
	begin map[duly.QueueRef]int
	// issued is every delivery so far, the oldest first.
	issued []issued
	err    error // the first difference

	// positions are those of the messages that a script published.
	positions []duly.Position
}

// side is one of the two.
type side struct {
	in         func(namespace string) contract.Engine
	dispatcher duly.Engine // nil: in
	maintainer contract.Maintainer
	// receipt is this side's handle of a delivery.
	receipt func(issued) duly.Receipt
}

// taker is the engine that callers of that kind take jobs from.
func (s side) taker(namespace string, dispatcher bool) duly.Engine {
	if dispatcher && s.dispatcher != nil {
		return s.dispatcher
	}
	return s.in(namespace)
}

// madeID is an ID that duly's client would have made.
type madeID struct {
	id   string
	used bool
}

// issued is a delivery of both sides.
type issued struct {
	namespace, queue, id string
	engine, model        duly.Receipt
}

// place is a queue that the scripts play in.
type place int

var places = [...]duly.QueueRef{
	{Namespace: duly.DefaultNamespace, Name: "q"}, {Namespace: "other", Name: "q"},
	{Namespace: duly.DefaultNamespace, Name: "r"}, {Namespace: duly.DefaultNamespace, Name: "s"},
}

func (p place) ref() duly.QueueRef { return places[p] }

func placeOf(namespace, queue string) place {
	return place(slices.Index(places[:], duly.QueueRef{Namespace: namespace, Name: queue}))
}

// String names the place for people.
func (p place) String() string { return p.ref().String() }

// newPair puts the engine and an empty model side by side.
func newPair(ctx context.Context, h *Harness) (*pair, *model.Engine) {
	c := clock.NewFake()
	p := &pair{ctx: ctx, h: h, clock: c, begin: map[duly.QueueRef]int{}}
	m := model.New(model.Config{
		Clock: c, MaxBody: scriptMaxBody, MaxQueues: scriptMaxQueues, Shards: h.Shards, OneShard: !h.Sharded, Manual: true,
		First: func(ref duly.QueueRef) (int, bool) { shard, known := p.begin[ref]; return shard, known },
	})
	p.sides = [2]side{
		{in: h.in, dispatcher: h.Dispatcher, maintainer: h.Maintainer, receipt: func(i issued) duly.Receipt { return i.engine }},
		{in: func(string) contract.Engine { return m }, maintainer: m, receipt: func(i issued) duly.Receipt { return i.model }},
	}
	return p, m
}

// playBoth plays a script and returns the first difference.
func playBoth(ctx context.Context, h *Harness, sc script) (moves map[model.Move]int, err error) {
	p, m := newPair(ctx, h)
	p.name()
	err = p.playAll(sc, lookOp{})
	return m.Moves(), err
}

// playAll plays a script, looks at everything that can be seen, and returns the first
// difference.
func (p *pair) playAll(sc script, look operation) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	for i, o := range sc {
		o.play(p)
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

// in is the engine in a namespace.
func (h *Harness) in(namespace string) contract.Engine {
	if h.In != nil && contract.NamespaceOr(namespace) != duly.DefaultNamespace {
		return h.In(namespace)
	}
	return h.Engine
}

// tick sets the model's clock to the engine's.
func (p *pair) tick() { p.clock.Step(p.h.Clock.Now().Sub(p.clock.Now())) }

// both does the same on both sides and compares the errors, and if there are
// none what f tells of the results.
func (p *pair) both(what string, f func(s side) (told string, err error)) {
	if p.err != nil {
		return
	}
	p.tick()
	got, engineErr := f(p.sides[0])
	if p.h.Clock.Now() != p.clock.Now() {
		p.err = fmt.Errorf("%s moved the clock", what)
		return
	}
	want, wantErr := f(p.sides[1])
	switch code, wantCode := tellError(engineErr), tellError(wantErr); {
	case code != wantCode:
		p.err = fmt.Errorf("%s fails differently:\n engine %s (%v)\n model  %s (%v)", what, code, engineErr, wantCode, wantErr)
	case engineErr == nil && got != want:
		p.err = fmt.Errorf("%s differs:\n engine %s\n model  %s", what, got, want)
	}
}

// check wants the engine's Check to find nothing.
func (p *pair) check() {
	for i, s := range p.sides {
		report, err := s.maintainer.Check(p.ctx, contract.CheckParams{})
		if err != nil || len(report.Faults) > 0 {
			p.err = fmt.Errorf("check of %s finds %+v, %w", [...]string{"the engine", "the model"}[i], report.Faults, errors.Join(err))
			return
		}
	}
}

// deliver reserves on both sides, compares, and remembers the receipts. Which
// shard of a queue is asked first is the engine's to choose, so the model begins
// where the engine found something; before that there was nothing. Of a queue
// that gave the engine nothing it begins at a suspect, which may be why.
func (p *pair) deliver(params duly.ReserveParams) (n int) {
	if len(params.Queues) > 1 && p.h.Sharded {
		p.stepAll(params) // so that the model knows the suspects
	}
	var got [2][]duly.Delivery
	turn := 0
	p.both("reserve", func(s side) (told string, err error) {
		got[turn], err = s.taker(params.Namespace, params.Dispatcher).Reserve(p.ctx, params)
		if told = tellDeliveries(got[turn]); turn == 0 {
			p.beginWith(got[0])
		}
		turn++
		return told, err
	})
	if p.err != nil {
		return 0
	}
	for i, d := range got[0] {
		p.issued = append(p.issued, issued{d.Namespace, d.Queue, d.ID, d.Receipt, got[1][i].Receipt})
	}
	if n = len(got[0]); n == params.Max || n > 0 && p.suspects(params) {
		// Some shards were asked and moved forward, others not.
		p.stepAll(params)
	}
	return n
}

// suspects reports whether a suspect may have ended a Reserve: one was delivered
// by it, or waits in one of its queues.
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
		p.step(placeOf(params.Namespace, queue))
	}
}

func (p *pair) beginWith(ds []duly.Delivery) {
	clear(p.begin)
	for _, d := range ds {
		parts, _ := contract.ParseReceipt(d.Receipt)
		ref := duly.QueueRef{Namespace: d.Namespace, Name: d.Queue}
		if _, known := p.begin[ref]; !known {
			p.begin[ref] = parts.Shard
		}
	}
}

// step moves a queue forward on both sides as far as it goes.
func (p *pair) step(at place) {
	p.both("step", func(s side) (string, error) {
		for range 1000 {
			if more, err := s.maintainer.Step(p.ctx, at.ref()); !more || err != nil {
				return "", err
			}
		}
		return "steps that have no end", nil
	})
}

// get compares one job as it stands by the clock.
func (p *pair) get(at place, id string) {
	p.both(fmt.Sprintf("get %s of %s", id, at), func(s side) (string, error) {
		info, err := s.in(at.ref().Namespace).Get(p.ctx, at.ref(), id)
		return tellJob(info), err
	})
}

func (p *pair) peek(at place) {
	p.both(fmt.Sprintf("peek at %s", at), func(s side) (string, error) {
		info, err := s.in(at.ref().Namespace).Peek(p.ctx, at.ref())
		return tellJob(info), err
	})
}

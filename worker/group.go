package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// From creates the handled group and its topic, if they do not exist. place is where a new
// group begins: "start", "end", a time or a position, see [duly.From].
//
// Run waits until the groups exist. If a group disappears later, because the store was
// reset or the group was deleted, Run creates it again. With "start" the group begins at
// the start, else a minute before the worker last saw it, so that it misses nothing. It
// may then see messages again.
func From(place duly.From) HandlerOption {
	return func(r *registration) { r.from, r.fromSet = place, true }
}

// seenMargin is the allowed difference between the clocks of a worker and its engine.
const seenMargin = time.Minute

func (r *registration) validateFrom(f *contract.BadFields) {
	if !r.fromSet {
		return
	}
	topic, _, ok := duly.QueueRef{Name: r.queue}.Group()
	if !ok {
		f.Add("from", "of queue %s is set, but it is not a group TOPIC@GROUP; leave it out", r.queue)
		return
	}
	p, err := contract.ParseFrom(r.from)
	if err == nil && p.Kind == contract.KindNext {
		_, err = contract.ParseFromIn(r.from, topic, false)
	}
	f.Take(err)
}

// groups creates the groups of a worker that have the option From.
type groups struct {
	*session
	topics contract.Topics
	routes []*route
	// seen is when all of them last existed, on the worker's clock.
	seen time.Time
}

// newGroups returns nil for a worker that creates no group.
func newGroups(s *session) *groups {
	g := &groups{session: s}
	for _, r := range s.routes {
		if r.fromSet {
			g.routes = append(g.routes, r)
		}
	}
	if g.routes == nil {
		return nil
	}
	g.topics, _ = s.engine.(contract.Topics) // validate has checked that it has topics
	return g
}

// create creates every missing group, and retries until all exist or stop ends. It
// returns an error that a retry cannot fix.
func (g *groups) create(stop context.Context) error {
	for failures := 0; stop.Err() == nil; {
		err := g.createAll(stop)
		if err == nil || stop.Err() != nil {
			return nil
		}
		if fatal(err) || errors.Is(err, duly.ErrConflict) {
			return err
		}
		failures++
		if failures == 1 {
			g.log.Warn("a group can't be created yet", "error", err)
		}
		g.store.rest(stop, failures, err)
	}
	return nil
}

func (g *groups) createAll(stop context.Context) error {
	for _, r := range g.routes {
		from := g.place(r)
		existed, err := g.createOne(stop, r, from)
		if from != r.from && errors.Is(err, duly.ErrInvalid) { // the engine's clock is far behind
			from = duly.FromStart
			existed, err = g.createOne(stop, r, from)
		}
		if err != nil {
			return err
		}
		if !existed {
			g.log.Info("group created", "group", r.queue, "from", string(from))
		}
	}
	g.here()
	return nil
}

func (g *groups) createOne(stop context.Context, r *route, from duly.From) (existed bool, err error) {
	err = g.store.call(stop, opCreate, g.cfg.CallTimeout, func(ctx context.Context) (err error) {
		existed, err = g.topics.CreateGroup(ctx, duly.QueueRef{Namespace: g.cfg.Namespace, Name: r.queue}, from)
		return err
	})
	return existed, err
}

// place returns the place where a group begins that is created now.
func (g *groups) place(r *route) duly.From {
	if g.seen.IsZero() || r.from == "" || r.from == duly.FromStart {
		return r.from
	}
	return duly.FromTime(g.seen.Add(-seenMargin))
}

// here records that all groups exist. It may be called on nil.
func (g *groups) here() {
	if g != nil {
		g.seen = g.clock.Now()
	}
}

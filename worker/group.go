package worker

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// From creates the handled group and its topic, if they do not exist. place is the start of a new
// group: "start", "end", a time or a position, see [duly.From].
//
// Run waits until the groups exist. If a group disappears later, because the store was reset or the
// group was deleted, Run creates it again. With "start" the new group begins at the start.
// Otherwise it begins a minute before the time at which the worker last saw the group. So it misses
// no message, but may get messages again.
func From(place duly.From) HandlerOption {
	return func(r *registration) { r.from, r.fromSet = place, true }
}

// clockMargin is the allowed difference between the clocks of a worker and its engine.
const clockMargin = time.Minute

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

// groupCreator creates the groups of a worker that have the option From.
type groupCreator struct {
	*run
	topics contract.Topics
	routes []*route
	// seen is the last time at which all these groups existed, on the worker's clock.
	seen time.Time
}

// newGroupCreator returns nil for a worker that creates no group.
func newGroupCreator(r *run) *groupCreator {
	g := &groupCreator{run: r}
	for _, route := range r.routes {
		if route.fromSet {
			g.routes = append(g.routes, route)
		}
	}
	if g.routes == nil {
		return nil
	}
	g.topics, _ = r.engine.(contract.Topics) // validate has checked that the engine has topics
	return g
}

// create creates every missing group, and retries until all exist or stop ends. It
// returns an error that a retry cannot fix.
func (g *groupCreator) create(stop context.Context) error {
	for failures := 0; stop.Err() == nil; {
		err := g.createAll(stop)
		if err == nil || stop.Err() != nil {
			return nil
		}
		if fatal(err) || errors.Is(err, duly.ErrConflict) {
			return err
		}

		failures++
		// A missing topic is logged once, because it may be missing for long.
		if failures == 1 {
			g.log.Warn("a group can't be created yet; the worker retries", "error", err)
		}
		g.health.pause(stop, failures, err)
	}
	return nil
}

func (g *groupCreator) createAll(stop context.Context) error {
	for _, route := range g.routes {
		from := g.startOf(route)
		existed, err := g.createOne(stop, route, from)
		// The engine refuses a time in its future, so its clock is far behind that of the worker.
		if from != route.from && errors.Is(err, duly.ErrInvalid) {
			from = duly.FromStart
			existed, err = g.createOne(stop, route, from)
		}
		if err != nil {
			return err
		}
		if !existed {
			g.log.Info("group created", "group", route.queue, "from", string(from))
		}
	}
	g.exist()
	return nil
}

func (g *groupCreator) createOne(stop context.Context, route *route, from duly.From) (existed bool, err error) {
	group := duly.QueueRef{Namespace: g.cfg.Namespace, Name: route.queue}
	err = g.health.call(stop, opCreate, g.cfg.CallTimeout, func(ctx context.Context) (err error) {
		existed, err = g.topics.CreateGroup(ctx, group, from)
		return err
	})
	return existed, err
}

// startOf returns the start of a group that is created now.
func (g *groupCreator) startOf(route *route) duly.From {
	if g.seen.IsZero() || route.from == "" || route.from == duly.FromStart {
		return route.from
	}
	return duly.FromTime(g.seen.Add(-clockMargin))
}

// exist records that all groups exist now. It does nothing on nil.
func (g *groupCreator) exist() {
	if g != nil {
		g.seen = g.clock.Now()
	}
}

package redisengine

import (
	"context"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/redisengine/internal/link"
)

// mostHolding bounds the shards of which one script call tells whether they hold
// jobs, mostOverdue those of which it tells whether something is overdue.
const (
	mostHolding = 250
	mostOverdue = 100
)

// The keys of one shard that these scripts read.
var (
	holdingKeys = []string{"config", "records"}
	overdueKeys = []string{"config", "delayed", "leased", "expiry", "dead", "done"}
)

// sweeps lets one sweep run at a time, and counts them.
type sweeps struct {
	turn chan struct{} // holds whoever sweeps
	n    uint64
}

// Sweep implements duly.Maintainer. It asks of some hundred shards at a time
// which of them hold jobs, of those in which something is overdue, and steps
// these. What goes wrong with one of them does not keep it from the others. It
// also notices that the store was reset while nobody called, and removes
// libraries that no process uses any more.
func (e *Engine) Sweep(ctx context.Context) error {
	if err := e.alive(ctx); err != nil {
		return err
	}
	select {
	case e.sweeps.turn <- struct{}{}:
		defer func() { <-e.sweeps.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	e.sweeps.n++
	e.queues.rest()
	hasty, cancel := link.Hasty(ctx)
	defer cancel()
	s := &sweep{e: e, n: e.sweeps.n, hasty: hasty}
	err := s.run(ctx)
	if e.libraries.isDue() {
		e.libraries.tidy(s.pace(ctx))
	}
	return err
}

// sweep is one Sweep under way.
type sweep struct {
	e      *Engine
	n      uint64
	seen   []string // the namespaces
	partly bool     // some queues were not met
	failed error    // the first thing that went wrong
	// hasty is the context once something was not reached: only the first such
	// call is repeated as long as others are, or the namespaces on a node that is
	// down would keep the rest waiting one after the other.
	hasty   context.Context
	hurries bool
}

// pace is the context for the next calls.
func (s *sweep) pace(ctx context.Context) context.Context {
	if s.hurries {
		return s.hasty
	}
	return ctx
}

func (s *sweep) run(ctx context.Context) error {
	e := s.e
	err := e.eachPage(ctx, e.namespacesKey(), func(namespaces []string) error {
		return s.namespaces(ctx, slices.DeleteFunc(namespaces, noNamespace))
	})
	s.missed(err)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.askAll(s.pace(ctx), slices.Clone(s.seen)); err != nil {
		s.fail(err)
	}
	if err == nil {
		s.missed(s.unlisted(ctx))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.partly {
		e.briefs.drop(s.n) // the queues that are gone
	}
	return s.failed
}

// namespaces sweeps some namespaces.
func (s *sweep) namespaces(ctx context.Context, namespaces []string) error {
	s.seen = append(s.seen, namespaces...)
	for _, namespace := range namespaces {
		s.missed(s.e.eachPage(s.pace(ctx), s.e.namesKey(namespace), func(names []string) error { return s.page(s.pace(ctx), namespace, names) }))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// unlisted enters the namespaces into their list that this process knows and that
// it did not tell of, and sweeps them as well: the list may be lost while they are
// not, for in a cluster it stands on a node of its own, and nobody else would look
// at them. One whose mark is gone is lost itself. As long as the list is whole this
// sends nothing.
func (s *sweep) unlisted(ctx context.Context) error {
	e := s.e
	for some := range slices.Chunk(e.births.others(s.seen), duly.MaxBatch) {
		entered, err := e.enlist(s.pace(ctx), some...)
		if err != nil {
			return err
		}
		if entered > 0 { // else they were made while the list was read
			e.cfg.Logger.Error("the list of namespaces has lost some that are in use; they have been entered again", "namespaces", entered)
		}
		if err := s.namespaces(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// missed notes why some queues were not met, if they were not.
func (s *sweep) missed(err error) {
	if err != nil {
		s.partly = true
		s.fail(err)
	}
}

// page sweeps some queues of a namespace.
func (s *sweep) page(ctx context.Context, namespace string, names []string) error {
	names = slices.DeleteFunc(names, noQueue) // Check tells of them
	queues, err := s.e.recall(ctx, namespace, names, func(q *queue, err error) {
		if err == nil {
			err = s.e.remove(ctx, q)
		}
		if err != nil {
			s.fail(err)
		}
	})
	if err != nil {
		return err
	}
	ref := func(i int) duly.QueueRef { return duly.QueueRef{Namespace: namespace, Name: names[i]} }
	holding := &bundle{e: s.e, refs: ref, about: scriptHolding, keys: holdingKeys, most: mostHolding, gentle: s.hurries}
	for i, q := range queues {
		if q == nil {
			continue
		}
		q.swept = s.n
		for k := range q.limits {
			holding.add(spot{i, k, q}, q.version)
		}
	}
	overdue := &bundle{e: s.e, refs: ref, about: scriptOverdue, keys: overdueKeys, most: mostOverdue, first: []string{s.e.clock()}, gentle: s.hurries}
	for _, at := range holding.lone() { // in a cluster: one question is as much as the other
		overdue.add(at, at.version, at.limits[at.shard])
	}
	err = holding.run(ctx, s.heed(ctx, ref, func(at spot, _ bool) error {
		overdue.add(at, at.version, at.limits[at.shard])
		return nil
	}))
	if err != nil {
		return err
	}
	return overdue.run(s.pace(ctx), s.heed(ctx, ref, func(at spot, other bool) error {
		if other {
			s.e.briefs.forget(ref(at.queue), at.brief)
		}
		return s.step(ctx, part{ref(at.queue), at.shard})
	}))
}

// heed hands over the shards whose places a call has answered; other says that
// one has another configuration. Where a call was refused because of what one of
// its shards holds, each of them is stepped as it is.
func (s *sweep) heed(ctx context.Context, ref func(int) duly.QueueRef, f func(at spot, other bool) error) func([]spot, *rueidis.RedisMessage, error) error {
	return func(spots []spot, answer *rueidis.RedisMessage, err error) error {
		if err != nil && duly.CodeOf(err) != duly.CodeCorrupt {
			s.fail(err)
			return nil
		}
		if err != nil {
			for _, at := range spots {
				if err := s.step(ctx, part{ref(at.queue), at.shard}); err != nil {
					return err
				}
			}
			return nil
		}
		places := elements(answer)
		for i := range places {
			place := integer(&places[i])
			if err := f(spots[max(place, -place)-1], place < 0); err != nil {
				return err
			}
		}
		return nil
	}
}

// step steps a shard, as it is now.
func (s *sweep) step(ctx context.Context, at part) error {
	for {
		more, err := s.e.stepPart(s.pace(ctx), at)
		if err != nil {
			s.fail(err)
			return ctx.Err()
		}
		if !more {
			return nil
		}
	}
}

func (s *sweep) fail(err error) {
	if s.failed == nil {
		s.failed = err
	}
	s.hurries = s.hurries || duly.CodeOf(err) == duly.CodeUnavailable
}

// stepPart makes one step in one shard.
func (e *Engine) stepPart(ctx context.Context, at part) (more bool, err error) {
	_, err = e.withShard(ctx, at, func(q *queue, s *shard) error {
		r, err := e.call(ctx, q, s, scriptStep, s.limits)
		if err != nil {
			e.heal(at, err)
		}
		more = err == nil && integer(&r.rest[0]) == 1
		return err
	})
	return more, err
}

// part is one shard, by its place in a queue that may be made anew meanwhile.
type part struct {
	ref   duly.QueueRef
	index int
}

// withShard does something with a shard, unless it is no longer there.
func (e *Engine) withShard(ctx context.Context, at part, f func(q *queue, s *shard) error) (there bool, err error) {
	err = e.with(ctx, at.ref, func(q *queue) error {
		s := q.shard(at.index)
		if there = s != nil; !there {
			return nil
		}
		return f(q, s)
	})
	return there, err
}

// eachPage does something with every page of a list of names, of which some may
// be none.
func (e *Engine) eachPage(ctx context.Context, key string, f func(names []string) error) error {
	for after := ""; ; {
		names, err := e.members(ctx, key, after, duly.MaxBatch)
		if err != nil {
			return err
		}
		full := len(names) == duly.MaxBatch
		if full {
			after = names[len(names)-1]
		}
		if err := f(names); err != nil || !full {
			return err
		}
	}
}

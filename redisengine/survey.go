package redisengine

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

var _ duly.Surveyor = (*Engine)(nil)

// mostIdle bounds the shards of which one script call tells what they have
// counted.
const mostIdle = 100

// idleKeys are the keys of one shard that idle reads.
var idleKeys = []string{"config", "records", "tally"}

// Survey implements duly.Surveyor. It asks of a hundred shards at a time what
// they have counted, which is all there is to be told of those that hold no jobs,
// and makes a call of Stats for each of the others, some on their way together.
// What one answer does not tell is left to Stats: the shards have another
// configuration, steps have to come first, very many priorities are in use, or
// something else has written there.
func (e *Engine) Survey(ctx context.Context, namespace string, p duly.PageParams) (page duly.SurveyPage, err error) {
	names, err := e.Queues(ctx, namespace, p)
	if err != nil {
		return page, err
	}
	s := &survey{e: e, namespace: duly.NamespaceOr(namespace), queues: make([]duly.QueueStats, len(names.Names))}
	for i, name := range names.Names {
		s.queues[i].Name = name
	}
	queues, err := e.recall(ctx, s.namespace, names.Names, func(*queue, error) {})
	if err != nil {
		return page, err
	}
	if err := s.ask(ctx, queues); err != nil {
		return page, err
	}
	if err := s.askAlone(ctx); err != nil {
		return page, err
	}
	for i := range s.queues {
		if s.queues[i].Err != nil {
			s.queues[i].Stats, s.queues[i].Throttle = duly.Stats{}, duly.Throttle{} // not the half of it
		}
	}
	return duly.SurveyPage{Queues: s.queues, Next: names.Next}, nil
}

// survey is a page of one under way.
type survey struct {
	e         *Engine
	namespace string
	queues    []duly.QueueStats
	alone     []int // the queues that are left to Stats
}

func (s *survey) ref(i int) duly.QueueRef {
	return duly.QueueRef{Namespace: s.namespace, Name: s.queues[i].Name}
}

func (s *survey) ask(ctx context.Context, queues []*brief) error {
	idle := &bundle{e: s.e, refs: s.ref, about: scriptIdle, keys: idleKeys, most: mostIdle, gentle: true}
	for i, q := range queues {
		if q == nil {
			s.leave(i)
			continue
		}
		s.queues[i].Throttle = q.throttle
		for k := range q.limits {
			idle.add(spot{i, k, q}, q.version)
		}
	}
	busy := &bundle{e: s.e, refs: s.ref, about: scriptStats, keys: shardKeys[:], most: 1, gentle: true}
	add := func(at spot) { busy.add(at, s.e.clock(), at.version, "") }
	for _, at := range idle.lone() { // in a cluster: one question is as much as the other
		add(at)
	}
	err := idle.run(ctx, func(spots []spot, answer *rueidis.RedisMessage, err error) error {
		if err != nil {
			s.refused(spots, err)
			return nil
		}
		counted := elements(answer)
		for i, at := range spots {
			if counted[i+1].IsNil() {
				add(at)
			} else {
				addCounters(&s.queues[at.queue].Stats.Counters, elements(&counted[0]), elements(&counted[i+1]))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return busy.run(ctx, func(spots []spot, answer *rueidis.RedisMessage, err error) error {
		at := spots[0]
		items := elements(answer)
		switch {
		case err != nil:
			s.refused(spots, err)
		case len(items) > 1 && text(&items[0]) == "ok" && text(&items[6]) == "":
			addStats(&s.queues[at.queue].Stats, items[1:])
		default:
			s.e.briefs.forget(s.ref(at.queue), at.brief)
			s.leave(at.queue)
		}
		return nil
	})
}

// refused is for a call that has failed. Stats would ask again and again where
// nobody answers.
func (s *survey) refused(spots []spot, err error) {
	for _, at := range spots {
		if errors.Is(err, duly.ErrUnavailable) {
			s.queues[at.queue].Err = err
		} else {
			s.leave(at.queue)
		}
	}
}

func (s *survey) leave(queue int) { s.alone = append(s.alone, queue) }

// askAlone asks Stats for the queues that are left to it.
func (s *survey) askAlone(ctx context.Context) error {
	slices.Sort(s.alone)
	for _, i := range slices.Compact(s.alone) {
		q := &s.queues[i]
		if q.Err != nil {
			continue
		}
		if q.Stats, q.Throttle, q.Err = s.e.stats(ctx, s.ref(i)); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

package model

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Seek implements contract.TopicOperator.
func (e *Engine) Seek(ctx context.Context, ref duly.QueueRef, to duly.From) (r contract.SeekResult, err error) {
	if err := contract.ValidateGroup(ref); err != nil {
		return r, err
	}
	topicRef, _, _ := ref.Normal().Group()
	parts, err := contract.ParseFromIn(to, topicRef, false)
	if err != nil {
		return r, err
	}
	q, err := e.beginOn(ctx, ref)
	if err != nil {
		return r, err
	}
	defer e.end()

	t, now := e.now()
	places, err := q.group.topic.places(to, parts, t)
	if err != nil {
		return r, err
	}

	for i, s := range q.shards {
		skipped, replayed := s.seek(max(places[i].wanted, s.reader.log.first()) - 1)
		r.Skipped += skipped
		r.Replayed += replayed
		r.Clipped = r.Clipped || places[i].clipped
		s.reader.log.noteHolder(now)
	}
	e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name})
	return r, nil
}

// seek gives up every held message and sets the cursor.
func (s *shard) seek(cursor uint64) (skipped, replayed int64) {
	skipped = int64(s.held())
	for _, state := range []duly.State{duly.StateDelayed, duly.StateReady, duly.StateBlocked, duly.StateLeased} {
		for _, j := range firstOf(s.sets[state].all(), s.size(state)) {
			s.giveUp(j)
		}
	}
	clear(s.heads)

	before := s.lag()
	s.reader.cursor = cursor
	if moved := s.lag() - before; moved > 0 {
		replayed = moved
	} else {
		skipped -= moved
	}
	s.reader.stats.Skipped += skipped
	s.reader.stats.Replayed += replayed
	return skipped, replayed
}

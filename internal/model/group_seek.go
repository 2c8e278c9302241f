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

	// The positions in all shards are found before a cursor moves, so an invalid target changes
	// nothing.
	places, err := q.group.topic.places(to, parts, t)
	if err != nil {
		return r, err
	}

	for i, s := range q.shards {
		// A target that was trimmed away becomes the oldest stored message.
		skipped, replayed := s.seek(now, max(places[i].wanted, s.reader.log.first())-1)
		r.Skipped += skipped
		r.Replayed += replayed
		r.Clipped = r.Clipped || places[i].clipped
		s.reader.log.noteHolder(now)
	}

	// The receipts of all held messages become invalid, so their workers must check their leases.
	e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name})
	return r, nil
}

// seek gives up every held message and sets the cursor.
func (s *shard) seek(now int64, cursor uint64) (skipped, replayed int64) {
	skipped = int64(s.held())

	// Dead copies survive a Seek, because they do not depend on the log (C12.111).
	for _, state := range []duly.State{duly.StateDelayed, duly.StateReady, duly.StateBlocked, duly.StateLeased} {
		for _, j := range firstOf(s.sets[state].all(), s.size(state)) {
			// firstOf copies the jobs first, because giveUp changes the set.
			s.probeLeft(j, now)
			s.giveUp(j)
		}
	}

	// No held message is left, so no key is busy.
	clear(s.heads)

	// A Seek that raises the lag replays as many messages. A Seek that lowers it skips as many. With
	// these numbers, the counters Entered and Replayed together still equal the sum of the other
	// counters (C12.154).
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

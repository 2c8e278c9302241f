package sqliteengine

import (
	"context"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// makeTopic returns a topic and creates it if necessary. It returns ErrFull if the
// namespace has too many queues, and ErrConflict if a queue has the name.
func (t *tx) makeTopic(ref duly.QueueRef) (*queue, error) {
	switch q := t.queue(ref); {
	case q == nil:
		q = &queue{ref: ref, kind: kindTopic, cfg: contract.DefaultQueueConfig(), log: newTopicLog(ref)}
		return q, t.addQueue(q)
	case q.kind != kindTopic:
		return nil, contract.IsQueue(ref)
	default:
		return q, nil
	}
}

// topic returns the transaction's draft of a topic. It returns ErrNotFound for an unknown one.
func (t *tx) topic(ref duly.QueueRef) (*queue, error) {
	q := t.queue(ref)
	if q == nil || q.kind != kindTopic {
		return nil, contract.NoTopic(ref)
	}
	return q, nil
}

// onTopic runs an operation on one topic.
func (e *Engine) onTopic(ctx context.Context, ref duly.QueueRef, n spaceClass, run func(t *tx, q *queue) error) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}
	return e.changeWithSpace(ctx, n, func(t *tx) error {
		q, err := t.topic(ref.Normal())
		if err != nil {
			return err
		}
		return run(t, q)
	})
}

// Topics implements contract.TopicOperator.
func (e *Engine) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	return e.namePage(ctx, p, "topic_names", contract.NamespaceOr(namespace))
}

// ConfigureTopic implements contract.TopicOperator.
func (e *Engine) ConfigureTopic(ctx context.Context, ref duly.QueueRef, patch duly.TopicConfig) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}
	if err := contract.ValidateTopicConfig(patch); err != nil {
		return err
	}
	if patch.Shards > 1 {
		return contract.Errorf(duly.CodeUnsupported, "this engine supports only one shard per topic; omit shards")
	}
	return e.changeWithSpace(ctx, spaceLarge, func(t *tx) error {
		q, err := t.makeTopic(ref.Normal())
		if err != nil {
			return err
		}
		q.log.cfg, q.cfgDirty = contract.PatchTopicConfig(q.log.cfg, patch), true
		return nil
	})
}

// DestroyTopic implements contract.TopicOperator. The topic and its groups disappear
// at once, and maintenance deletes their rows.
func (e *Engine) DestroyTopic(ctx context.Context, ref duly.QueueRef) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}

	var groups []duly.QueueRef
	err := e.change(ctx, func(t *tx) error {
		groups = nil
		q := t.queue(ref.Normal())
		if q == nil || q.kind != kindTopic {
			return nil
		}
		groups = q.log.groups
		for _, group := range groups {
			if g := t.queue(group); g != nil {
				if err := t.destroy(g); err != nil {
					return err
				}
			}
		}
		return t.destroy(q)
	})

	if err != nil {
		return err
	}
	for _, group := range groups {
		e.cancels.Publish(group.Namespace, contract.Canceled{Queue: group.Name})
	}
	return nil
}

// Topic implements contract.TopicOperator.
func (e *Engine) Topic(ctx context.Context, ref duly.QueueRef) (info duly.TopicInfo, err error) {
	err = e.onTopicSnapshot(ctx, ref, func(t *tx, q *queue) error {
		info.Config = q.log.cfg
		info.Stats, err = t.topicStats(q)
		return err
	})
	return info, err
}

// onTopicSnapshot runs f on a consistent snapshot of a topic.
func (e *Engine) onTopicSnapshot(ctx context.Context, ref duly.QueueRef, f func(t *tx, q *queue) error) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}
	ref = ref.Normal()
	return e.read(ctx, func(c *conn) error {
		t, q, err := e.findQueue(c, ref)
		if err != nil {
			return err
		}
		if q == nil || q.kind != kindTopic {
			return contract.NoTopic(ref)
		}
		return f(t, q)
	})
}

// topicStats returns the sizes and counters of a topic.
func (t *tx) topicStats(q *queue) (s duly.TopicStats, err error) {
	n := &q.log.n
	s = duly.TopicStats{
		Messages: n.messages(), Bytes: n.bytes() + n.delayedBytes, Delayed: n.delayed,
		Published: n.published, Exists: n.existing, Entered: n.last, Canceled: n.canceled,
		Trimmed: n.trimmed, Dropped: n.dropped, Forgotten: n.forgotten,
	}

	if n.messages() > 0 {
		first, err := t.messageAt(q, n.first)
		if err != nil {
			return s, err
		}
		s.First, s.Last = q.log.position(first.ordinal, first.ms), q.log.position(n.last, n.lastMs)
	}

	next, ok, err := t.integer(t.stmt("first_delayed").Int(1, q.id))
	if ok {
		s.NextDue = clock.FromMilli(next)
	}
	if err == nil {
		s.Floors, err = t.floors(q)
	}
	return s, err
}

// logPlace is a place in a log.
type logPlace struct{ ordinal, ms, entered int64 }

// messageAt finds the first message at or after an ordinal. After the last message, it
// returns the place where the next message enters.
func (t *tx) messageAt(q *queue, ordinal int64) (p logPlace, err error) {
	s := t.stmt("message_at").Int(1, q.id).Int(2, ordinal)
	row, err := s.Step()
	if err != nil {
		return p, err
	}
	if !row {
		n := &q.log.n
		return logPlace{n.last + 1, n.lastMs, n.enteredBytes}, nil
	}
	p = logPlace{s.ColInt(0), s.ColInt(1), s.ColInt(2)}
	s.Reset()
	return p, nil
}

// firstSince finds the first message that entered at ms or later. Entry times rise with
// the ordinals, so this is a binary search.
func (t *tx) firstSince(q *queue, ms int64) (logPlace, error) {
	n := &q.log.n
	low, high := n.first, n.last+1 // the message is in [low, high]
	for low < high {
		middle := low + (high-low)/2
		p, err := t.messageAt(q, middle)
		if err != nil {
			return p, err
		}
		if p.ordinal <= n.last && p.ms < ms {
			low = p.ordinal + 1
		} else {
			high = middle
		}
	}
	return t.messageAt(q, low)
}

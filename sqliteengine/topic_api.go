package sqliteengine

import (
	"context"
	"strings"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/batch"
	"github.com/dulymq/duly/internal/logcursor"
	"github.com/dulymq/duly/sqliteengine/internal/sqliteconn"
)

// Topics implements contract.TopicOperator.
func (e topicAPI) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	return e.namePage(ctx, p, "topic_names", contract.NamespaceOr(namespace))
}

// ConfigureTopic implements contract.TopicOperator.
func (e topicAPI) ConfigureTopic(ctx context.Context, ref duly.QueueRef, patch duly.TopicConfig) error {
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
func (e topicAPI) DestroyTopic(ctx context.Context, ref duly.QueueRef) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}

	var groups []duly.QueueRef
	err := e.change(ctx, func(t *tx) error {
		// A transaction runs again after a full disk, so it begins with no groups.
		groups = nil
		q := t.queue(ref.Normal())
		if q == nil || q.kind != kindTopic {
			return nil
		}
		// The list is replaced, never changed, so destroy does not disturb the loop.
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
func (e topicAPI) Topic(ctx context.Context, ref duly.QueueRef) (info duly.TopicInfo, err error) {
	err = e.onTopicSnapshot(ctx, ref, func(t readTx, q topicQueue) error {
		info.Config = q.log.cfg
		info.Stats, err = t.topicStats(q)
		return err
	})
	return info, err
}

// DelayedMessage implements contract.Topics.
func (e topicAPI) DelayedMessage(ctx context.Context, topic duly.QueueRef, key, id string) (m duly.Message, err error) {
	if err := contract.ValidateID(id); err != nil {
		return m, err
	}
	err = e.onTopicSnapshot(ctx, topic, func(t readTx, q topicQueue) error {
		found, err := q.findDelayed(t.tx, key, id)
		if err != nil {
			return err
		}
		if found == nil {
			return contract.NoMessage(topic, id)
		}
		m = found.public(q.ref)
		return nil
	})
	return m, err
}

// CancelDelayed implements contract.Topics.
func (e topicAPI) CancelDelayed(ctx context.Context, topic duly.QueueRef, key, id string) error {
	if err := contract.ValidateID(id); err != nil {
		return err
	}
	return e.onTopic(ctx, topic, spaceNone, func(t *tx, q topicQueue) error {
		m, err := q.findDelayed(t, key, id)
		if err != nil {
			return err
		}
		if m == nil {
			return contract.NoMessage(topic, id)
		}
		q.log.n.canceled++
		return q.dropDelayed(t, m)
	})
}

// Delayed implements contract.Topics.
func (e topicAPI) Delayed(ctx context.Context, topic duly.QueueRef, p contract.DelayedParams) (
	page contract.DelayedPage, err error,
) {
	if err := contract.ValidatePage(&p.PageParams); err != nil {
		return page, err
	}

	from, err := parseDelayedCursor(p.Cursor)
	if err != nil {
		return page, err
	}

	err = e.onTopicSnapshot(ctx, topic, func(t readTx, q topicQueue) error {
		page = contract.DelayedPage{}
		// The query reads one row more than the page has, which shows whether another page follows.
		rows := t.stmt("delayed_list").Int(1, q.id).Int(2, from.due).Text(3, from.id).Text(4, from.key).Int(5,
			int64(p.Limit)+1).Int(6, boolean(p.Bodies))
		defer rows.Reset()
		var last delayedMessage
		bytes := 0
		for {
			row, err := rows.Step()
			if err != nil || !row {
				return err
			}
			m := scanDelayed(rows)
			bytes += len(m.body)
			// The first message always fits, so that every page advances.
			if n := len(page.Messages); n == p.Limit || n > 0 && bytes > duly.MaxBatchBytes {
				page.Next = delayedCursor(&last)
				return nil
			}
			page.Messages, last = append(page.Messages, m.public(q.ref)), m
		}
	})
	return page, err
}

// CreateGroup implements contract.TopicOperator.
func (e topicAPI) CreateGroup(ctx context.Context, ref duly.QueueRef, from duly.From) (existed bool, err error) {
	if err := contract.ValidateGroup(ref); err != nil {
		return false, err
	}

	ref = ref.Normal()
	topic, _, _ := ref.Group()
	parts, err := contract.ParseFromIn(from, topic, false)
	if err != nil {
		return false, err
	}

	err = e.changeWithSpace(ctx, spaceLarge, func(t *tx) error {
		// An existing group keeps its position.
		existed = t.peek(ref) != nil
		if existed {
			return nil
		}
		at, err := t.mayCreate(topic, from, parts)
		if err != nil {
			return err
		}
		q, err := t.makeTopic(topic)
		if err != nil {
			return err
		}
		return q.addGroup(t, ref, at)
	})
	return existed, err
}

// Groups implements contract.TopicOperator.
func (e topicAPI) Groups(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (page duly.NamePage, err error) {
	if err := contract.ValidateTopic(ref); err != nil {
		return page, err
	}
	if err := contract.ValidateNamePage(&p); err != nil {
		return page, err
	}

	err = e.onTopicSnapshot(ctx, ref, func(t readTx, q topicQueue) error {
		page = duly.NamePage{}
		s := t.stmt("group_names").Text(1, duly.GroupName(q.ref.Name, p.Cursor)).Int(2, int64(p.Limit)+1)
		// "A" follows "@", so the range holds exactly the groups of this topic.
		s.Text(3, q.ref.Namespace).Text(4, q.ref.Name+"A")
		return eachRow(s, func(s *sqliteconn.Stmt) {
			_, name, _ := strings.Cut(s.ColText(0), "@")
			page.Names = append(page.Names, name)
		})
	})

	if len(page.Names) > p.Limit {
		page.Names = page.Names[:p.Limit]
		page.Next = page.Names[p.Limit-1]
	}
	return page, err
}

// Seek implements contract.TopicOperator.
func (e topicAPI) Seek(ctx context.Context, ref duly.QueueRef, to duly.From) (r contract.SeekResult, err error) {
	topic, _, _ := ref.Normal().Group()
	err = contract.ValidateGroup(ref)
	var parts contract.FromParts
	if err == nil {
		parts, err = contract.ParseFromIn(to, topic, false)
	}
	if err != nil {
		return r, err
	}

	err = e.onGroup(ctx, ref, spaceNone, func(t *tx, q groupQueue, topic topicQueue) error {
		at, err := topic.findPlace(t, to, parts)
		if err != nil {
			return err
		}
		// The cursor moves before the messages are dropped, because moving it counts them.
		r = q.seek(at)
		if err := q.dropHeld(t); err != nil {
			return err
		}
		_, err = topic.floor(t)
		return err
	})

	if err == nil {
		// Some of the dropped messages may be running, so their handlers are canceled.
		e.cancels.Publish(ref.Normal().Namespace, contract.Canceled{Queue: ref.Name})
	}
	return r, err
}

// Publish implements contract.Topics. Like Push, it validates everything that does not depend
// on the topic on the caller's goroutine.
func (e topicAPI) Publish(ctx context.Context, messages []duly.Message) ([]duly.PublishResult, error) {
	size := contract.MessageBytes(messages)
	if err := contract.CheckBatch(len(messages), size); err != nil {
		return nil, err
	}
	if len(messages) == 0 {
		return []duly.PublishResult{}, e.checkOpen(ctx)
	}

	p := &publishCall{items: make([]publishItem, len(messages)), results: make([]duly.PublishResult, len(messages))}
	p.validate(e.store, messages, mayReturnEarly(ctx))
	for {
		if err := e.write(ctx, &op{Call: batch.Call{Items: len(messages), Bytes: size}, run: p.run, kind: opPush,
			space: spaceLarge}); err != nil {
			return nil, err
		}
		if !p.more {
			return p.results, nil
		}
	}
}

// Read implements contract.Topics. Every commit with new messages of the topic wakes a
// waiting reader.
func (e topicAPI) Read(ctx context.Context, ref duly.QueueRef, p contract.ReadParams) (contract.ReadPage, error) {
	if err := p.Validate(ref); err != nil {
		return contract.ReadPage{}, err
	}

	ref = ref.Normal()
	timeout := e.cfg.Clock.NewTimer(p.Wait)
	defer timeout.Stop()
	// The queue ID of the first page is kept, because another topic may get the same name.
	topic := int64(0)
	for {
		// The channel is obtained before the read, so that no message in between is missed.
		entered := e.notifier.entered(ref)
		page, err := e.readPage(ctx, ref, &p, &topic)
		if err != nil || len(page.Entries) > 0 || p.Wait == 0 {
			return page, err
		}
		// The position "end" means the end at the first read.
		p.From = page.Next
		select {
		case <-entered:
		case <-timeout.C:
			// A last read finds messages that entered together with the timeout.
			p.Wait = 0
		case <-ctx.Done():
			return contract.ReadPage{}, ctx.Err()
		case <-e.stopped:
			return contract.ReadPage{}, duly.ErrClosed
		}
	}
}

// readPage reads a page without waiting. It sets topic to the ID of the topic. If topic is set
// already, readPage returns ErrNotFound for another topic with the same name.
func (e topicAPI) readPage(ctx context.Context, ref duly.QueueRef, p *contract.ReadParams,
	topic *int64) (page contract.ReadPage, err error) {
	err = e.onTopicSnapshot(ctx, ref, func(t readTx, q topicQueue) error {
		page = contract.ReadPage{}
		if *topic != 0 && *topic != q.id {
			return contract.NoTopic(ref)
		}

		*topic = q.id
		next, err := t.readFrom(q, p.From)
		if err != nil {
			return err
		}

		if gone := uint64(q.log.n.first); next.Ordinal < gone {
			if f, _ := contract.ParseFrom(p.From); f.Kind == contract.KindPosition || f.Kind == contract.KindNext {
				// After "start" or a time, the reader expects no particular message, so there is no
				// gap.
				page.Gap = int64(gone - next.Ordinal)
			}
			next = logcursor.Place{Ordinal: gone}
		}

		return t.readEntries(q, next, p.Limit, &page)
	})
	return page, err
}

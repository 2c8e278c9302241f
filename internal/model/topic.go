package model

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// topic has the log of every shard, and the groups that read the log.
type topic struct {
	ref    duly.QueueRef
	cfg    duly.TopicConfig
	logs   []*log
	groups map[string]*queue
}

func newTopic(ref duly.QueueRef, cfg duly.TopicConfig) *topic {
	t := &topic{ref: ref, cfg: cfg, groups: map[string]*queue{}}
	for i := range cfg.Shards {
		t.logs = append(t.logs, &log{topic: t, index: i, seen: map[string]*seen{}})
	}
	return t
}

// groupNames lists the groups by name.
func (t *topic) groupNames() []string { return slices.Sorted(maps.Keys(t.groups)) }

// step lets due messages enter, trims every shard, and steps every group.
func (t *topic) step(now int64) (more bool) {
	for _, l := range t.logs {
		more = l.step(now) || more
	}
	for _, g := range t.groups {
		more = g.step(now) || more
	}
	return more
}

// moments passes the times at which delayed messages are due to soonest.
func (t *topic) moments(soonest func(int64)) {
	for _, l := range t.logs {
		l.moments(soonest)
	}
}

// usualTopic returns the configuration of a topic that was never configured.
func (e *Engine) usualTopic() duly.TopicConfig {
	c := contract.DefaultTopicConfig()
	c.Shards = e.cfg.Shards
	return c
}

// mayMakeTopic returns why a topic with that name cannot be made.
func (e *Engine) mayMakeTopic(ref duly.QueueRef) error {
	if e.queues[ref] != nil {
		return contract.IsQueue(ref)
	}
	return e.hasRoom(ref.Namespace)
}

// makeTopic returns the topic, and makes it if it does not exist.
func (e *Engine) makeTopic(ref duly.QueueRef, cfg duly.TopicConfig) (*topic, error) {
	if t := e.topics[ref]; t != nil {
		return t, nil
	}
	if err := e.mayMakeTopic(ref); err != nil {
		return nil, err
	}
	t := newTopic(ref, cfg)
	e.topics[ref] = t
	return t, nil
}

// beginTopic begins an operation on a topic that must exist. The caller unlocks e.mu
// unless there is an error.
func (e *Engine) beginTopic(ctx context.Context, ref duly.QueueRef) (*topic, error) {
	if err := contract.ValidateTopic(ref); err != nil {
		return nil, err
	}
	if err := e.begin(ctx); err != nil {
		return nil, err
	}
	t := e.topics[ref.Normal()]
	if t == nil {
		e.mu.Unlock()
		return nil, contract.NoTopic(ref)
	}
	return t, nil
}

// Topics implements contract.TopicOperator.
func (e *Engine) Topics(ctx context.Context, namespace string, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidateNamespace(namespace); err != nil {
		return duly.NamePage{}, err
	}
	return e.names(ctx, p, func(found *nameSet) {
		for ref := range e.topics {
			if ref.Namespace == contract.NamespaceOr(namespace) {
				found.add(ref.Name)
			}
		}
	})
}

// Groups implements contract.TopicOperator.
func (e *Engine) Groups(ctx context.Context, ref duly.QueueRef, p duly.PageParams) (duly.NamePage, error) {
	if err := contract.ValidateTopic(ref); err != nil {
		return duly.NamePage{}, err
	}
	var missing error
	page, err := e.names(ctx, p, func(found *nameSet) {
		t := e.topics[ref.Normal()]
		if t == nil {
			missing = contract.NoTopic(ref)
			return
		}
		for name := range t.groups {
			found.add(name)
		}
	})
	if err == nil {
		err = missing
	}
	return page, err
}

// Topic implements contract.TopicOperator.
func (e *Engine) Topic(ctx context.Context, ref duly.QueueRef) (duly.TopicInfo, error) {
	t, err := e.beginTopic(ctx, ref)
	if err != nil {
		return duly.TopicInfo{}, err
	}
	defer e.mu.Unlock()
	_, now := e.now()
	info := duly.TopicInfo{Config: t.cfg}
	for _, l := range t.logs {
		l.addStats(&info.Stats, now)
	}
	return info, nil
}

// addStats adds the shard's statistics to the topic's.
func (l *log) addStats(st *duly.TopicStats, now int64) {
	st.Messages += int64(len(l.messages))
	st.Bytes += l.bytes
	if n := len(l.messages); n > 0 {
		first, last := l.messages[0].position, l.messages[n-1].position
		if st.First == (duly.Position{}) || slices.Compare(first[:], st.First[:]) < 0 {
			st.First = first
		}
		if slices.Compare(last[:], st.Last[:]) > 0 {
			st.Last = last
		}
	}
	if st.Delayed += int64(len(l.delayed)); len(l.delayed) > 0 {
		if due := clock.FromMilli(l.delayed[0].due); st.NextDue.IsZero() || due.Before(st.NextDue) {
			st.NextDue = due
		}
	}

	c := &l.counters
	st.Published += c.Published
	st.Exists += c.Exists
	st.Entered += c.Entered
	st.Canceled += c.Canceled
	st.Trimmed += c.Trimmed
	st.Dropped += c.Dropped
	st.Forgotten += c.Forgotten
	if floor, ok := l.floor(now); ok {
		st.Floors = append(st.Floors, floor)
	}
}

// ConfigureTopic implements contract.TopicOperator.
func (e *Engine) ConfigureTopic(ctx context.Context, ref duly.QueueRef, patch duly.TopicConfig) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}
	if err := contract.ValidateTopicConfig(patch); err != nil {
		return err
	}
	if patch.Shards > 1 && e.cfg.OneShard {
		return contract.Errorf(duly.CodeUnsupported, "this engine supports only one shard per topic; leave shards out")
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.end()

	ref = ref.Normal()
	cfg := e.usualTopic()
	if t := e.topics[ref]; t != nil {
		cfg = t.cfg
		if patch.Shards != 0 && patch.Shards != cfg.Shards {
			return contract.Invalid("shards", "is %d since the topic was created; to change it, destroy the topic and create it again", cfg.Shards)
		}
	}
	cfg = contract.PatchTopicConfig(cfg, patch)
	if err := contract.CheckTopicConfig(cfg); err != nil {
		return err
	}
	t, err := e.makeTopic(ref, cfg)
	if err == nil {
		t.cfg = cfg
	}
	return err
}

// DestroyTopic implements contract.TopicOperator.
func (e *Engine) DestroyTopic(ctx context.Context, ref duly.QueueRef) error {
	if err := contract.ValidateTopic(ref); err != nil {
		return err
	}
	if err := e.begin(ctx); err != nil {
		return err
	}
	defer e.end()

	ref = ref.Normal()

	// A caller may repeat Destroy, so it also succeeds for an unknown topic (C12.32).
	t := e.topics[ref]
	if t == nil {
		return nil
	}

	// The groups are destroyed with their topic, so all their receipts become invalid.
	for _, g := range t.groups {
		delete(e.queues, g.ref)
		e.cancels.Publish(ref.Namespace, contract.Canceled{Queue: g.ref.Name})
	}
	delete(e.topics, ref)
	return nil
}

// newToken draws the token of a Reserve: 1 to 2⁶³−1.
func newToken() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails; see crypto/rand
	return max(1, binary.BigEndian.Uint64(b[:])>>1)
}

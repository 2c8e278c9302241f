package catalog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Catalog is what a process knows of queues and their configurations, and how it
// agrees on them with the others.
type Catalog struct {
	*Resets
	Cache     Cache
	Summaries Summaries
	cancels   *cancel.Reporter

	// OnChange, if set, is called with a queue whose configuration was read.
	OnChange func(q *Queue)
	// NewCalls makes what calls work with that use a shard.
	NewCalls func(q *Queue, s *Shard) any
}

// New returns an empty catalog. Removed jobs are reported to cancels.
func New(s *store.Store, cancels *cancel.Reporter) *Catalog {
	return &Catalog{
		Resets: &Resets{Store: s}, cancels: cancels,
		Cache: Cache{known: map[duly.QueueRef]*Queue{}, used: map[duly.QueueRef]*Queue{}},
	}
}

// askQueue asks for a queue's entry in its namespace's list; "" for none.
func (e *Catalog) askQueue(ctx context.Context, ref duly.QueueRef) (string, error) {
	results, err := e.AskMark(
		ctx, ref.Namespace, nil,
		[]rueidis.Completed{e.Link.B().Hget().Key(e.ConfigsKey(ref.Namespace)).Field(ref.Name).Build()},
	)
	if err != nil {
		return "", err
	}
	return codec.Text(&results[0].Msg), nil
}

// Find is the queue, or nil if there is none.
func (e *Catalog) Find(ctx context.Context, ref duly.QueueRef) (*Queue, error) {
	if topic, group, ok := ref.Group(); ok {
		q, err := e.Find(ctx, topic)
		return q.Group(group), err
	}
	if q := e.Cache.Get(ref); q != nil {
		return q, nil
	}
	q, err := e.Read(ctx, ref)
	if q == nil || q.Tomb {
		return nil, err
	}
	return q, nil
}

// Read asks the namespace's list for the queue; nil if it is not there.
func (e *Catalog) Read(ctx context.Context, ref duly.QueueRef) (*Queue, error) {
	if topic, group, ok := ref.Group(); ok {
		q, err := e.Read(ctx, topic)
		return q.Group(group), err
	}
	was := e.Cache.Get(ref)
	value, err := e.askQueue(ctx, ref)
	if err != nil {
		return nil, err
	}
	if value == "" {
		e.Cache.Forget(was)
		return nil, nil
	}
	if was != nil && was.Value == value {
		return e.remember(was), nil
	}

	q, err := e.ReadQueue(ref, value)
	if err != nil {
		return nil, err
	}
	if q.Tomb {
		e.Cache.Forget(was)
		return q, nil
	}

	return e.remember(q), nil
}

// remember caches a configuration that was read from the list, and calls OnChange,
// which wakes waiters.
func (e *Catalog) remember(q *Queue) *Queue {
	q = e.Cache.put(q)
	if e.OnChange != nil {
		e.OnChange(q)
	}
	return q
}

// ReadQueue reads a stored configuration, as this package has written it:
// nothing is missing, and nothing is beyond its bounds.
func (e *Catalog) ReadQueue(ref duly.QueueRef, value string) (*Queue, error) {
	var s storedConfig
	if numberOf(value) == 0 || json.Unmarshal([]byte(value[VersionSize:]), &s) != nil {
		return nil, e.unreadable(ref, "it is cut short or damaged")
	}
	if err := checkLayout(ref, s.Layout); err != nil {
		return nil, err
	}

	q := &Queue{Ref: ref, Value: value, Version: value[:VersionSize], Tomb: s.Gone}
	q.Config = s.config()
	if err := complete(q.Config); err != nil {
		return nil, e.unreadable(ref, err.(*duly.Error).Message)
	}

	if s.Topic != nil {
		t, err := s.Topic.read(s.Shards)
		if err != nil {
			return nil, e.unreadable(ref, err.(*duly.Error).Message)
		}
		q.Topic = t
	}

	q.PlainDefaults = q.Config.Defaults == contract.FillDefaults(duly.Defaults{}) && q.Config.Delivery == duly.DeliverPull
	q.Shards = make([]*Shard, s.Shards)
	for i := range q.Shards {
		q.Shards[i] = &Shard{Index: i, Tag: store.ShardTag(e.Prefix, ref, i), Limits: packLimits(q.Config, i)}
	}

	return q, nil
}

func (e *Catalog) unreadable(ref duly.QueueRef, why string) error {
	return contract.Errorf(
		duly.CodeCorrupt,
		"the configuration of queue %s can't be read (%s): "+
			"something else has written to the key %s, or to the queue's shards; run duly check --repair",
		ref, why, e.ConfigsKey(ref.Namespace),
	)
}

// NextVersion returns a version after was and after others that were found. An
// empty was begins a queue's life. The version follows the wall clock of this
// process, and rises in any case.
func (e *Catalog) NextVersion(was string, others ...string) string {
	number, birth := uint64(e.Local().Now().UnixMicro()), newMark()
	for _, other := range append(others, was) {
		number = max(number, numberOf(other)+1)
	}
	if was != "" {
		birth = was[8:VersionSize]
	}
	return string(binary.BigEndian.AppendUint64(nil, number)) + birth
}

// newMark returns a birth mark.
func newMark() string {
	mark := make([]byte, 8)
	rand.Read(mark)
	return string(mark)
}

// State returns a shard's state, and creates it if there is none.
func (e *Catalog) State(q *Queue, s *Shard) *State {
	for {
		if g := s.State.Load(); g != nil {
			if !g.used.Load() {
				g.used.Store(true)
			}
			return g
		}
		g := &State{names: store.AppendKeys(make([]string, 0, len(store.ShardKeys)), s.Tag, store.ShardKeys[:]), Calls: e.NewCalls(q, s)}
		if s.State.CompareAndSwap(nil, g) {
			e.Cache.markUsed(q)
		}
	}
}

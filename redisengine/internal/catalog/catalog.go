package catalog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/adaptive"
	"github.com/dulymq/duly/redisengine/internal/cancel"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Catalog caches the queues and their configurations that a process uses, and updates them after
// changes by other processes.
type Catalog struct {
	*Resets
	Cache     Cache
	Summaries Summaries
	cancels   *cancel.Reporter
	// LimitLog has the lines about closings and adaptive limits.
	LimitLog adaptive.Log

	// OnChange, if set, is called with a queue whose configuration was read.
	OnChange func(q *Queue)
	// Ticks fires the ticks of schedules.
	Ticks Ticks
	// NewCalls creates the call state of a shard on first use.
	NewCalls func(q *Queue, s *Shard) any
}

// Ticks fires the ticks of schedules. The calls that find a due tick report it here.
type Ticks interface {
	// Start starts to fire the due ticks of a shard, unless a pass is running already. It returns
	// false if this process pauses the shard's ticks, because it could not fire them shortly
	// before.
	Start(at ShardRef) bool
	// Round reads the due schedules of a shard once and fires their ticks. more reports whether
	// another round may find due ticks. If a round is running already, Round waits for its end.
	Round(ctx context.Context, at ShardRef) (more bool, err error)
	// Keep makes this process fire the ticks of a shard on time. tick is the time of the first
	// tick.
	Keep(at ShardRef, tick int64, r store.Reading)
}

// New returns an empty catalog. It reports removed jobs to cancels.
func New(s *store.Store, cancels *cancel.Reporter) *Catalog {
	return &Catalog{
		Resets: &Resets{Store: s}, cancels: cancels,
		Cache: Cache{known: map[duly.QueueRef]*Queue{}, used: map[duly.QueueRef]*Queue{}},
	}
}

// askQueue reads a queue's entry in its namespace's list. It returns "" if there is none.
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

// Find returns a queue from the cache or the list, or nil if there is none.
func (e *Catalog) Find(ctx context.Context, ref duly.QueueRef) (*Queue, error) {
	if topic, group, ok := ref.Group(); ok {
		q, err := e.Find(ctx, topic)
		return q.Group(group), err
	}
	if q := e.Cache.Get(ref); q != nil {
		return q, nil
	}
	q, err := e.Read(ctx, ref)
	// A queue that is being destroyed no longer exists for callers.
	if q == nil || q.Tomb {
		return nil, err
	}
	return q, nil
}

// Read reads a queue from the namespace's list. It returns nil if the list has none.
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
	// Equal values keep the cached queue, so concurrent calls continue sharing batches.
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

// remember caches a configuration from the list and calls OnChange, which wakes waiters.
func (e *Catalog) remember(q *Queue) *Queue {
	q = e.Cache.put(q)
	if e.OnChange != nil {
		e.OnChange(q)
	}
	return q
}

// ReadQueue parses a stored configuration. It fails unless every field is present and within its
// bounds.
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

	// Pushes of bare jobs need no policy in such a queue.
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

// NextVersion returns a version that is higher than was and the other given versions. If was is
// empty, it starts a new epoch. The version follows this process's wall clock, and always rises.
func (e *Catalog) NextVersion(was string, others ...string) string {
	number, birth := uint64(e.Local().Now().UnixMicro()), newMark()
	for _, other := range append(others, was) {
		// If this process's clock is behind, the version must rise nevertheless.
		number = max(number, numberOf(other)+1)
	}
	// The epoch lasts as long as the queue.
	if was != "" {
		birth = was[8:VersionSize]
	}
	return string(binary.BigEndian.AppendUint64(nil, number)) + birth
}

// newMark returns a random epoch mark.
func newMark() string {
	mark := make([]byte, 8)
	rand.Read(mark)
	return string(mark)
}

// State returns a shard's state. It creates it on first use.
func (e *Catalog) State(q *Queue, s *Shard) *State {
	for {
		if g := s.State.Load(); g != nil {
			// Storing only once keeps the cache line shared between the cores.
			if !g.used.Load() {
				g.used.Store(true)
			}
			return g
		}
		g := &State{names: store.AppendKeys(make([]string, 0, len(store.ShardKeys)), s.Tag, store.ShardKeys[:]),
			Calls: e.NewCalls(q, s)}
		// If another caller was faster, the next round of the loop returns the state of that
		// caller.
		if s.State.CompareAndSwap(nil, g) {
			e.Cache.markUsed(q)
		}
	}
}

package catalog

import (
	"context"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/codec"
	"github.com/dulymq/duly/redisengine/internal/link"
	"github.com/dulymq/duly/redisengine/internal/store"
)

// Create returns a queue, and creates it if there is none: first in the list, then in the shards,
// then its jobs. The patch has the fields that differ from the contract's defaults.
func (e *Catalog) Create(ctx context.Context, ref duly.QueueRef, patch duly.QueueConfig) (*Queue, error) {
	q, err := e.create(ctx, ref, func(version string) string {
		return PackConfig(version, contract.PatchConfig(e.QueueConfig(), patch), false)
	})
	if err == nil && q.Topic != nil {
		return nil, contract.IsTopic(ref)
	}
	return q, err
}

// create returns a queue or a topic. If there is none, it stores what pack returns.
func (e *Catalog) create(ctx context.Context, ref duly.QueueRef, pack func(version string) string) (*Queue, error) {
	c := e.Retry(ctx)
	for c.Next() {
		q, err := e.Read(ctx, ref)
		switch {
		case err != nil:
			return nil, err
		case q != nil && q.Tomb:
			// The remains of the old queue would become part of the new one.
			if err := e.FinishDestroy(ctx, q); err != nil {
				return nil, err
			}
			continue
		case q != nil:
			return q, nil
		}

		left, held, err := e.ShardConfig(ctx, ref, 0)
		if err != nil {
			return nil, err
		}

		// The list was lost, but the shard still has the queue.
		if held != nil {
			if err := e.restore(ctx, held); err != nil {
				return nil, err
			}
			continue
		}

		// A missing mark later shows that the store was lost, so it is set before the queue.
		if err := e.markNamespace(ctx, ref.Namespace); err != nil {
			return nil, err
		}

		if q, err = e.Put(ctx, store.ScriptQueuePut, ref, "", pack(e.NextVersion("", left))); err != nil {
			return nil, err
		}
		// nil means that another process was faster; the next attempt reads its queue.
		if q != nil {
			return q, e.Propagate(ctx, q, q.Shards...)
		}
	}

	return nil, c.Failed("queue %s is created and destroyed all the time", ref)
}

// FinishDestroy finishes the destruction of a queue that the list marks as being destroyed: first
// every shard, then the list's entry.
func (e *Catalog) FinishDestroy(ctx context.Context, q *Queue) error {
	calls := make([]link.Call, len(q.Shards))
	for i, s := range q.Shards {
		calls[i] = DestroyCall(q, s)
	}
	for _, r := range e.Link.RunAll(ctx, calls) {
		if r.Err != nil {
			return r.Err
		}
	}
	if q.Topic == nil {
		e.cancels.Report(q.Ref)
	} else {
		for _, name := range q.Topic.Names() {
			e.cancels.Report(duly.QueueRef{Namespace: q.Ref.Namespace, Name: duly.GroupName(q.Ref.Name, name)})
		}
	}

	// The entry is removed last: if this process dies before, another process finishes the work.
	_, err := e.Put(ctx, store.ScriptQueueSet, q.Ref, q.Value, "")
	return err
}

// UnknownConfig is the Value of a Stale shard whose configuration was not read.
const UnknownConfig = "?"

// Sync brings this process and a shard to the configuration in the namespace's list. The process
// that changed it may have died before all shards had it.
func (e *Catalog) Sync(ctx context.Context, q *Queue, other *Stale) error {
	q = q.Base()
	now, err := e.Read(ctx, q.Ref)
	switch {
	case err != nil:
		return err
	case now == nil:
		// The queue was destroyed, or the list was lost.
		held, err := e.parse(q.Ref, other.Value)
		if err != nil || held == nil {
			return err
		}
		// The shard may have answered before the queue was destroyed, so it is read again.
		if _, held, err = e.ShardConfig(ctx, q.Ref, other.Shard.Index); err != nil || held == nil {
			return err
		}
		return e.restore(ctx, held)
	case now.Tomb:
		return e.FinishDestroy(ctx, now)
	case len(other.Value) >= VersionSize && other.Value[:VersionSize] == now.Version:
		// Only this process was behind.
		return nil
	case other.Shard == nil || other.Value == UnknownConfig:
		return e.Propagate(ctx, now, now.Shards...)
	case other.Value == "" && now.Version == q.Version && other.lost():
		e.lost(q.Ref, "store reset: a shard has lost its data; a server came back empty, or was flushed", "shard",
			other.Shard.Index)
	case other.Value != "" && numberOf(other.Value) == 0:
		// A damaged value does not show which of the two is newer.
		e.Settings.Logger.Error("a shard's configuration is cut short or damaged: something else has written there; the "+
			"shard gets it again",
			"queue", q.Ref.String(), "shard", other.Shard.Index)
	case numberOf(other.Value) > numberOf(now.Version):
		// The shard has a higher version than the list. Either the list has lost a change, or a
		// process whose clock was ahead destroyed the queue and left its version in the shard.
		if now, err = e.Replace(ctx, now, now.pack(e.NextVersion(now.Version, other.Value), false)); err != nil ||
			now == nil {
			return err
		}
	}

	return e.Propagate(ctx, now, now.Shards[other.Shard.Index%len(now.Shards)])
}

// parse returns the queue that a shard's configuration describes. It returns nil for an empty
// value, a destroyed queue, and a damaged value.
func (e *Catalog) parse(ref duly.QueueRef, value string) (*Queue, error) {
	if numberOf(value) == 0 {
		return nil, nil
	}
	q, err := e.ReadQueue(ref, value)
	switch {
	case duly.CodeOf(err) == duly.CodeCorrupt:
		e.Settings.Logger.Error(
			"a shard's configuration can't be read: something else has written there; it counts as none",
			"queue", ref.String())
		return nil, nil
	case err != nil || q.Tomb:
		return nil, err
	}
	return q, nil
}

// ShardConfig reads the configuration of a shard. It returns the stored value and the queue that it
// describes.
func (e *Catalog) ShardConfig(ctx context.Context, ref duly.QueueRef, index int) (left string, held *Queue,
	err error) {
	msg, err := e.Link.Do(ctx, e.Link.B().Get().Key(store.ShardTag(e.Prefix, ref, index)+"config").Build())
	if err != nil {
		return "", nil, err
	}
	left = codec.Text(&msg)
	held, err = e.parse(ref, left)
	return left, held, err
}

// restore adds a queue to the list of its namespace. The list has lost the queue with a node of
// a cluster, but the shards of the queue still exist. Or the whole store was flushed while a process
// was sending the configuration to a shard, so the shard got it after the flush.
func (e *Catalog) restore(ctx context.Context, held *Queue) error {
	ref := held.Ref
	if err := e.markNamespace(ctx, ref.Namespace); err != nil {
		return err
	}
	now, err := e.Put(ctx, store.ScriptQueueSet, ref, "", held.pack(e.NextVersion(held.Version), false))
	// nil means that another process has created or restored the queue since.
	if err != nil || now == nil {
		return err
	}
	if e.Marks.lostSince(ref.Namespace, held.Version) {
		// The loss of the namespace is in the log already.
		e.Settings.Logger.Warn("a queue that its shards still have was added to its namespace's list again",
			"queue", ref.String())
	} else {
		e.lost(ref, "store reset: a namespace's list has lost a queue that its shards still have; it was added again")
	}

	return e.Propagate(ctx, now, now.Shards...)
}

// Propagate stores the configuration of a queue in its shards. A shard with a newer one keeps it.
func (e *Catalog) Propagate(ctx context.Context, q *Queue, shards ...*Shard) error {
	calls := make([]link.Call, len(shards))
	for i, s := range shards {
		calls[i] = e.configureCall(q, s)
	}
	for i, r := range e.Link.RunAll(ctx, calls) {
		if r.Err != nil {
			return r.Err
		}
		e.noteLimits(q, codec.Elements(&r.Msg))
		shards[i].meet()
	}
	return nil
}

// Replace stores a configuration in the namespace's list in place of was. It returns nil if the
// list has changed since.
func (e *Catalog) Replace(ctx context.Context, was *Queue, value string) (*Queue, error) {
	return e.Put(ctx, store.ScriptQueueSet, was.Ref, was.Value, value)
}

// Put is like Replace for a queue that may be new. The script is ScriptQueuePut, which fails in a full
// namespace, or ScriptQueueSet.
func (e *Catalog) Put(ctx context.Context, sc *store.Script, ref duly.QueueRef, was, value string) (*Queue, error) {
	before, after := isPush(was), isPush(value)
	// The list of push queues is updated first, so that it never lacks a push queue.
	if after {
		if err := e.listPushQueue(ctx, ref, true); err != nil {
			return nil, err
		}
	}
	q, err := e.put(ctx, sc, ref, was, value)
	// If the change was refused, the process that changed the queue first updates the list of push
	// queues.
	if changed := q == nil && value != ""; err == nil && !changed && (before || after) {
		err = e.listPushQueue(ctx, ref, after)
	}
	return q, err
}

// listPushQueue adds a queue to the list of push queues or removes it. It announces that the
// configuration has changed.
func (e *Catalog) listPushQueue(ctx context.Context, ref duly.QueueRef, there bool) error {
	mark := ""
	if there {
		mark = "1"
	}
	_, err := e.Link.Run(ctx, link.Call{
		Script: scriptPushQueue, Keys: []string{e.TokenKey("pushed"), e.TokenKey("changes")},
		Args: []string{ref.String(), mark},
	})
	return err
}

var scriptPushQueue, _ = store.LoadAny("push_queue")

func (e *Catalog) put(ctx context.Context, sc *store.Script, ref duly.QueueRef, was, value string) (*Queue, error) {
	known := e.Cache.Get(ref)
	msg, err := e.Link.Run(ctx, link.Call{
		Script: sc.Script, Keys: []string{e.ListKey(ref.Namespace, was, value), e.ConfigsKey(ref.Namespace)},
		Args: []string{ref.Name, was, value, strconv.Itoa(e.Settings.MaxQueues)},
	})

	if err != nil {
		return nil, err
	}

	switch word := codec.Text(&codec.Elements(&msg)[0]); {
	case word == "changed":
		e.Cache.Forget(known)
		return nil, nil
	case word == "full":
		return nil, contract.NamespaceFull(ref.Namespace, e.Settings.MaxQueues)
	case value == "":
		e.Cache.Forget(known)
		return nil, nil
	}

	q, err := e.ReadQueue(ref, value)
	if err != nil || q.Tomb {
		return q, err
	}

	return e.remember(q), nil
}
